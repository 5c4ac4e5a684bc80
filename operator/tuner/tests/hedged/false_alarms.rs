//! Independent replicas are seldom called anything else.

use crate::common::{DEFAULT, OTEL};
use crate::service::{Attempts, Service};
use crate::traffic::{Traffic, client_bounds, healthy};

const HOUR: f64 = 3600.0;

/// Runs for 30 days; the service speeds up and slows down by a third over each day, so that the delay follows, and twice a
/// day the queue is full for a while, so that the budget ramps.
fn month(attempts: &Attempts, bounds: &[f64], seed: u64) -> Traffic {
    let mut traffic = Traffic::new(Service::independent(attempts.clone()), bounds, seed);
    for quarter in 0..30 * 24 * 4_u32 {
        let hour = f64::from(quarter) / 4.0;
        let load = (hour / 24.0 * std::f64::consts::TAU).sin();
        traffic.service = Service::independent(attempts.times(1.33_f64.powf(load)));
        traffic.queue = if quarter % 48 == 47 { 60.0 } else { 3.0 };
        traffic.run(HOUR / 4.0);
    }
    assert!(
        traffic.decision().revision > 100,
        "the delay and the budget changed"
    );
    traffic
}

#[track_caller]
fn at_most_one(traffic: &Traffic) {
    assert!(traffic.begun.len() <= 1, "{:?}", traffic.begun);
}

#[test]
fn a_light_tail() {
    at_most_one(&month(&healthy()[0], &client_bounds(), 1));
}

#[test]
fn a_tail_so_light_that_wide_buckets_promise_wins_that_it_does_not_have() {
    at_most_one(&month(&Attempts::lognormal(0.04, 0.4, 0.0), OTEL, 4));
}

#[test]
fn a_heavy_tail() {
    at_most_one(&month(&healthy()[1], DEFAULT, 2));
}

#[test]
fn one_slow_replica_of_twenty() {
    at_most_one(&month(&healthy()[2], OTEL, 3));
}
