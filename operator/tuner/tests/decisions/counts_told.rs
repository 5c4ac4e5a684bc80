//! What a decision tells of the counters that clients export.

use hedgerow_tuner::{
    CountsView, Decision, Guidance, Measured, Mode, Reason, Rules, UnknownReason, WindowCounts,
    decide_settled,
};

use crate::support::{Target, counts, many, rules, scaled_help_desk, secs};

/// Hedging at 500 ms, the help-desk case's p95, for an hour, guided by counters.
fn tuned() -> Target {
    Target::tuned(Rules {
        counted: true,
        ..rules()
    })
}

/// 30 s later clients are found to have counted this.
fn told(target: &mut Target, windows: Vec<WindowCounts>) -> CountsView {
    target.pass(30);
    target.counted(windows);
    of(target.decide())
}

fn of(decision: Decision) -> CountsView {
    decision.counts.unwrap()
}

#[test]
fn every_window_that_is_used_is_told_with_its_numbers() {
    let mut read = vec![
        counts(600, 10_000.0, 500.0, 20.0, 400.0),
        counts(3600, 60_000.0, 3000.0, 0.0, 0.0),
    ];
    (read[1].blocked, read[1].wins) = (None, None);
    let view = told(&mut tuned(), read.clone());
    assert_eq!((view.unknown, view.windows), (None, read));
}

#[test]
fn a_measurement_is_told_with_the_share_found_and_asked_for_and_where_it_moves_the_delay() {
    // 3 % passed: 0.3 ln 0.6 = -0.153, cut to -0.1: 500 e^-0.1 = 452.42.
    let mut target = tuned();
    let view = told(&mut target, vec![counts(600, 10_000.0, 280.0, 20.0, 0.0)]);
    let measured = Measured {
        at: target.now,
        window_ms: 600_000,
        delay_ms: 500.0,
        share: 0.03,
        asked: Some(0.05),
        moved_to_ms: Some(452.5),
    };
    assert_eq!(
        (view.guidance, view.measured),
        (Guidance::Measured, Some(measured))
    );
    // Calls that followed the new document are yet to come: what is told stays, and is no longer of what was read last.
    target.restart();
    let view = of(target.after(30));
    assert_eq!((view.guidance, view.measured), (Guidance::Known, Some(measured)));
}

#[test]
fn a_measurement_that_finds_the_share_right_is_told_as_one_that_moves_nothing() {
    // The longest window that holds nothing but calls of this document is the one that is measured.
    let mut target = tuned();
    let windows = vec![
        counts(60, 1000.0, 10.0, 0.0, 0.0),
        counts(600, 10_000.0, 500.0, 0.0, 0.0),
    ];
    let view = told(&mut target, windows);
    let measured = view.measured.unwrap();
    assert_eq!((view.guidance, measured.window_ms), (Guidance::Measured, 600_000));
    assert_eq!((measured.share, measured.moved_to_ms), (0.05, None));
    // It has calls enough, and the next begins; it is told all the same when the same is read again.
    assert_eq!(of(target.decide()).guidance, Guidance::Measured);
}

#[test]
fn a_delay_that_buckets_move_is_not_told_as_moved_by_counters() {
    // Twice as slow, by so many calls that there is no doubt: p95 is 1 s, and the bucket from 0.6 s on holds it.
    let mut target = Target::new(Rules {
        counted: true,
        deadline: None,
        ..rules()
    });
    target.rules.delay.max = secs(10);
    target.decide();
    target.run(3600, 30);
    target.latency(many(&scaled_help_desk(2.0)));
    target.pass(30);
    target.counted(vec![counts(600, 10_000.0, 500.0, 0.0, 0.0)]);
    let decision = target.decide();
    assert!(decision.orders.hedging.unwrap().delay_ms > 600.0, "{decision:?}");
    assert_eq!(of(decision).measured.unwrap().moved_to_ms, None);
}

#[test]
fn hedging_that_goes_off_is_moved_by_no_measurement() {
    let mut target = tuned();
    target.pass(30);
    target.queue(&[60.0]);
    target.counted(vec![counts(600, 10_000.0, 300.0, 0.0, 0.0)]);
    let decision = target.decide();
    assert_eq!(decision.reason, Reason::Saturated);
    assert_eq!(of(decision).measured.unwrap().moved_to_ms, None);
}

#[test]
fn counters_that_measure_nothing_say_so() {
    // 130 calls in ten minutes are 780 in an hour; 800 make a measurement.
    let quiet = told(&mut tuned(), vec![counts(600, 130.0, 6.0, 0.0, 0.0)]);
    assert_eq!(quiet.guidance, Guidance::Quiet);
    let known = told(&mut tuned(), vec![counts(600, 700.0, 35.0, 0.0, 0.0)]);
    assert_eq!(known.guidance, Guidance::Known);
}

#[test]
fn counters_that_are_unknown_are_told_with_why_before_they_are_given_up() {
    let mut target = tuned();
    told(&mut target, vec![counts(600, 10_000.0, 500.0, 0.0, 0.0)]);
    target.pass(30);
    target.no_counts(UnknownReason::Unavailable);
    let view = of(target.decide());
    assert_eq!(view.unknown.unwrap().reason, UnknownReason::Unavailable);
    assert_eq!((view.windows, view.guidance), (vec![], Guidance::Known));
    assert_eq!(of(target.after(300)).guidance, Guidance::Unknown);
}

#[test]
fn counters_that_are_old_or_cannot_be_are_unknown_with_a_reason() {
    let mut target = tuned();
    target.counted(vec![counts(600, 10_000.0, 500.0, 0.0, 0.0)]);
    target.readings.counts.as_mut().unwrap().at = target.now.minus(secs(301));
    let stale = of(target.decide()).unknown.unwrap();
    assert_eq!(
        (stale.reason, stale.message.as_str()),
        (UnknownReason::Stale, "the last reading is 5m1s old")
    );
    let odd = told(&mut target, vec![counts(600, f64::NAN, 500.0, 0.0, 0.0)]);
    let why = odd.unknown.unwrap();
    assert_eq!(
        (why.reason, why.message.as_str()),
        (UnknownReason::OutOfRange, "NaN calls and 500 hedges in 10m")
    );
    target.readings.counts = None;
    assert_eq!(of(target.decide()).unknown.unwrap().message, "not read yet");
}

#[test]
fn counters_that_stay_old_lower_the_confidence_as_those_that_cannot_be_read_do() {
    let mut target = tuned();
    target.counted(vec![counts(600, 10_000.0, 500.0, 0.0, 0.0)]);
    assert_eq!(target.decide().low_confidence, None);
    let at = target.readings.counts.as_ref().unwrap().at;
    let mut decision = target.decide();
    for _ in 0..21 {
        target.pass(30);
        target.readings.counts.as_mut().unwrap().at = at;
        decision = target.decide();
    }
    // Fresh for 300 s, then held for another 300 s.
    let doubt = decision.low_confidence.unwrap();
    assert!(
        doubt.contains("unknown, Stale: the last reading is 10m30s old"),
        "{doubt}"
    );
}

#[test]
fn without_counters_nothing_is_told_of_them() {
    assert_eq!(Target::new(rules()).decide().counts, None);
}

#[test]
fn a_plan_tells_what_is_counted() {
    let mut target = tuned();
    target.rules.mode = Mode::Observe;
    target.counted(vec![counts(600, 10_000.0, 500.0, 0.0, 0.0)]);
    let view = of(decide_settled(&target.rules, &target.readings, target.now));
    assert_eq!(view.windows.len(), 1);
    assert_eq!(view.guidance, Guidance::Known);
}
