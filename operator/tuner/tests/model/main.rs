//! A model of the off-switch: every sequence of readings of every kind, some decisions deep, from states that matter. No sequence
//! turns hedging on while a signal is above its line, in doubt, or before its cooldown, which doubles with each early trip; and
//! from wherever one leads, good readings bring hedging back.
//!
//! `HEDGEROW_MODEL_DEPTH=8 cargo test --test model -- --nocapture` goes as deep as that, for long, and says what was covered.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

#[allow(dead_code, reason = "the simulations use the rest")]
#[path = "../common/mod.rs"]
mod common;
mod explore;
mod monitor;
mod mutants;
mod steps;

use explore::{Model, State};
use steps::{GOOD, Level, Step};

/// Decisions from a start.
fn depth() -> u32 {
    let asked = std::env::var("HEDGEROW_MODEL_DEPTH").ok();
    asked.map_or(4, |depth| depth.parse().unwrap())
}

const ABOVE: Step = Step {
    queue: Level::Above,
    ..GOOD
};

/// So many trips, each as soon as hedging is back, and the last one just now.
fn tripped(model: &Model, trips: u32) -> State {
    let once = |trip: u32| {
        // The off document is followed after a step, then the cooldown runs, and hedging comes on.
        let off = 1 + 2_usize.pow(trip);
        std::iter::repeat_n(GOOD, if trip == 0 { 1 } else { off }).chain([ABOVE])
    };
    model.state_after((0..trips).flat_map(once)).unwrap()
}

fn holds_from(what: &str, start: impl FnOnce(&Model) -> State) {
    let model = Model::real();
    let start = start(&model);
    match model.explore(&start, depth()) {
        Ok(covered) => println!("from {what}: {covered}"),
        Err(broken) => panic!("from {what}: {broken}"),
    }
}

#[test]
fn from_the_first_start() {
    holds_from("the first start", |_| State::default());
}

#[test]
fn from_full_budget_just_before_it_is_trusted() {
    // On, half, full; after nine steps more it has been full for nine of the ten.
    holds_from("full budget for nine minutes", |model| {
        model.state_after([GOOD; 12]).unwrap()
    });
}

#[test]
fn from_the_third_trip_in_a_row() {
    holds_from("the third trip in a row", |model| tripped(model, 3));
}
