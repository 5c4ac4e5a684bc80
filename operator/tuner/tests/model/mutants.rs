//! Rules that are wrong in one place: the model must see each of them.

use hedgerow_tuner::{
    Decision, Memory, Readings, Rules, Signal, SignalValue, Timestamp, UnknownReason, decide,
};

use crate::explore::{Decide, Model, State};
use crate::monitor::Violation;
use crate::tripped;

/// Deep enough for each of them.
const DEPTH: u32 = 4;

#[track_caller]
fn is_seen(mutant: Decide, start: impl FnOnce(&Model) -> State, violations: &[Violation]) {
    let model = Model::of(mutant);
    let start = start(&Model::real());
    let broken = model.explore(&start, DEPTH).unwrap_err();
    assert!(violations.contains(&broken.violation), "{broken:?}");
}

fn first(_: &Model) -> State {
    State::default()
}

fn change_signals(readings: &Readings, change: impl Fn(&mut Signal)) -> Readings {
    let mut readings = readings.clone();
    readings.signals.iter_mut().flatten().for_each(change);
    readings
}

#[test]
fn a_signal_is_not_looked_at() {
    fn mutant(rules: &Rules, memory: &Memory, readings: &Readings, now: Timestamp) -> (Decision, Memory) {
        let mut rules = rules.clone();
        rules.switch.signals.truncate(1);
        decide(&rules, memory, readings, now)
    }
    is_seen(mutant, first, &[Violation::OnWhileAbove, Violation::MoreInDoubt]);
}

#[test]
fn unknown_is_zero() {
    fn mutant(rules: &Rules, memory: &Memory, readings: &Readings, now: Timestamp) -> (Decision, Memory) {
        let zero = |signal: &mut Signal| {
            if signal.value.is_err() {
                signal.value = Ok(SignalValue::Series(vec![0.0]));
            }
        };
        decide(rules, memory, &change_signals(readings, zero), now)
    }
    is_seen(mutant, first, &[Violation::MoreInDoubt]);
}

#[test]
fn unknown_is_borne_for_ever() {
    fn mutant(rules: &Rules, memory: &Memory, readings: &Readings, now: Timestamp) -> (Decision, Memory) {
        let mut rules = rules.clone();
        rules.switch.max_unknown *= 100;
        decide(&rules, memory, readings, now)
    }
    is_seen(mutant, first, &[Violation::OnWhileBlind]);
}

#[test]
fn the_cooldown_is_left_out() {
    fn mutant(rules: &Rules, memory: &Memory, readings: &Readings, now: Timestamp) -> (Decision, Memory) {
        let mut rules = rules.clone();
        rules.switch.cooldown = std::time::Duration::ZERO;
        decide(&rules, memory, readings, now)
    }
    is_seen(mutant, first, &[Violation::BeforeCooldown]);
}

#[test]
fn the_cooldown_does_not_wait_for_clients() {
    fn mutant(rules: &Rules, memory: &Memory, readings: &Readings, now: Timestamp) -> (Decision, Memory) {
        let mut rules = rules.clone();
        rules.propagation = std::time::Duration::ZERO;
        decide(&rules, memory, readings, now)
    }
    is_seen(mutant, first, &[Violation::BeforeCooldown]);
}

#[test]
fn a_value_between_the_lines_does_not_restart_the_cooldown() {
    fn mutant(rules: &Rules, memory: &Memory, readings: &Readings, now: Timestamp) -> (Decision, Memory) {
        let back = |signal: &mut Signal| {
            if signal.value == Ok(SignalValue::Series(vec![36.0])) {
                signal.value = Ok(SignalValue::Series(vec![0.0]));
            }
        };
        decide(rules, memory, &change_signals(readings, back), now)
    }
    let violations = [Violation::BeforeCooldown, Violation::MoreInDoubt];
    is_seen(mutant, first, &violations);
}

#[test]
fn early_trips_are_forgotten() {
    fn mutant(rules: &Rules, memory: &Memory, readings: &Readings, now: Timestamp) -> (Decision, Memory) {
        let mut written = serde_json::to_value(memory).unwrap();
        written.as_object_mut().unwrap().remove("doublings");
        decide(rules, &serde_json::from_value(written).unwrap(), readings, now)
    }
    is_seen(mutant, |model| tripped(model, 2), &[Violation::BeforeCooldown]);
}

#[test]
fn there_is_no_ramp() {
    fn mutant(rules: &Rules, memory: &Memory, readings: &Readings, now: Timestamp) -> (Decision, Memory) {
        let (mut decision, memory) = decide(rules, memory, readings, now);
        if let Some(hedging) = &mut decision.orders.hedging {
            hedging.percent = rules.budget.percent;
        }
        (decision, memory)
    }
    is_seen(mutant, first, &[Violation::NoRamp]);
}

#[test]
fn a_person_is_not_heard() {
    fn mutant(rules: &Rules, memory: &Memory, readings: &Readings, now: Timestamp) -> (Decision, Memory) {
        let readings = Readings {
            stop: None,
            ..readings.clone()
        };
        decide(rules, memory, &readings, now)
    }
    is_seen(mutant, first, &[Violation::OnWhileStopped]);
}

#[test]
fn the_cooldown_never_ends() {
    fn mutant(rules: &Rules, memory: &Memory, readings: &Readings, now: Timestamp) -> (Decision, Memory) {
        let mut rules = rules.clone();
        rules.switch.cooldown *= 1000;
        decide(&rules, memory, readings, now)
    }
    is_seen(mutant, first, &[Violation::OffForEver]);
}

#[test]
fn what_latency_does_not_say_is_fine() {
    fn mutant(rules: &Rules, memory: &Memory, readings: &Readings, now: Timestamp) -> (Decision, Memory) {
        let mut readings = readings.clone();
        let unknown = readings.latency.as_ref().is_some_and(
            |latency| matches!(&latency.windows, Err(why) if why.reason == UnknownReason::Unavailable),
        );
        if unknown {
            readings.latency = crate::steps::GOOD.readings(now).latency;
        }
        decide(rules, memory, &readings, now)
    }
    is_seen(mutant, first, &[Violation::MoreInDoubt]);
}
