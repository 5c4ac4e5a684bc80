//! What the latency reading means: windows, bounds, unknown.

use hedgerow_tuner::{Histogram, Reason, Unknown, UnknownReason};

use crate::support::{
    Target, help_desk, histogram, rules, rules_without_signals, scaled_help_desk, secs, unknown, window,
};

const INF: f64 = f64::INFINITY;

fn with_calls(calls: f64) -> Histogram {
    let scaled: Vec<_> = help_desk()
        .buckets()
        .iter()
        .map(|&(bound, count)| (bound, count * calls / 1000.0))
        .collect();
    histogram(&scaled)
}

fn no_traffic() -> Unknown {
    unknown(UnknownReason::NoTraffic)
}

fn why(target: &mut Target) -> Option<UnknownReason> {
    target.decide().latency.unknown.map(|unknown| unknown.reason)
}

/// Calls in windows of 10, 20, 40 and 60 minutes at these counts; the window that is used then.
fn used(target: &mut Target, counts: &[f64]) -> Option<u64> {
    let windows = [600, 1200, 2400, 3600];
    target.windows(
        windows
            .iter()
            .zip(counts)
            .map(|(&seconds, &calls)| window(seconds, Ok(with_calls(calls))))
            .collect(),
    );
    let decision = target.after(30);
    decision
        .latency
        .unknown
        .is_none()
        .then(|| decision.latency.window.unwrap().as_secs())
}

#[test]
fn the_smallest_window_with_enough_calls_is_used() {
    let mut target = Target::new(rules());
    assert_eq!(used(&mut target, &[100.0, 200.0, 400.0, 600.0]), Some(2400));
    assert_eq!(used(&mut Target::new(rules()), &[400.0]), Some(600));
    assert_eq!(used(&mut Target::new(rules()), &[399.0]), None);
}

#[test]
fn a_window_is_left_at_seven_tenths_and_narrowed_at_one_and_a_half() {
    let mut target = Target::new(rules());
    assert_eq!(used(&mut target, &[100.0, 400.0, 500.0, 600.0]), Some(1200));
    assert_eq!(used(&mut target, &[100.0, 280.0, 500.0, 600.0]), Some(1200));
    assert_eq!(used(&mut target, &[100.0, 279.0, 500.0, 600.0]), Some(2400));
    assert_eq!(used(&mut target, &[100.0, 599.0, 700.0, 800.0]), Some(2400));
    assert_eq!(used(&mut target, &[100.0, 600.0, 700.0, 800.0]), Some(1200));
    assert_eq!(used(&mut target, &[599.0, 700.0, 700.0, 800.0]), Some(1200));
    assert_eq!(used(&mut target, &[600.0, 700.0, 700.0, 800.0]), Some(600));
}

#[test]
fn wider_windows_are_asked_for_only_when_needed() {
    let mut target = Target::new(rules());
    let asked = |target: &mut Target, counts: &[f64]| {
        used(target, counts);
        let decision = target.decide();
        let seconds: Vec<_> = decision
            .windows_wanted
            .iter()
            .map(std::time::Duration::as_secs)
            .collect();
        (seconds, decision.wants_wider)
    };
    assert_eq!(asked(&mut target, &[1000.0]), (vec![600], false));
    // Running short: the next one is read beside it, before it is needed.
    assert_eq!(asked(&mut target, &[399.0]), (vec![600, 1200], false));
    // 150 in 10 minutes fill 400 in 40.
    assert_eq!(asked(&mut target, &[150.0]), (vec![600, 1200, 2400], true));
    assert_eq!(
        asked(&mut target, &[150.0, 300.0, 600.0]),
        (vec![600, 1200, 2400], false)
    );
    assert_eq!(
        asked(&mut target, &[1.0, 2.0, 4.0, 6.0]),
        (vec![600, 1200, 2400, 3600], false)
    );
}

#[test]
fn after_a_restart_the_window_in_use_is_asked_for_again() {
    let mut target = Target::new(rules());
    used(&mut target, &[100.0, 200.0, 400.0, 600.0]);
    target.restart();
    target.readings.latency = None;
    assert_eq!(
        target.decide().windows_wanted,
        [secs(600), secs(1200), secs(2400)]
    );
}

#[test]
fn a_wider_window_may_not_contradict_a_narrower_one() {
    // 20 calls in the narrow window, 5 of them above the p95 of the wide one: P(Bin(20, 5 %) >= 5) = 0.26 %.
    let narrow = |longer: f64| histogram(&[(0.15, 10.0), (0.5, 20.0 - longer), (1.0, 20.0), (INF, 20.0)]);
    let mut target = Target::new(rules());
    target.windows(vec![window(600, Ok(narrow(5.0))), window(1200, Ok(help_desk()))]);
    assert_eq!(why(&mut target), Some(UnknownReason::TooFewSamples));
    assert!(target.hedging().is_none());
    // P(Bin(20, 5 %) >= 4) = 1.6 %: that happens.
    target.windows(vec![window(600, Ok(narrow(4.0))), window(1200, Ok(help_desk()))]);
    assert_eq!(why(&mut target), None);
}

#[test]
fn an_incident_with_a_drop_of_traffic_does_not_turn_hedging_on_again() {
    let mut target = Target::tuned(rules_without_signals());
    let slow = |calls: f64| {
        let buckets: Vec<_> = scaled_help_desk(20.0)
            .buckets()
            .iter()
            .map(|&(bound, count)| (bound, count * calls / 1000.0))
            .collect();
        histogram(&buckets)
    };
    // All calls 20 times slower: off.
    target.windows(vec![
        window(600, Ok(slow(1000.0))),
        window(1200, Ok(slow(1000.0))),
    ]);
    assert_eq!(target.after(30).reason, Reason::AboveMax);
    // The callers give up: 40 slow calls in ten minutes, while the wider windows still remember the good time.
    for _ in 0..120 {
        target.windows(vec![
            window(600, Ok(slow(40.0))),
            window(1200, Ok(help_desk())),
            window(2400, Ok(with_calls(9000.0))),
        ]);
        assert_eq!(target.after(30).orders.hedging, None);
    }
}

#[test]
fn a_bound_beyond_every_line_turns_off_at_once() {
    // p95 is at least 1 s, delay.max is 1 s.
    let mut target = Target::tuned(rules());
    target.latency(histogram(&[
        (0.1, 90.0),
        (0.5, 900.0),
        (1.0, 940.0),
        (INF, 1000.0),
    ]));
    let decision = target.after(30);
    assert_eq!(decision.orders.reason, Reason::AboveMax);
    assert_eq!(
        decision.latency.unknown.unwrap().reason,
        UnknownReason::AboveTopBucket
    );
    // T - p50 = 0.7 s: a bound of 0.75 s proves that there is no time.
    let mut target = Target::tuned(rules());
    target.latency(histogram(&[(0.3, 500.0), (0.75, 900.0), (INF, 1000.0)]));
    assert_eq!(target.after(30).orders.reason, Reason::NoTimeToHedge);
}

#[test]
fn a_bound_above_the_delay_in_force_turns_off_at_once() {
    // p95 is at least 0.6 s; 0.5 s is too short, and what would be right is not known.
    let mut target = Target::tuned(rules());
    target.latency(histogram(&[(0.15, 500.0), (0.6, 900.0), (INF, 1000.0)]));
    let decision = target.after(30);
    assert_eq!(decision.orders.reason, Reason::LatencyUnknown);
    assert_eq!(
        decision.message.to_string(),
        "AboveTopBucket: p95 is at least 600 ms, which is all that the buckets say"
    );
}

#[test]
fn a_bound_under_the_delay_in_force_holds_it() {
    let mut target = Target::tuned(rules());
    target.latency(histogram(&[(0.15, 500.0), (0.4, 900.0), (INF, 1000.0)]));
    let decision = target.after(30);
    assert_eq!(
        (decision.reason, decision.orders.reason),
        (Reason::Held, Reason::Tuned)
    );
    assert_eq!(decision.orders.hedging.unwrap().delay_ms, 500.0);
    assert_eq!(target.run(300, 30).orders.reason, Reason::LatencyUnknown);
}

#[test]
fn timeouts_always_count() {
    // 80 timeouts beside 1000 calls: S(1.0) = (20 + 80) / 1080 = 9.3 %: the p95 is at least the deadline.
    let mut target = Target::new(rules());
    let mut reading = window(
        600,
        Ok(histogram(&[
            (0.15, 500.0),
            (0.5, 950.0),
            (1.0, 1000.0),
            (INF, 1000.0),
        ])),
    );
    reading.timeouts = Some(80.0);
    target.windows(vec![reading.clone()]);
    let decision = target.decide();
    assert_eq!(decision.reason, Reason::AboveMax);
    assert_eq!(decision.latency.samples, Some(1080.0));
    // With 20: rank 0.95 x 1020 = 969 of 950..1000 in (.5, 1]: 0.69 s.
    reading.timeouts = Some(20.0);
    target.windows(vec![reading]);
    let decision = target.after(1);
    assert!((decision.recommended_ms.unwrap() - 690.0).abs() < 1e-9);
    let missed: f64 = 20.0 / 1020.0;
    assert!((decision.effect.miss_share_unhedged.unwrap() - (1.0 - (1.0 - missed).powi(8))).abs() < 1e-9);
}

#[test]
fn nothing_but_timeouts_is_no_lack_of_traffic() {
    let mut target = Target::tuned(rules());
    let mut reading = window(600, Err(no_traffic()));
    reading.timeouts = Some(500.0);
    target.windows(vec![reading]);
    assert_eq!(target.after(30).orders.reason, Reason::AboveMax);
}

#[test]
fn timeouts_that_are_no_count_make_latency_unknown() {
    let mut target = Target::new(rules());
    let mut reading = window(600, Ok(help_desk()));
    reading.timeouts = Some(f64::NAN);
    target.windows(vec![reading]);
    assert_eq!(why(&mut target), Some(UnknownReason::OutOfRange));
}

#[test]
fn a_deadline_that_nothing_sees_gives_low_confidence() {
    let mut target = Target::new(rules());
    let short = || {
        histogram(&[
            (0.15, 500.0),
            (0.3, 900.0),
            (0.5, 960.0),
            (0.9, 1000.0),
            (INF, 1000.0),
        ])
    };
    target.latency(short());
    assert!(target.decide().low_confidence.unwrap().contains("deadline of 1s"));
    let mut counted = window(600, Ok(short()));
    counted.timeouts = Some(0.0);
    target.windows(vec![counted]);
    assert_eq!(target.decide().low_confidence, None);
    target.latency(help_desk());
    assert_eq!(target.decide().low_confidence, None);
}

#[test]
fn a_small_min_samples_and_a_caveat_give_low_confidence() {
    let mut rules = rules();
    (rules.windows.min_samples, rules.windows.low_confidence) = (50, true);
    let mut target = Target::new(rules);
    let mut reading = window(600, Ok(help_desk()));
    reading.caveat = Some("bounds differ".to_owned());
    target.windows(vec![reading]);
    assert_eq!(
        target.decide().low_confidence.unwrap(),
        "bounds differ; minSamples 50 is less than p95 needs"
    );
}

#[test]
fn a_first_median_above_the_deadline_is_an_implausible_unit() {
    // Milliseconds observed into buckets made for seconds: p50 reads 5.1 s with a deadline of 1 s.
    let mut target = Target::new(rules());
    target.rules.windows.min_samples = 100;
    target.latency(histogram(&[
        (1.0, 0.0),
        (2.5, 3.0),
        (5.0, 57.0),
        (7.5, 119.0),
        (10.0, 120.0),
        (INF, 121.0),
    ]));
    assert_eq!(why(&mut target), Some(UnknownReason::ImplausibleUnit));
    assert_eq!(target.decide().orders.reason, Reason::WarmingUp);
    // Another metric is checked again, though this one was accepted.
    let mut target = Target::tuned(rules());
    target.rules.measure = "other/Seconds".to_owned();
    target.latency(scaled_help_desk(10.0));
    target.pass(30);
    assert_eq!(why(&mut target), Some(UnknownReason::ImplausibleUnit));
}

/// Milliseconds observed into buckets whose last bound is the deadline: nearly all are beyond it.
fn beyond_the_deadline() -> hedgerow_tuner::Histogram {
    histogram(&[(0.1, 10.0), (0.5, 20.0), (1.0, 30.0), (INF, 1000.0)])
}

#[test]
fn a_first_median_beyond_a_last_bound_at_the_deadline_is_an_implausible_unit() {
    let mut target = Target::new(rules());
    target.latency(beyond_the_deadline());
    let decision = target.decide();
    let unknown = decision.latency.unknown.unwrap();
    assert_eq!(
        (unknown.reason, unknown.message.as_str()),
        (
            UnknownReason::ImplausibleUnit,
            "p50 is at least 1000 ms with a deadline of 1s: is the unit right?"
        )
    );
    assert_eq!(decision.orders.reason, Reason::WarmingUp);
    // Once accepted it is a slow service, and a delay in force is not held against what it proves.
    let mut target = Target::tuned(rules());
    target.latency(beyond_the_deadline());
    assert_eq!(target.after(30).orders.reason, Reason::AboveMax);
    let mut target = Target::tuned(rules());
    target.rules.measure = "other/Seconds".to_owned();
    target.latency(beyond_the_deadline());
    assert_eq!(target.after(30).orders.reason, Reason::AboveMax);
}

#[test]
fn a_first_median_beyond_a_last_bound_under_the_deadline_tells_no_unit() {
    let mut target = Target::new(rules());
    target.rules.deadline = Some(secs(2));
    target.latency(beyond_the_deadline());
    assert_eq!(target.decide().orders.reason, Reason::AboveMax);
}

#[test]
fn a_first_median_that_timed_out_tells_no_unit() {
    // Of 2000 calls 1500 timed out at the deadline of 1 s, and those that were answered took up to 0.5 s.
    let mut target = Target::new(rules());
    let mut reading = window(
        600,
        Ok(histogram(&[
            (0.1, 300.0),
            (0.5, 500.0),
            (1.0, 500.0),
            (INF, 500.0),
        ])),
    );
    reading.timeouts = Some(1500.0);
    target.windows(vec![reading]);
    assert_eq!(target.decide().orders.reason, Reason::AboveMax);
}

#[test]
fn a_percentile_of_zero_is_no_delay() {
    let mut target = Target::new(rules());
    target.latency(histogram(&[(0.0, 960.0), (1.0, 1000.0), (INF, 1000.0)]));
    assert_eq!(why(&mut target), Some(UnknownReason::OutOfRange));
}

#[test]
fn unknown_latency_is_held_for_max_staleness_then_off_and_back_through_cooldown_and_ramp() {
    let mut target = Target::tuned(rules());
    let held = target.hedging();
    target.no_latency(UnknownReason::Unavailable);
    let decision = target.after(30);
    assert_eq!((decision.reason, decision.orders.hedging), (Reason::Held, held));
    assert_eq!(
        decision.message.to_string(),
        "the delay is held: Unavailable: for a test"
    );
    assert_eq!(target.run(299, 1).reason, Reason::Held);
    assert_eq!(target.after(1).orders.reason, Reason::LatencyUnknown);
    target.latency(help_desk());
    assert_eq!(target.after(1).reason, Reason::CoolingDown);
    assert_eq!(target.run(240, 1).reason, Reason::Ramping);
}

#[test]
fn a_restart_does_not_extend_how_long_a_delay_is_held() {
    let mut target = Target::tuned(rules());
    target.no_latency(UnknownReason::Unavailable);
    target.after(30);
    target.run(200, 5);
    target.restart();
    assert_eq!(target.run(99, 1).reason, Reason::Held);
    assert_eq!(target.after(1).orders.reason, Reason::LatencyUnknown);
}

#[test]
fn a_reading_that_is_handed_in_again_is_held_for_no_longer() {
    let mut target = Target::tuned(rules_without_signals());
    target.live = false;
    assert!(target.after(300).orders.hedging.is_some());
    assert_eq!(target.after(1).orders.reason, Reason::LatencyUnknown);
}

#[test]
fn no_traffic_keeps_the_document_and_restarts_the_budget_when_it_was_long() {
    let mut target = Target::tuned(rules_without_signals());
    let held = target.hedging();
    let idle = |target: &mut Target, seconds| {
        target.windows(vec![window(600, Err(no_traffic()))]);
        target.run(seconds, 30)
    };
    assert_eq!(idle(&mut target, 240).orders.hedging, held);
    target.latency(help_desk());
    assert_eq!(target.after(30).orders.hedging, held);
    let decision = idle(&mut target, 7200);
    assert_eq!((decision.reason, decision.orders.hedging), (Reason::Held, held));
    target.latency(help_desk());
    let decision = target.after(30);
    assert_eq!(
        (decision.reason, decision.orders.hedging.unwrap().percent),
        (Reason::Ramping, 2.5)
    );
}

#[test]
fn traffic_that_returns_slowly_restarts_the_budget_and_the_time_that_a_delay_is_held() {
    let mut target = Target::tuned(rules_without_signals());
    target.windows(vec![window(600, Err(no_traffic()))]);
    target.run(7200, 30);
    target.latency(with_calls(3.0));
    let decision = target.after(30);
    assert_eq!(
        (decision.reason, decision.orders.hedging.unwrap().percent),
        (Reason::Held, 2.5)
    );
    assert_eq!(target.run(299, 1).reason, Reason::Held);
    assert_eq!(target.after(1).reason, Reason::LatencyUnknown);
}

#[test]
fn an_unreadable_window_beyond_the_one_in_use_does_no_harm() {
    let mut target = Target::new(rules());
    target.windows(vec![
        window(600, Ok(help_desk())),
        window(1200, Err(unknown(UnknownReason::NonMonotonic))),
    ]);
    assert_eq!(why(&mut target), None);
    target.windows(vec![
        window(600, Err(unknown(UnknownReason::NonMonotonic))),
        window(1200, Ok(help_desk())),
    ]);
    assert_eq!(why(&mut target), Some(UnknownReason::NonMonotonic));
}
