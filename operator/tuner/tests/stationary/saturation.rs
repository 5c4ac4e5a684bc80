//! Queues of many replicas, of which some are noisy.

use hedgerow_tuner::{Line, Reason, SignalRules};

use crate::common::OTEL;
use crate::service::LOGNORMAL;
use crate::simulation::{INTERVAL, Simulation};

/// A healthy fleet with one queue per replica, and hedging on.
fn fleet(replicas: usize) -> Simulation {
    let mut simulation = Simulation::new(LOGNORMAL, 5.0, OTEL, 0);
    let line = Line::Value {
        off_above: 50.0,
        on_below: 35.0,
        at_least: None,
    };
    let name = "queue".to_owned();
    simulation.rules.switch.signals = vec![SignalRules { name, line }];
    simulation.queue = vec![3.0; replicas];
    assert!(simulation.run(3600).orders.hedging.is_some());
    simulation
}

#[test]
fn one_noisy_series_never_switches_a_fleet_off() {
    for replicas in [20, 100] {
        let mut simulation = fleet(replicas);
        for step in 0..4 * 3600 / INTERVAL {
            simulation.queue = vec![3.0; replicas];
            simulation.queue[usize::try_from(step).unwrap() % replicas] = 1e6;
            assert!(simulation.step().orders.hedging.is_some());
        }
    }
}

#[test]
fn as_many_as_it_takes_switch_it_off_at_once_and_it_comes_back_through_the_ramp() {
    // Two series, or 10 % of them if that is more.
    for (replicas, enough) in [(20, 2), (100, 10)] {
        let mut simulation = fleet(replicas);
        simulation.queue[..enough - 1].fill(60.0);
        assert!(simulation.step().orders.hedging.is_some());
        simulation.queue[..enough].fill(60.0);
        let decision = simulation.step();
        assert_eq!(
            (decision.orders.hedging, decision.reason),
            (None, Reason::Saturated)
        );
        simulation.queue.fill(3.0);
        let mut percents: Vec<f64> = (0..1800 / INTERVAL)
            .filter_map(|_| simulation.step().orders.hedging.map(|hedging| hedging.percent))
            .collect();
        percents.dedup();
        assert_eq!(percents, [2.5, 5.0, 10.0]);
    }
}
