//! What is so is found, with the 200 hedges that ten minutes hold.

use hedgerow_tuner::DiagnosisReason;

use crate::common::{DEFAULT, OTEL};
use crate::service::{Attempts, Service};
use crate::traffic::{Traffic, client_bounds};

/// Runs, each a third of them with other bucket bounds.
const RUNS: u64 = 30;
/// At which 4 % of the calls, those that pass a delay read a little high, are some 200 in ten minutes.
const CALLS_PER_SECOND: f64 = 200.0 / 0.04 / 600.0 * 1.1;

/// Within an hour counters of other calls have moved the delay as far as they can.
const TIME: f64 = 7200.0;

/// In nine of ten runs `reason` is said by the time that two hours have passed, and the last ten minutes were hedged alike.
#[track_caller]
fn nine_of_ten(reason: DiagnosisReason, change: impl Fn(&mut Traffic)) {
    let layouts = [DEFAULT.to_vec(), OTEL.to_vec(), client_bounds()];
    let finds = |(seed, layout): &(u64, &Vec<f64>)| {
        let usual = Service::independent(Attempts::lognormal(0.04, 0.5, 0.0));
        let mut traffic = Traffic::new(usual, layout, *seed);
        traffic.calls_per_second = CALLS_PER_SECOND;
        change(&mut traffic);
        traffic.run(TIME);
        traffic.says(reason)
    };
    let found = (0..RUNS).zip(layouts.iter().cycle()).filter(finds).count();
    assert!(found as u64 * 10 >= RUNS * 9, "{found} of {RUNS}");
}

#[test]
fn replicas_that_share_slow_times() {
    nine_of_ten(DiagnosisReason::SlowTogether, |traffic| {
        let usual = Attempts::lognormal(0.04, 0.5, 0.0);
        traffic.service = Service::dependent(usual.clone(), 0.05, usual.times(10.0));
    });
}

#[test]
fn requests_that_are_heavy_for_every_replica() {
    nine_of_ten(DiagnosisReason::RequestBound, |traffic| {
        let usual = Attempts::lognormal(0.04, 0.5, 0.0);
        traffic.service = Service::dependent(usual, 0.04, Attempts::lognormal(0.8, 0.2, 0.0));
    });
}

#[test]
fn hedges_that_never_win() {
    nine_of_ten(DiagnosisReason::NoBenefit, |traffic| traffic.never_wins = true);
}

#[test]
fn counters_of_calls_that_are_four_times_as_often_slow() {
    nine_of_ten(DiagnosisReason::EstimateDisagrees, |traffic| {
        traffic.counted_elsewhere = Some(0.2);
    });
}

#[test]
fn counters_of_calls_that_are_seldom_slow() {
    nine_of_ten(DiagnosisReason::EstimateDisagrees, |traffic| {
        traffic.counted_elsewhere = Some(0.005);
    });
}

#[test]
fn a_service_that_becomes_slow_as_a_whole() {
    nine_of_ten(DiagnosisReason::TooSlow, |traffic| {
        let tight = Attempts::lognormal(0.04, 0.2, 0.0);
        traffic.service = Service::independent(tight.clone());
        traffic.run(7200.0);
        traffic.service = Service::independent(tight.times(3.0));
    });
}
