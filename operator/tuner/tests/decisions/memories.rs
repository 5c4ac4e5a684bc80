//! What outlives a restart.

use hedgerow_tuner::{Memory, Reason, Rules, UnknownReason};

use crate::support::{Target, help_desk, rules, scaled_help_desk, secs};

#[test]
fn a_restart_changes_nothing_by_itself() {
    let mut target = Target::tuned(rules());
    let before = target.decide();
    target.restart();
    let after = target.decide();
    assert_eq!(before, after);
    // Nor before the first readings are in.
    let readings = std::mem::take(&mut target.readings);
    target.restart();
    let blind = target.after(5);
    assert_eq!((blind.revision, blind.orders), (before.revision, before.orders));
    target.readings = readings;
    assert_eq!(target.after(5).revision, before.revision);
}

#[test]
fn lost_memory_means_warming_up() {
    let mut target = Target::tuned(rules());
    target.memory = Memory::default();
    target.readings.latency = None;
    assert_eq!(target.after(5).orders.reason, Reason::WarmingUp);
}

#[test]
fn memory_is_written_in_camel_case_and_compact() {
    let mut target = Target::tuned(rules());
    target.decide();
    let written = serde_json::to_string(&target.memory).unwrap();
    assert!(written.contains(r#""delayMs":500.0"#), "{written}");
    assert!(
        !written.contains("null") && !written.contains("delay_ms"),
        "{written}"
    );
    assert!(written.len() < 700, "{} bytes: {written}", written.len());
}

#[test]
fn memory_stays_compact_when_everything_in_it_is_set() {
    // Sixteen delays, a slow mode, counters that moved the delay, a cut budget: it shares one annotation with the others.
    let mut target = Target::new(rules());
    (target.rules.deadline, target.rules.counted) = (None, true);
    for step in 0..200_u32 {
        target.latency(scaled_help_desk(if step % 2 == 0 { 0.3 } else { 0.6 }));
        target.pass(900);
        target.counts(
            600,
            10_000.0,
            if step % 3 == 0 { 2000.0 } else { 150.0 },
            Some(0.0),
        );
        target.decide();
    }
    let written = serde_json::to_string(&target.memory).unwrap();
    assert!(
        written.contains("stepped") && written.contains("backOff"),
        "{written}"
    );
    assert!(written.len() < 2000, "{} bytes: {written}", written.len());
}

#[test]
fn a_measurement_alone_is_not_stored_and_a_step_is() {
    let mut target = Target::tuned(rules());
    target.rules.counted = true;
    target.counts(600, 6000.0, 300.0, Some(0.0));
    target.decide();
    let written = target.memory.clone();
    target.after(630);
    assert!(!target.memory.must_be_stored(&written), "the share is right");
    target.pass(630);
    target.counts(600, 6000.0, 100.0, Some(0.0));
    target.decide();
    assert!(target.memory.must_be_stored(&written), "the delay is shorter");
    let written = target.memory.clone();
    target.no_counts(UnknownReason::Timeout);
    target.after(30);
    assert!(
        target.memory.must_be_stored(&written),
        "the counters became unknown"
    );
}

#[test]
fn unknown_fields_are_ignored_and_absent_ones_are_as_never_set() {
    let memory: Memory = serde_json::from_str(r#"{"revision":7,"later":{"since":1},"written":3}"#).unwrap();
    assert_eq!(memory.revision, 7);
    assert_eq!(serde_json::from_str::<Memory>("{}").unwrap(), Memory::default());
}

/// What a document says changes with them, though nothing else is decided.
#[test]
fn another_limit_of_the_policy_is_another_revision() {
    let edits: [fn(&mut Rules); 3] = [
        |rules| rules.deadline = Some(secs(2)),
        |rules| rules.budget.max_attempts = 3,
        |rules| rules.budget.max_concurrent = 7,
    ];
    for edit in edits {
        let mut target = Target::tuned(rules());
        let before = target.decide();
        let written = target.memory.clone();
        edit(&mut target.rules);
        let after = target.after(1);
        assert_eq!(
            (after.revision, &after.orders),
            (before.revision + 1, &before.orders)
        );
        assert!(target.memory.must_be_stored(&written));
        assert_eq!(target.after(1).revision, after.revision);
        target.restart();
        assert_eq!(target.after(1).revision, after.revision, "a restart is no change");
    }
}

#[test]
fn a_limit_that_clients_are_not_told_while_off_is_no_revision_until_they_are() {
    let mut target = Target::tuned(rules());
    target.stop(true);
    let off = target.after(1);
    target.rules.budget.max_concurrent = 7;
    assert_eq!(target.after(1).revision, off.revision);
    target.rules.budget.max_attempts = 3;
    assert_eq!(target.after(1).revision, off.revision + 1);
}

#[test]
fn a_memory_of_an_earlier_version_without_limits_is_no_change() {
    let mut target = Target::tuned(rules());
    let before = target.decide();
    let mut old = serde_json::to_value(&target.memory).unwrap();
    assert!(old.as_object_mut().unwrap().remove("limits").is_some());
    let old: Memory = serde_json::from_value(old).unwrap();
    target.memory = old.clone();
    let after = target.after(1);
    assert_eq!((after.revision, after.orders), (before.revision, before.orders));
    assert!(!target.memory.must_be_stored(&old), "an upgrade writes nothing");
    target.rules.budget.max_attempts = 3;
    assert_eq!(target.after(1).revision, before.revision + 1);
}

/// 10 % at full budget, at 25, 50 and 100 % of it; a step takes two minutes.
#[test]
fn clients_that_join_take_the_others_back_through_the_ramp() {
    let mut target = Target::tuned(rules());
    target.memory.others_joined(target.now);
    let percent = |target: &mut Target| {
        let decision = target.decide();
        decision.orders.hedging.unwrap().percent
    };
    assert_eq!(percent(&mut target), 2.5);
    let revision = target.memory.revision;
    target.memory.others_joined(target.now);
    assert_eq!(percent(&mut target), 2.5);
    assert_eq!(target.memory.revision, revision, "they join at the first step");
    target.run(120, 30);
    assert_eq!(percent(&mut target), 5.0);
    target.run(120, 30);
    assert_eq!(percent(&mut target), 10.0);
}

#[test]
fn clients_that_join_while_hedging_is_off_change_nothing() {
    let mut target = Target::tuned(rules());
    target.stop(true);
    target.after(1);
    let off = target.memory.clone();
    target.memory.others_joined(target.now);
    assert_eq!(target.memory, off);
}

#[test]
fn a_reading_alone_is_not_stored_and_a_state_is() {
    let mut target = Target::tuned(rules());
    target.decide();
    let written = target.memory.clone();
    target.latency(scaled_help_desk(0.99));
    target.queue(&[20.0]);
    target.after(30);
    assert!(!target.memory.must_be_stored(&written));
    target.no_latency(UnknownReason::Throttled);
    target.after(30);
    assert!(target.memory.must_be_stored(&written), "latency became unknown");
    let written = target.memory.clone();
    target.after(30);
    assert!(!target.memory.must_be_stored(&written), "it still is");
    target.latency(help_desk());
    target.after(30);
    assert!(target.memory.must_be_stored(&written), "it is known again");
    let written = target.memory.clone();
    target.queue(&[61.0]);
    target.after(30);
    assert!(target.memory.must_be_stored(&written), "the document changed");
}

#[test]
fn values_between_the_lines_restart_a_cooldown_without_a_write() {
    let mut target = Target::tuned(rules());
    target.queue(&[61.0]);
    target.after(5);
    target.queue(&[3.0]);
    target.after(5);
    let written = target.memory.clone();
    for value in [38.0, 3.0, 36.0, 30.0, 40.0] {
        target.queue(&[value]);
        target.after(5);
        assert!(!target.memory.must_be_stored(&written));
    }
}

#[test]
fn a_cooldown_outlives_a_restart() {
    let mut target = Target::tuned(rules());
    target.queue(&[61.0]);
    target.after(5);
    target.run(600, 5);
    target.restart();
    target.queue(&[3.0]);
    assert_eq!(target.after(5).reason, Reason::CoolingDown);
    target.restart();
    assert_eq!(target.run(115, 5).reason, Reason::CoolingDown);
    assert_eq!(target.after(5).reason, Reason::Ramping);
}

#[test]
fn times_in_the_future_count_as_now() {
    let mut target = Target::new(rules());
    target.decide();
    target.now = target.now.minus(secs(86_400));
    target.latency(help_desk());
    target.queue(&[3.0]);
    // The clock that wrote the memory ran a day ahead: the ramp step begins now, and ends.
    target.decide();
    assert_eq!(target.after(120).orders.hedging.unwrap().percent, 5.0);
}

#[test]
fn numbers_that_cannot_be_count_as_never_set() {
    let written = r#"{"orders":{"hedging":{"delayMs":-5,"minRemainingMs":1,"percent":1e308,"minPerSecond":0},"reason":"Tuned"},
        "phase":{"Full":{"since":1}},"history":[{"delayMs":-1,"percent":-3,"from":1}],
        "stepped":{"delayMs":-4,"share":0,"steepness":-1},"backOff":-7,"slowMode":{"since":9000000000000000}}"#;
    let mut target = Target::new(rules());
    target.memory = serde_json::from_str(written).unwrap();
    let decision = target.decide();
    assert_eq!(
        (decision.orders.hedging, decision.reason),
        (None, Reason::CoolingDown)
    );
}

#[test]
fn the_smallest_delay_in_the_window_limits_what_calls_tell_of_attempts() {
    // A delay that rose from 0.2 to 0.5 s: for ten minutes (and the propagation) calls above 0.2 s may have been hedged.
    let mut target = Target::new(rules());
    target.latency(scaled_help_desk(0.4));
    target.run(3600, 30);
    assert_eq!(target.hedging().unwrap().delay_ms, 200.0);
    target.latency(help_desk());
    let first = target.after(30);
    // Unhedged-looking calls that were hedged come from slower attempts.
    assert!(
        first.recommended_ms.is_none_or(|recommended| recommended > 500.0),
        "{first:?}"
    );
}

#[test]
fn the_history_of_delays_stays_short() {
    let mut target = Target::new(rules());
    target.rules.deadline = None;
    for step in 0..200_u32 {
        target.latency(scaled_help_desk(if step % 2 == 0 { 0.3 } else { 0.6 }));
        target.after(60);
    }
    let written = serde_json::to_value(&target.memory).unwrap();
    assert!(written["history"].as_array().unwrap().len() <= 16, "{written}");
}
