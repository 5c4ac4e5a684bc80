//! One slow replica of sixteen, and tails that are merely long.

use hedgerow_tuner::Plateau;

use crate::common::OTEL;
use crate::service::{LOGNORMAL, Service};
use crate::simulation::{INTERVAL, Simulation};

/// One slow replica of 16: 6.25 % of the attempts take 20 times as long.
const ONE_OF_SIXTEEN: Service = Service::with_slow_share(0.04, 0.5, 1.0 / 16.0);
/// Bounds that are a fifth apart, from 5 ms to 8 s.
const FINE: &[f64] = &{
    let mut bounds = [0.005; 42];
    let mut index = 1;
    while index < bounds.len() {
        bounds[index] = bounds[index - 1] * 1.2;
        index += 1;
    }
    bounds
};

fn simulation(service: Service, bounds: &'static [f64], counted: bool, seed: u64) -> Simulation {
    let median = service.median * 1.17_f64.powi(i32::try_from(seed).unwrap());
    let mut simulation = Simulation::new(Service { median, ..service }, 10.0, bounds, seed);
    simulation.rules.counted = counted;
    simulation
}

#[test]
fn under_a_slow_mode_ten_times_fewer_calls_are_slow() {
    for counted in [false, true] {
        for seed in 0..4 {
            let slow = |plateau: Plateau| {
                let mut simulation = simulation(ONE_OF_SIXTEEN, FINE, counted, seed);
                simulation.rules.delay.plateau = plateau;
                simulation.run(3600);
                simulation.count_from_here();
                simulation.run(4 * 3600);
                let share = simulation.share_past_delay();
                assert!((0.025..=0.1).contains(&share), "{plateau:?}: {share}");
                assert!(
                    simulation.changes_in_the_worst_hour() <= 2,
                    "{plateau:?}: {:?}",
                    simulation.changes
                );
                simulation.slow_share()
            };
            let (ignored, followed) = (slow(Plateau::Ignore), slow(Plateau::Follow));
            assert!(followed * 10.0 < ignored, "{ignored} to {followed}");
        }
    }
}

#[test]
fn wide_buckets_find_it_too_and_stay_calm() {
    for counted in [false, true] {
        for seed in 0..6 {
            let mut simulation = simulation(ONE_OF_SIXTEEN, OTEL, counted, seed);
            simulation.run(3600);
            simulation.count_from_here();
            simulation.run(4 * 3600);
            let share = simulation.share_past_delay();
            assert!((0.025..=0.1).contains(&share), "{share}");
            assert!(
                simulation.changes_in_the_worst_hour() <= 2,
                "{:?}",
                simulation.changes
            );
        }
    }
}

#[test]
fn a_replica_that_becomes_slow_and_is_mended_is_followed_both_ways() {
    for counted in [false, true] {
        for seed in 0..4 {
            let mut simulation = simulation(Service::lognormal(0.04, 0.5), FINE, counted, seed);
            let healthy = simulation.service;
            let before = simulation.run(2 * 3600).orders.hedging.unwrap().delay_ms;
            simulation.service.shape = ONE_OF_SIXTEEN.shape;
            let under = simulation.run(2 * 3600).orders.hedging.unwrap().delay_ms;
            assert!((0.7..=1.7).contains(&(under / before)), "{before} to {under}");
            simulation.count_from_here();
            simulation.run(3600);
            assert!(simulation.slow_share() < 0.01, "{}", simulation.slow_share());
            simulation.service = healthy;
            simulation.run(2 * 3600);
            simulation.count_from_here();
            simulation.run(2 * 3600);
            let share = simulation.share_past_delay();
            assert!((0.025..=0.075).contains(&share), "{share}");
        }
    }
}

#[test]
fn tails_that_are_merely_long_are_tuned_as_if_there_were_no_such_rule() {
    for (sigma, bounds) in [(0.1, OTEL), (0.5, FINE), (1.0, OTEL), (1.0, FINE), (1.4, FINE)] {
        for (percent, quantile) in [(10.0, 0.95), (10.0, 0.99), (40.0, 0.95)] {
            let mut both = [Plateau::Follow, Plateau::Ignore].map(|plateau| {
                let mut simulation = Simulation::new(Service::lognormal(0.04, sigma), 10.0, bounds, 7);
                simulation.rules.delay.plateau = plateau;
                (simulation.rules.budget.percent, simulation.rules.delay.quantile) = (percent, quantile);
                simulation
            });
            for _ in 0..2 * 3600 / INTERVAL {
                let [follow, ignore] = both.each_mut().map(|simulation| simulation.step().orders);
                assert_eq!(follow, ignore, "sigma {sigma}, B {percent} %, q {quantile}");
            }
        }
    }
}

#[test]
fn clients_that_do_not_hedge_yet_do_not_make_a_slow_mode() {
    for seed in 0..4 {
        let mut simulation = simulation(LOGNORMAL, OTEL, false, seed);
        simulation.deaf = true;
        for _ in 0..4 * 3600 / INTERVAL {
            let decision = simulation.step();
            assert!(
                !decision.message.to_string().contains("slow mode"),
                "{decision:?}"
            );
        }
    }
}
