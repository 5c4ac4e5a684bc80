//! The closed loop: what clients count of their hedges guides the delay.

use hedgerow_tuner::{
    Decision, Histogram, LimitedBy, Mode, Reason, Rules, UnknownReason, WindowCounts, decide_settled,
};

use crate::support::{Target, hedged, histogram, many, rules, rules_without_signals, scaled_help_desk, secs};

const INF: f64 = f64::INFINITY;

fn counting(rules: Rules) -> Rules {
    Rules {
        counted: true,
        ..rules
    }
}

/// Hedging at 500 ms, the help-desk case's p95, for an hour. The bucket from 0.3 to 0.5 s holds it; the 2 % above 1 s are
/// surely fewer than 5 %.
fn tuned() -> Target {
    Target::tuned(counting(rules()))
}

/// 30 s later, of the calls in the last ten minutes these passed the delay: hedged, kept back.
fn measured(target: &mut Target, calls: f64, hedges: f64, blocked: Option<f64>) -> Decision {
    target.pass(30);
    target.counts(600, calls, hedges, blocked);
    target.decide()
}

/// Attempts with their p95, 500 ms, within the bucket from 0.3 to 0.6 s, which 11 and 2 % pass.
fn attempt() -> Histogram {
    many(&histogram(&[
        (0.15, 500.0),
        (0.3, 890.0),
        (0.6, 980.0),
        (1.0, 985.0),
        (3.0, 990.0),
        (6.0, 1000.0),
        (INF, 1000.0),
    ]))
}

/// Twelve minutes later, when ten of them followed the last document: of 10 000 calls these passed the delay. Latency is what
/// such hedging makes of [`attempt`].
fn step(target: &mut Target, hedges: f64, blocked: f64) -> f64 {
    target.pass(720);
    let delay = target.memory_delay_ms() / 1e3;
    target.latency(hedged(&attempt(), delay, 1.0));
    target.counts(600, 10_000.0, hedges, Some(blocked));
    target.hedging().unwrap().delay_ms
}

fn delay(decision: &Decision) -> f64 {
    decision.orders.hedging.unwrap().delay_ms
}

#[test]
fn too_few_hedges_shorten_the_delay_by_a_tenth_at_most() {
    // p = 3 %: 0.3 ln 0.6 = -0.153, cut to -0.1: 500 e^-0.1 = 452.42.
    let mut target = tuned();
    let decision = measured(&mut target, 10_000.0, 300.0, Some(0.0));
    assert_eq!(delay(&decision), 452.5);
    assert_eq!(decision.limited_by, Some(LimitedBy::HoldBand));
    // p = 3.8 %: 0.3 ln 0.76 = -0.0823: 500 e^-0.0823 = 460.49.
    assert_eq!(delay(&measured(&mut tuned(), 10_000.0, 380.0, Some(0.0))), 460.5);
}

#[test]
fn too_many_hedges_sent_or_kept_back_lengthen_it_by_half_at_most() {
    // p = 6 + 2 %: 0.3 ln 1.6 = 0.141: 500 e^0.141 = 575.71.
    assert_eq!(
        delay(&measured(&mut tuned(), 10_000.0, 600.0, Some(200.0))),
        575.8
    );
    // p = 20 %: 0.3 ln 4 = 0.416, cut to 0.4: 500 e^0.4 = 745.91.
    assert_eq!(
        delay(&measured(&mut tuned(), 10_000.0, 1000.0, Some(1000.0))),
        746.0
    );
}

#[test]
fn a_share_that_is_nearly_right_moves_nothing() {
    // e^0.25 = 1.284: from 3.894 to 6.42 %.
    let moved = |hedges: f64| delay(&measured(&mut tuned(), 10_000.0, hedges, Some(0.0))) - 500.0;
    assert_eq!((moved(390.0), moved(642.0)), (0.0, 0.0));
    assert!(moved(389.0) < 0.0 && moved(643.0) > 0.0);
}

#[test]
fn few_hedges_must_be_further_off() {
    // Four standard deviations: 4 / sqrt(22) = 0.853 against ln 0.44 = -0.821; 4 / sqrt(20) = 0.894 against ln 0.4 = -0.916.
    assert_eq!(delay(&measured(&mut tuned(), 1000.0, 22.0, Some(0.0))), 500.0);
    assert_eq!(delay(&measured(&mut tuned(), 1000.0, 20.0, Some(0.0))), 452.5);
}

#[test]
fn a_measurement_holds_eight_hundred_calls() {
    // 40 / (1 - 0.95).
    assert_eq!(delay(&measured(&mut tuned(), 799.0, 4.0, Some(0.0))), 500.0);
    assert_eq!(delay(&measured(&mut tuned(), 801.0, 4.0, Some(0.0))), 452.5);
}

#[test]
fn only_calls_that_followed_the_last_document_are_measured() {
    // Ten minutes and the 90 s that a document takes: 690 s after the last one.
    let mut target = tuned();
    assert_eq!(delay(&measured(&mut target, 10_000.0, 800.0, Some(0.0))), 575.8);
    assert_eq!(delay(&target.after(689)), 575.8);
    assert_eq!(delay(&target.after(1)), 663.0); // 575.8 e^0.141 = 662.98
    // A shorter window holds such calls earlier.
    target.pass(149);
    target.counts(60, 1000.0, 100.0, Some(0.0));
    assert_eq!(delay(&target.decide()), 663.0);
    assert_eq!(delay(&target.after(1)), 816.3); // 0.3 ln 2 = 0.208: 663.0 e^0.208 = 816.25
}

#[test]
fn a_window_that_cannot_be_leaves_the_others() {
    let mut target = tuned();
    target.pass(30);
    target.counts(600, 10_000.0, 300.0, Some(0.0));
    let counts = target.readings.counts.as_mut().unwrap().windows.as_mut().unwrap();
    for (window, calls, hedges) in [(60, f64::NAN, 10.0), (120, 500.0, -1.0), (0, 10_000.0, 10_000.0)] {
        counts.push(WindowCounts {
            window: secs(window),
            calls,
            hedges,
            blocked: Some(0.0),
            wins: None,
        });
    }
    assert_eq!(delay(&target.decide()), 452.5); // As if they were not there.
}

#[test]
fn hedges_kept_back_that_cannot_be_are_not_known_and_shorten_nothing() {
    for odd in [f64::NAN, f64::INFINITY, -1.0] {
        // p is at least 3 %, and at least 8 %: 0.3 ln 1.6 = 0.141.
        assert_eq!(delay(&measured(&mut tuned(), 10_000.0, 300.0, Some(odd))), 500.0);
        assert_eq!(delay(&measured(&mut tuned(), 10_000.0, 800.0, Some(odd))), 575.8);
    }
}

#[test]
fn a_document_counts_from_when_it_was_written() {
    let mut target = tuned();
    assert_eq!(delay(&measured(&mut target, 10_000.0, 800.0, Some(0.0))), 575.8);
    let decided = target.now;
    target.pass(60);
    target
        .memory
        .took_effect(Some(decided.minus(secs(3600))), target.now);
    assert_eq!(delay(&target.after(689)), 575.8);
    assert_eq!(delay(&target.after(1)), 663.0);
}

#[test]
fn a_finished_measurement_is_used_once() {
    // 256 / (1 - 0.95) = 5120 calls finish one. What spoke of the share then does not count for the next.
    let mut target = tuned();
    assert_eq!(delay(&measured(&mut target, 6000.0, 300.0, Some(0.0))), 500.0);
    assert_eq!(delay(&measured(&mut target, 6000.0, 150.0, Some(0.0))), 500.0);
    target.run(540, 30);
    assert_eq!(delay(&target.after(30)), 452.5);
    // One that is not finished goes on.
    let mut target = tuned();
    assert_eq!(delay(&measured(&mut target, 5000.0, 250.0, Some(0.0))), 500.0);
    assert_eq!(delay(&measured(&mut target, 5000.0, 125.0, Some(0.0))), 452.5);
}

#[test]
fn what_is_kept_back_must_be_known_to_shorten() {
    assert_eq!(delay(&measured(&mut tuned(), 10_000.0, 300.0, None)), 500.0);
    assert_eq!(delay(&measured(&mut tuned(), 10_000.0, 800.0, None)), 575.8);
}

#[test]
fn a_budget_that_may_bind_only_lengthens() {
    // B = 3 %, 0.8 B = 2.4 %.
    let mut rules = counting(rules());
    rules.budget.percent = 3.0;
    let step = |hedges: f64| {
        delay(&measured(
            &mut Target::tuned(rules.clone()),
            10_000.0,
            hedges,
            Some(0.0),
        ))
    };
    assert_eq!(step(240.0), 500.0);
    assert_eq!(step(239.0), 452.5);
}

#[test]
fn a_ramp_only_lengthens() {
    let ramping = |hedges: f64, blocked: f64| {
        let mut rules = counting(rules());
        rules.switch.ramp_step = secs(1800);
        let mut target = Target::new(rules);
        target.run(900, 30);
        let decision = measured(&mut target, 10_000.0, hedges, Some(blocked));
        assert_eq!(decision.reason, Reason::Ramping);
        delay(&decision)
    };
    assert_eq!((ramping(100.0, 0.0), ramping(200.0, 600.0)), (500.0, 575.8));
}

#[test]
fn a_signal_that_is_unknown_only_lengthens() {
    let blind = |hedges: f64| {
        let mut target = tuned();
        target.signals(vec![Err(crate::support::unknown(UnknownReason::Timeout))]);
        delay(&measured(&mut target, 10_000.0, hedges, Some(0.0)))
    };
    assert_eq!((blind(300.0), blind(800.0)), (500.0, 575.8));
}

#[test]
fn latency_that_is_unknown_moves_nothing() {
    let mut target = tuned();
    target.no_latency(UnknownReason::Unavailable);
    let decision = measured(&mut target, 10_000.0, 300.0, Some(0.0));
    assert_eq!((delay(&decision), decision.reason), (500.0, Reason::Held));
}

#[test]
fn observe_measures_nothing() {
    let mut rules = counting(rules());
    rules.mode = Mode::Observe;
    let mut target = Target::new(rules);
    target.run(3600, 30);
    assert_eq!(
        measured(&mut target, 10_000.0, 0.0, Some(0.0)).orders.hedging,
        None
    );
    assert_eq!(target.decide().recommended_ms, Some(500.0));
}

#[test]
fn the_delay_stays_in_the_bucket_that_holds_the_percentile() {
    let mut target = tuned();
    let down: Vec<_> = (0..10).map(|_| step(&mut target, 10.0, 0.0)).collect();
    assert_eq!((down[0], down[8], down[9]), (452.5, 300.0, 300.0));
    let up: Vec<_> = (0..20).map(|_| step(&mut target, 900.0, 600.0)).collect();
    assert_eq!((up[18], up[19]), (600.0, 600.0));
}

#[test]
fn buckets_move_the_bracket_and_the_delay_with_it() {
    // Twice as slow: the p95 is 1 s now, in the bucket from 0.6 to 1 s; 20 % are above 0.6 s. At once.
    let mut rules = counting(rules_without_signals());
    (rules.deadline, rules.delay.max) = (None, secs(10));
    let mut target = Target::tuned(rules);
    target.latency(scaled_help_desk(2.0));
    let decision = target.after(30);
    assert!(delay(&decision) >= 1000.0, "{decision:?}");
}

/// Everything in one bucket: nothing but an edge is known.
fn coarse() -> Target {
    let mut target = Target::new(counting(rules_without_signals()));
    target.latency(histogram(&[
        (0.1, 990.0),
        (0.3, 1000.0),
        (1.2, 1000.0),
        (5.0, 1000.0),
        (INF, 1000.0),
    ]));
    target.run(3600, 30);
    assert_eq!(target.hedging().unwrap().delay_ms, 100.0);
    target
}

#[test]
fn within_a_bucket_too_wide_the_counters_place_the_delay() {
    let mut target = coarse();
    for _ in 0..12 {
        target.pass(690);
        measured(&mut target, 10_000.0, 100.0, Some(0.0));
    }
    // 100 e^-1.2 = 30.12, rounded up to a tenth at each step.
    let delay_ms = target.hedging().unwrap().delay_ms;
    assert!((30.1..=30.8).contains(&delay_ms), "{delay_ms}");
    // The share is right there, and there it stays: the bucket's edge is no reason to go back.
    target.counts(600, 10_000.0, 500.0, Some(0.0));
    assert_eq!(target.run(3600, 30).orders.hedging.unwrap().delay_ms, delay_ms);
}

#[test]
fn clients_that_were_not_seen_to_hedge_are_not_taken_at_their_word_for_long() {
    // They may not follow documents yet. 100 / 2.5 = 40 ms and no shorter.
    let mut target = coarse();
    for _ in 0..20 {
        target.pass(690);
        measured(&mut target, 10_000.0, 0.0, Some(0.0));
    }
    assert_eq!(target.hedging().unwrap().delay_ms, 40.0);
}

#[test]
fn a_step_that_went_too_far_tells_how_steep_the_share_is() {
    // At 500 ms 1.3 % pass, at 452.5 ms 11 %: ln(11 / 1.3) / ln(500 / 452.5) = 21.39. ln 2.2 / 21.39 = 0.03686, and
    // 452.5 e^0.03686 = 469.49.
    let mut target = tuned();
    assert_eq!(step(&mut target, 130.0, 0.0), 452.5);
    assert_eq!(step(&mut target, 1000.0, 100.0), 469.5);
    // That outlives a restart. Too far again, now 3.5 %: ln(11 / 3.5) / ln(469.5 / 452.5) = 31.05;
    // ln 0.7 / 31.05 = -0.01149: 469.5 e^-0.01149 = 464.14.
    target.restart();
    assert_eq!(step(&mut target, 350.0, 0.0), 464.2);
    // Not far enough, 3.6 %: half as steep. ln 0.72 / 15.53 = -0.02116: 464.2 e^-0.02116 = 454.48.
    assert_eq!(step(&mut target, 360.0, 0.0), 454.5);
}

#[test]
fn counters_that_are_lost_hold_the_delay_for_max_staleness_and_then_lengthen_it() {
    let mut target = coarse();
    assert_eq!(delay(&measured(&mut target, 10_000.0, 100.0, Some(0.0))), 90.5);
    for _ in 0..11 {
        target.pass(690);
        measured(&mut target, 10_000.0, 100.0, Some(0.0));
    }
    let held = target.hedging().unwrap().delay_ms;
    target.pass(30);
    target.no_counts(UnknownReason::Unavailable);
    assert_eq!(delay(&target.decide()), held);
    target.restart();
    let still = target.after(299);
    assert_eq!((delay(&still), still.low_confidence), (held, None));
    // All that the bucket says is that 1 % are above 100 ms.
    let lost = target.after(1);
    assert_eq!(delay(&lost), 100.0);
    let doubt = lost.low_confidence.unwrap();
    assert!(doubt.contains("unknown, Unavailable"), "{doubt}");
    // A plan, which has one look, says so at once.
    let plan = decide_settled(&target.rules, &target.readings, target.now);
    assert_eq!(plan.low_confidence, Some(doubt));
    // And never shorter, whatever buckets say.
    target.latency(histogram(&[
        (0.01, 990.0),
        (0.02, 1000.0),
        (0.1, 1000.0),
        (INF, 1000.0),
    ]));
    target.run(3600, 30);
    assert_eq!(target.hedging().unwrap().delay_ms, 100.0);
}

#[test]
fn counters_that_cannot_be_are_unknown() {
    for (calls, hedges, blocked) in [
        (f64::NAN, 300.0, Some(0.0)),
        (10_000.0, -1.0, Some(0.0)),
        (10_000.0, f64::INFINITY, Some(0.0)),
        (10_000.0, 300.0, Some(f64::NAN)),
    ] {
        assert_eq!(delay(&measured(&mut tuned(), calls, hedges, blocked)), 500.0);
    }
    // Nor are those that are older than maxStaleness.
    let mut target = tuned();
    target.counts(600, 10_000.0, 300.0, Some(0.0));
    target.readings.counts.as_mut().unwrap().at = target.now.minus(secs(301));
    assert_eq!(delay(&target.decide()), 500.0);
}

#[test]
fn a_service_too_quiet_to_be_counted_is_tuned_by_buckets() {
    // 130 calls in ten minutes are 780 in an hour; 800 make a measurement.
    let mut target = tuned();
    target.counts(600, 130.0, 0.0, Some(0.0));
    target.latency(many(&scaled_help_desk(0.4)));
    let decision = target.after(30);
    assert_eq!(delay(&decision), 209.2);
}

#[test]
fn windows_are_asked_for_that_lie_after_the_last_document() {
    let mut target = Target::new(counting(rules_without_signals()));
    target.decide();
    target.run(240, 30); // Full budget 240 s after the first document: the last one.
    let mut wanted_after = |seconds: u64| {
        let at = target.now;
        let wanted = target.after(seconds).counts_wanted;
        target.now = at;
        wanted
            .iter()
            .map(std::time::Duration::as_secs)
            .collect::<Vec<_>>()
    };
    // Always the one that latency is read over, and the longest that begins 90 s after the document or later.
    assert_eq!(wanted_after(149), [600]);
    assert_eq!(wanted_after(150), [60, 600]);
    assert_eq!(wanted_after(389), [120, 600]);
    assert_eq!(wanted_after(390), [300, 600]);
    assert_eq!(wanted_after(690), [600]);
    assert_eq!(wanted_after(1290), [600, 1200]);
    assert_eq!(wanted_after(1890), [600, 1800]);
    assert_eq!(wanted_after(100_000), [600, 3600]);
}

#[test]
fn without_counters_none_are_asked_for() {
    assert!(Target::new(rules()).decide().counts_wanted.is_empty());
}
