//! Where the delay is placed.

use std::time::Duration;

use hedgerow_tuner::{LimitedBy, Plateau, Reason};

use crate::support::{
    Target, hedged, help_desk, histogram, many, rules, rules_without_signals, scaled_help_desk, secs,
};

const INF: f64 = f64::INFINITY;

/// 1000 calls, tight around 100 ms: the share above `t` falls from 1 at 90 ms to 0 at 110 ms.
fn tight(factor: f64) -> hedgerow_tuner::Histogram {
    let bounds = (0..=60).map(|step| 0.080 + 0.001 * f64::from(step));
    let answered = |bound: f64| ((bound / factor - 0.090) / 0.020).clamp(0.0, 1.0) * 1000.0;
    let buckets: Vec<_> = bounds
        .map(|bound| (bound, answered(bound)))
        .chain([(INF, 1000.0)])
        .collect();
    histogram(&buckets)
}

#[test]
fn the_delay_is_the_percentile() {
    let mut target = Target::tuned(rules());
    let decision = target.decide();
    // p95 of the help-desk case is 0.5 s, p50 0.15 s.
    let hedging = decision.orders.hedging.unwrap();
    assert_eq!(hedging.delay_ms, 500.0);
    assert_eq!(hedging.min_remaining_ms, 150.0);
    assert_eq!(decision.recommended_ms, Some(500.0));
    assert_eq!(decision.limited_by, None);
    assert_eq!(decision.reason, Reason::Tuned);
    assert_eq!(decision.message.to_string(), "p95 500 ms of 1000 calls in 10m");
}

#[test]
fn add_is_added_and_the_delay_is_rounded_up_to_a_tenth() {
    let mut rules = rules();
    rules.delay.add = Duration::from_micros(2_010);
    assert_eq!(Target::tuned(rules).hedging().unwrap().delay_ms, 502.1);
}

#[test]
fn a_target_under_min_is_raised_to_it() {
    let mut rules = rules();
    rules.delay.min = Duration::from_millis(600);
    let decision = Target::tuned(rules).decide();
    assert_eq!(decision.orders.hedging.unwrap().delay_ms, 600.0);
    assert_eq!(decision.recommended_ms, Some(500.0));
    assert_eq!(decision.limited_by, Some(LimitedBy::Min));
}

#[test]
fn a_sources_ceiling_is_told_where_nothing_else_limits() {
    let mut rules = rules();
    rules.budget.limited_by_source = true;
    assert_eq!(Target::tuned(rules).decide().limited_by, Some(LimitedBy::Source));
}

#[test]
fn a_target_above_max_turns_off_and_never_clips() {
    let mut rules = rules();
    rules.delay.max = Duration::from_millis(499);
    let decision = Target::new(rules).decide();
    assert_eq!(decision.orders.hedging, None);
    assert_eq!(decision.orders.reason, Reason::AboveMax);
    assert_eq!(decision.recommended_ms, Some(500.0));
}

#[test]
fn a_target_that_leaves_a_hedge_no_time_turns_off() {
    // T - p50 = 1.0 - 0.15 x 1.6 = 0.76 s; p95 is 0.8 s.
    let mut rules = rules();
    rules.delay.max = secs(10);
    let mut target = Target::tuned(rules);
    target.latency(scaled_help_desk(1.6));
    let decision = target.after(30);
    assert_eq!(decision.orders.reason, Reason::NoTimeToHedge);
    assert_eq!(decision.orders.hedging, None);
}

#[test]
fn a_median_above_the_deadline_is_no_time_to_hedge_once_the_unit_proved_plausible() {
    let mut target = Target::tuned(rules());
    target.latency(scaled_help_desk(10.0));
    let mut rules = rules();
    rules.delay.max = secs(10);
    target.rules = rules;
    assert_eq!(target.after(30).orders.reason, Reason::NoTimeToHedge);
}

#[test]
fn back_only_ten_per_cent_under_the_line() {
    // delay.max is 1 s: off above it, back under 0.9 s. 100 000 calls leave 0.14 % of doubt about a share of 5 %:
    // the p95 could be the p95.14, which is 0.523 s for the help-desk case's 0.5.
    let mut rules = rules_without_signals();
    rules.deadline = None;
    rules.delay.max = secs(1);
    let mut target = Target::new(rules);
    let reason = |target: &mut Target, factor| {
        target.latency(many(&scaled_help_desk(factor)));
        target.after(30).reason
    };
    assert_eq!(reason(&mut target, 2.02), Reason::AboveMax); // 1.01 s
    assert_eq!(reason(&mut target, 1.9), Reason::AboveMax); // 0.95 s: under the line, above 0.9 of it
    assert_eq!(reason(&mut target, 1.73), Reason::AboveMax); // 0.865, at most 0.905 s
    assert_eq!(reason(&mut target, 1.71), Reason::Ramping); // 0.855, at most 0.894 s: the first start needs no cooldown
}

#[test]
fn time_to_hedge_comes_back_ten_per_cent_under_its_line_too_whatever_restarts() {
    // The line is T - p50. 100 000 calls could have their p95 4.6 % higher.
    let mut rules = rules_without_signals();
    rules.delay.max = secs(10);
    let mut target = Target::new(rules);
    let reason = |target: &mut Target, factor| {
        target.latency(many(&scaled_help_desk(factor)));
        target.restart();
        target.after(30).reason
    };
    assert_eq!(reason(&mut target, 1.6), Reason::NoTimeToHedge); // 0.8 s, line 0.76
    assert_eq!(reason(&mut target, 1.5), Reason::NoTimeToHedge); // 0.75 s, line 0.775
    assert_eq!(reason(&mut target, 1.4), Reason::NoTimeToHedge); // 0.7, at most 0.732 s, 0.9 of the line 0.711
    assert_eq!(reason(&mut target, 1.3), Reason::Ramping); // 0.65, at most 0.68 s, 0.9 of the line 0.7245
}

#[test]
fn few_calls_must_be_further_under_the_line() {
    // 1000 calls: 1.38 % of doubt; the p95 could be the p96.38: 0.5 + 0.5 x 1.38/3 = 0.73 s for the help-desk case.
    let mut rules = rules_without_signals();
    rules.deadline = None;
    rules.delay.max = secs(1);
    let mut target = Target::new(rules);
    target.latency(scaled_help_desk(2.02));
    assert_eq!(target.after(30).reason, Reason::AboveMax);
    target.latency(scaled_help_desk(1.3)); // 0.65, at most 0.949 s
    assert_eq!(target.after(30).reason, Reason::AboveMax);
    target.latency(scaled_help_desk(1.2)); // 0.6, at most 0.876 s
    assert_eq!(target.after(30).reason, Reason::Ramping);
}

#[test]
fn the_delay_rises_at_once() {
    // All 1.4 times slower. Hedged at 0.5 s, where now 15.7 % are unanswered and the budget of 10 % hedges 0.64 of them,
    // the calls' own p95 is 0.67 s. The attempt's is 0.7 s, and that is where the delay goes (within a bucket).
    let mut target = Target::tuned(rules());
    let past_delay = 0.2 - 0.15 * 0.08 / 0.28; // S(0.5), in the bucket from 0.42 to 0.7
    let slower = hedged(&scaled_help_desk(1.4), 0.5, 0.1 / past_delay);
    assert!(slower.quantile(0.95).at_least() < 0.68);
    target.latency(slower);
    let delay_ms = target.after(30).orders.hedging.unwrap().delay_ms;
    assert!((700.0..=715.0).contains(&delay_ms), "{delay_ms}");
}

#[test]
fn the_delay_falls_by_a_fifth_per_thirty_seconds_of_new_samples() {
    let falling = |target: &mut Target, seconds| {
        let decision = target.after(seconds);
        (decision.orders.hedging.unwrap().delay_ms, decision.limited_by)
    };
    let faster = many(&scaled_help_desk(0.4)); // p95 0.2 s
    let mut target = Target::new(rules());
    target.decide();
    target.latency(faster.clone());
    // 100 000 calls are sure of the p95.14: 0.2 + 0.2 x 0.138/3 = 209.2 ms. 0.8^3 of 500 is 256, 0.8^4 is 204.8: it is
    // reached after four times 30 s, in one document, and the band holds the rest.
    assert_eq!(falling(&mut target, 30), (500.0, Some(LimitedBy::FallRate)));
    assert_eq!(falling(&mut target, 89), (500.0, Some(LimitedBy::FallRate)));
    assert_eq!(falling(&mut target, 1), (209.2, Some(LimitedBy::HoldBand)));
    // An hour of new samples since the last move: at once.
    let mut target = Target::tuned(rules());
    target.latency(faster);
    assert_eq!(falling(&mut target, 30).0, 209.2);
}

#[test]
fn without_new_samples_the_delay_does_not_fall() {
    let mut target = Target::new(rules_without_signals());
    target.decide();
    target.latency(scaled_help_desk(0.4));
    target.live = false;
    assert_eq!(target.after(200).orders.hedging.unwrap().delay_ms, 500.0);
}

#[test]
fn time_without_readings_is_no_time_of_new_samples() {
    let mut target = Target::new(rules_without_signals());
    target.decide();
    target.no_latency(hedgerow_tuner::UnknownReason::Unavailable);
    target.after(240);
    target.latency(scaled_help_desk(0.4));
    assert_eq!(target.decide().orders.hedging.unwrap().delay_ms, 500.0);
    // 1000 calls are sure of 0.2 + 0.2 x 1.378/3 = 291.9 ms; 0.8^2 of 500 is 320, 0.8^3 is 256.
    assert_eq!(target.after(89).orders.hedging.unwrap().delay_ms, 500.0);
    assert_eq!(target.after(1).orders.hedging.unwrap().delay_ms, 291.9);
}

#[test]
fn a_share_within_the_band_leaves_the_delay_where_it_is() {
    // 4 % slower: p95 0.52 s; S(0.5) = 5 + 15 x 0.02 / 0.208 = 6.4 %. The band ends at 6.25 + 2 sqrt(.0475 / 1000) = 7.6 %.
    let mut target = Target::tuned(rules());
    target.latency(hedged(&scaled_help_desk(1.04), 0.5, 1.0));
    let decision = target.after(30);
    assert_eq!(decision.orders.hedging.unwrap().delay_ms, 500.0);
    assert_eq!(decision.limited_by, Some(LimitedBy::HoldBand));
    // 10 % slower: S(0.5) = 5 + 15 x 0.05 / 0.22 = 8.4 %.
    target.latency(hedged(&scaled_help_desk(1.1), 0.5, 1.0));
    assert!(target.after(30).orders.hedging.unwrap().delay_ms >= 550.0);
}

#[test]
fn a_step_of_the_ramp_corrects_a_first_delay_that_is_too_long() {
    // Placed at 0.56 s; then the p95 turns out to be 0.5 s, with 4.6 % of the calls past 0.56 s: well within the band.
    let mut target = Target::new(rules());
    target.latency(many(&scaled_help_desk(1.12)));
    assert_eq!(target.decide().orders.hedging.unwrap().delay_ms, 560.0);
    target.latency(many(&help_desk()));
    assert_eq!(target.after(119).orders.hedging.unwrap().delay_ms, 560.0);
    assert_eq!(target.after(1).orders.hedging.unwrap().delay_ms, 500.0);
}

#[test]
fn a_delay_above_one_and_a_half_targets_falls_even_within_the_band() {
    // A flat tail: from 0.2 to 2 s the share falls from 6 to 4 %: all of it is within the band.
    let mut rules = rules_without_signals();
    (rules.deadline, rules.delay.max, rules.delay.plateau) = (None, secs(10), Plateau::Ignore);
    let mut buckets = vec![(0.1, 900.0), (0.2, 940.0)];
    buckets.extend((1..=18).map(|step| (0.2 + 0.1 * f64::from(step), 940.0 + f64::from(step) * 20.0 / 18.0)));
    buckets.extend([(10.0, 1000.0), (INF, 1000.0)]);
    let mut target = Target::new(rules);
    target.latency(histogram(&buckets));
    let first = target.decide();
    assert_eq!(first.orders.hedging.unwrap().delay_ms, 1100.0); // 0.2 + 0.9
    // The tail becomes half as long: 5 % are above 0.65 s, 4.86 % above 0.71 s; 1.1 s is 1.55 of that.
    let shorter: Vec<_> = buckets
        .iter()
        .map(|&(bound, count)| {
            (
                if bound > 0.2 {
                    0.2 + (bound - 0.2) / 2.0
                } else {
                    bound
                },
                count,
            )
        })
        .collect();
    target.latency(many(&histogram(&shorter)));
    assert_eq!(target.after(30).limited_by, Some(LimitedBy::FallRate));
    // Sure of is the p95.14: 0.65 + 0.9 x 0.138/2 = 712.1 ms; 0.8^2 of 1100 is 704 ms.
    assert_eq!(target.after(30).orders.hedging.unwrap().delay_ms, 712.1);
}

#[test]
fn nine_per_cent_slower_on_tight_latency_moves_the_delay() {
    let mut target = Target::tuned({
        let mut rules = rules_without_signals();
        rules.deadline = None;
        rules
    });
    target.latency(tight(1.0));
    target.run(1200, 30);
    let before = target.hedging().unwrap().delay_ms;
    assert_eq!(before, 109.3); // 90 + 0.95 x 20 = 109.0; 1000 calls are sure of the p96.38: 109.3
    target.latency(tight(1.09));
    let after = target.after(30).orders.hedging.unwrap().delay_ms;
    // 109 x 1.09 = 118.8; at 109 ms (100 of the old ones) half of the calls would be hedged.
    assert!(after >= 118.8, "{after}");
}

#[test]
fn buckets_too_wide_place_the_delay_at_an_edge() {
    // 1000 calls at 20 ms in buckets .1 .3 1.2 5: p95 reads 95 ms, S(.1) = 0.
    let mut target = Target::new(rules());
    target.latency(histogram(&[
        (0.1, 1000.0),
        (0.3, 1000.0),
        (1.2, 1000.0),
        (5.0, 1000.0),
        (INF, 1000.0),
    ]));
    let decision = target.decide();
    assert_eq!(decision.orders.hedging.unwrap().delay_ms, 100.0);
    assert_eq!(decision.recommended_ms, Some(95.0));
    assert_eq!(decision.limited_by, Some(LimitedBy::LowResolution));
}

#[test]
fn the_lower_edge_is_taken_when_nearly_the_right_share_is_above_it() {
    // S(.1) = 6 % is within 1.25 x 5 %; p95 lies in (.1, .3].
    let mut target = Target::new(rules());
    target.latency(histogram(&[
        (0.1, 940.0),
        (0.3, 990.0),
        (1.2, 1000.0),
        (INF, 1000.0),
    ]));
    let decision = target.decide();
    assert_eq!(decision.orders.hedging.unwrap().delay_ms, 100.0);
    // It is left only outside the band: S = 7 % is under 6.25 + 1.4 %, S = 9 % is not.
    target.latency(histogram(&[
        (0.1, 930.0),
        (0.3, 990.0),
        (1.2, 1000.0),
        (INF, 1000.0),
    ]));
    assert_eq!(target.after(30).orders.hedging.unwrap().delay_ms, 100.0);
    target.latency(histogram(&[
        (0.1, 910.0),
        (0.3, 990.0),
        (1.2, 1000.0),
        (INF, 1000.0),
    ]));
    assert_eq!(target.after(30).orders.hedging.unwrap().delay_ms, 300.0);
}

#[test]
fn min_remaining_is_the_median_when_the_delay_moved_or_the_median_is_another_one() {
    let mut target = Target::tuned(rules());
    let with_median = |p50: f64| {
        histogram(&[
            (p50, 500.0),
            (0.3, 800.0),
            (0.5, 950.0),
            (1.0, 980.0),
            (3.0, 990.0),
            (6.0, 1000.0),
            (INF, 1000.0),
        ])
    };
    let min_remaining = |target: &mut Target, p50: f64| {
        target.latency(with_median(p50));
        target.after(30).orders.hedging.unwrap().min_remaining_ms
    };
    assert_eq!(min_remaining(&mut target, 0.15), 150.0);
    assert_eq!(min_remaining(&mut target, 0.22), 150.0);
    assert_eq!(min_remaining(&mut target, 0.225), 225.0);
    assert_eq!(min_remaining(&mut target, 0.1125), 225.0);
    assert_eq!(min_remaining(&mut target, 0.1124), 112.4);
}

#[test]
fn noise_of_a_fifth_in_every_reading_changes_no_orders() {
    let mut target = Target::tuned(rules());
    let revision = target.decide().revision;
    let stored = target.memory.clone();
    for step in 0..20_u32 {
        let noise = if step % 2 == 0 { 1.2 } else { 0.8 };
        let counts: Vec<_> = help_desk()
            .buckets()
            .iter()
            .map(|&(bound, count)| (bound, count * noise))
            .collect();
        target.latency(histogram(&counts));
        target.queue(&[3.0 * noise]);
        assert_eq!(target.after(30).revision, revision);
        assert!(!target.memory.must_be_stored(&stored));
    }
}
