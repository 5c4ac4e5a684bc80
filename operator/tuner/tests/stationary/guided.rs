//! What counters of hedges do to the delay and the budget: the loop closed, in virtual time.

use hedgerow_tuner::{Mode, Plateau};

use crate::common::{DEFAULT, OTEL};
use crate::service::{HELP_DESK, LOGNORMAL, Service};
use crate::simulation::{INTERVAL, Simulation};

/// The share of calls that a p95 is to let pass.
const SHARES: std::ops::RangeInclusive<f64> = 0.025..=0.075;

fn counting(service: Service, calls_per_second: f64, bounds: &'static [f64], seed: u64) -> Simulation {
    let mut simulation = Simulation::new(service, calls_per_second, bounds, seed);
    simulation.rules.counted = true;
    simulation
}

/// Runs hour by hour: the share past the delay and the changes in each.
fn by_the_hour(
    simulation: &mut Simulation,
    hours: u32,
    mut check: impl FnMut(&Simulation, f64),
) -> Vec<(f64, usize)> {
    let hour = |_| {
        simulation.count_from_here();
        for _ in 0..3600 / INTERVAL {
            if let Some(hedging) = simulation.step().orders.hedging {
                check(simulation, hedging.delay_ms / 1e3);
            }
        }
        (simulation.share_past_delay(), simulation.changes.len())
    };
    (0..hours).map(hour).collect()
}

fn assert_right_and_calm(hours: &[(f64, usize)], name: &str) {
    for &(share, changes) in hours {
        assert!(
            SHARES.contains(&share),
            "{name}: {share} of the calls past the delay: {hours:.3?}"
        );
        assert!(changes <= 2, "{name}: {changes} changes in an hour: {hours:.3?}");
    }
}

/// The lower edge of the bucket that holds `quantile`; of the one before if that is nearly its edge.
fn bracket(bounds: &[f64], quantile: f64) -> f64 {
    let below = |bound: &&f64| **bound < quantile * 0.95;
    bounds.iter().rev().find(below).copied().unwrap_or(0.0)
}

#[test]
fn within_any_bucket_the_share_is_right_after_an_hour() {
    // A lognormal of sigma 0.1 has all of its tail in one bucket; a gain of 0.3 would swing its share from 0.1 to 26 %.
    for (sigma, bounds) in [(0.1_f64, OTEL), (0.5, OTEL), (1.0, OTEL), (1.0, DEFAULT)] {
        for seed in 0..5 {
            let median = 0.04 * 1.17_f64.powi(seed);
            let lower = bracket(bounds, median * (1.645 * sigma).exp());
            let mut simulation = counting(
                Service::lognormal(median, sigma),
                10.0,
                bounds,
                u64::try_from(seed).unwrap(),
            );
            let mut never_below =
                |_: &Simulation, delay: f64| assert!(delay >= lower, "{delay} is below {lower}");
            by_the_hour(&mut simulation, 1, &mut never_below);
            let hours = by_the_hour(&mut simulation, 4, &mut never_below);
            assert_right_and_calm(&hours, &format!("sigma {sigma}, median {median}"));
        }
    }
}

#[test]
fn a_slower_service_takes_longer_to_get_there() {
    // Twenty minutes of calls make a measurement at one call a second.
    for sigma in [0.1, 0.5, 1.0] {
        for seed in 0..5 {
            let median = 0.04 * 1.17_f64.powi(seed);
            let mut simulation = counting(
                Service::lognormal(median, sigma),
                1.0,
                OTEL,
                u64::try_from(seed).unwrap(),
            );
            by_the_hour(&mut simulation, 3, |_, _| {});
            let hours = by_the_hour(&mut simulation, 4, |_, _| {});
            assert_right_and_calm(&hours, &format!("sigma {sigma}, median {median}"));
        }
    }
}

#[test]
fn a_budget_under_the_percentiles_share_binds_and_shortens_nothing() {
    for seed in 0..3 {
        let mut simulation = counting(LOGNORMAL, 10.0, OTEL, seed);
        simulation.rules.budget.percent = 3.0;
        by_the_hour(&mut simulation, 1, |_, _| {});
        let hours = by_the_hour(&mut simulation, 4, |_, _| {});
        assert_right_and_calm(&hours, "B 3 %");
        assert!(simulation.hedge_share() <= 0.031, "{}", simulation.hedge_share());
    }
}

#[test]
fn clients_that_do_not_count_what_they_keep_back_are_only_corrected_upwards() {
    for seed in 0..3 {
        let mut simulation = counting(LOGNORMAL, 10.0, OTEL, seed);
        simulation.blocked_known = false;
        simulation.run(1800);
        let mut least: f64 = 0.0;
        let hours = by_the_hour(&mut simulation, 4, |_, delay| {
            assert!(delay >= least, "{delay} after {least}");
            least = delay;
        });
        assert!(hours.iter().all(|&(share, _)| share <= 0.075), "{hours:.3?}");
    }
}

#[test]
fn tight_latency_that_slows_down_by_nine_per_cent_is_followed() {
    // A lognormal of sigma 0.05 around 60 ms, all of it within the bucket from 50 to 75 ms: 9 % slower, and half of the calls
    // pass what 5 % passed. The budget holds the hedges meanwhile.
    for seed in 0..4 {
        let mut simulation = counting(Service::lognormal(0.058, 0.05), 10.0, OTEL, seed);
        by_the_hour(&mut simulation, 2, |_, _| {});
        let before = simulation.share_past_delay();
        assert!(SHARES.contains(&before), "{before}");
        simulation.service.median *= 1.09;
        simulation.count_from_here();
        simulation.run(1800);
        assert!(simulation.hedge_share() <= 0.105, "{}", simulation.hedge_share());
        let hours = by_the_hour(&mut simulation, 3, |_, _| {});
        assert!(
            hours[1..].iter().all(|(share, _)| SHARES.contains(share)),
            "{hours:.3?}"
        );
    }
}

#[test]
fn latency_that_grows_beyond_its_bucket_is_followed_at_once() {
    for seed in 0..3 {
        let mut simulation = counting(LOGNORMAL, 10.0, OTEL, seed);
        simulation.run(2 * 3600);
        simulation.service.median *= 3.0; // The p95 from 0.21 to 0.62 s
        simulation.run(900);
        let delay_ms = simulation.step().orders.hedging.unwrap().delay_ms;
        assert!(delay_ms >= 500.0, "{delay_ms}");
        by_the_hour(&mut simulation, 1, |_, _| {});
        let hours = by_the_hour(&mut simulation, 2, |_, _| {});
        assert_right_and_calm(&hours, "three times slower");
        simulation.service.median /= 3.0;
        by_the_hour(&mut simulation, 1, |_, _| {});
        assert_right_and_calm(&by_the_hour(&mut simulation, 2, |_, _| {}), "and back");
    }
}

#[test]
fn counters_that_fail_for_an_hour_shorten_nothing() {
    for seed in 0..3 {
        let mut simulation = counting(Service::lognormal(0.04, 0.1), 10.0, OTEL, seed);
        let before = simulation.run(2 * 3600).orders.hedging.unwrap().delay_ms;
        simulation.counters_lost = true;
        by_the_hour(&mut simulation, 1, |_, delay| assert!(delay * 1e3 >= before));
        simulation.counters_lost = false;
        by_the_hour(&mut simulation, 1, |_, _| {});
        assert_right_and_calm(&by_the_hour(&mut simulation, 2, |_, _| {}), "counters are back");
    }
}

#[test]
fn clients_that_do_not_hedge_yet_leave_the_delay_in_its_bucket() {
    for seed in 0..3 {
        let mut simulation = counting(LOGNORMAL, 10.0, OTEL, seed);
        simulation.deaf = true;
        by_the_hour(&mut simulation, 4, |_, delay| assert!(delay >= 0.1, "{delay}"));
    }
}

#[test]
fn observe_counts_nothing_and_tells_clients_nothing() {
    let mut simulation = counting(LOGNORMAL, 10.0, OTEL, 0);
    simulation.rules.mode = Mode::Observe;
    for _ in 0..4 * 3600 / INTERVAL {
        let decision = simulation.step();
        assert_eq!(decision.orders.hedging, None);
    }
    assert!(simulation.hedge_share() <= 0.0);
    // What comes then goes through the ramp.
    simulation.rules.mode = Mode::Enforce;
    let percents = percents(&mut simulation, 1800);
    assert_eq!(percents, [2.5, 5.0, 10.0]);
}

/// The budgets that are published, one after another.
fn percents(simulation: &mut Simulation, seconds: u32) -> Vec<f64> {
    let mut percents: Vec<f64> = (0..seconds / INTERVAL)
        .filter_map(|_| simulation.step().orders.hedging.map(|hedging| hedging.percent))
        .collect();
    percents.dedup();
    percents
}

#[test]
fn clients_that_spend_twice_what_they_are_told_spend_the_budget() {
    // The p90 with a budget of 5 %: it binds.
    for seed in 0..3 {
        let mut simulation = counting(LOGNORMAL, 10.0, OTEL, seed);
        simulation.rules.delay.quantile = 0.9;
        simulation.rules.budget.percent = 5.0;
        simulation.rules.delay.plateau = Plateau::Ignore;
        simulation.overspend = 2.0;
        simulation.run(3600);
        simulation.count_from_here();
        let told = percents(&mut simulation, 2 * 3600);
        assert!(told.len() == 1 && (2.4..=3.0).contains(&told[0]), "{told:?}");
        // Up to e^0.25 times the budget is left alone.
        let spent = simulation.hedge_share();
        assert!((0.045..=0.0642).contains(&spent), "{spent}");
        assert!(simulation.changes.is_empty(), "{:?}", simulation.changes);
        // Mended, they are told all of it again, by a tenth each.
        simulation.overspend = 1.0;
        let told = percents(&mut simulation, 3 * 3600);
        assert!(told.windows(2).all(|two| two[1] - two[0] <= 0.501), "{told:?}");
        assert_eq!(told.last(), Some(&5.0));
    }
}

#[test]
fn timeouts_that_never_enter_the_histogram_are_counted_with_it() {
    let second = std::time::Duration::from_secs(1);
    for seed in 0..3 {
        let mut simulation = counting(HELP_DESK, 20.0, OTEL, seed);
        (simulation.rules.deadline, simulation.rules.delay.max) = (Some(second), second);
        simulation.cut_at = Some(1.0);
        by_the_hour(&mut simulation, 1, |_, _| {});
        assert_right_and_calm(&by_the_hour(&mut simulation, 2, |_, _| {}), "2 % cut off");
        // Twice as slow 5 % are cut off, and the p95 is the deadline: off, as soon as ten minutes are full of it.
        simulation.service.median *= 2.2;
        assert_eq!(simulation.run(600).orders.hedging, None);
    }
}
