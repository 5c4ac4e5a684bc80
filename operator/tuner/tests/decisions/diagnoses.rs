//! What makes hedging pay less than it could.

use hedgerow_tuner::{DiagnosisReason, Measures, Reason, Rules, UnknownReason};

use crate::support::{
    Target, counts, diagnosis, hedged, help_desk, histogram, rules, scaled_help_desk, secs, times,
};

const INF: f64 = f64::INFINITY;

/// The help-desk rules of clients that count.
pub(crate) fn counted_rules() -> Rules {
    Rules {
        counted: true,
        ..rules()
    }
}

/// The help-desk case at 10 calls a second, hedged at 0.5 s for an hour, as independent attempts have it: of 6000 calls in 10
/// minutes 300 pass the delay and are hedged, and 230 of these hedges win.
///
/// Three fifths of the calls past 0.5 s end evenly before 1 s, and hedges have answered 0.62 of them by then (of those that
/// have 0.15 s a quarter, up to 0.3 s 0.65, up to 0.5 s 0.875); to the others they are first 98 times in a hundred: 0.77.
fn healthy() -> Target {
    let mut target = Target::new(counted_rules());
    target.latency(times(6.0, &help_desk()));
    target.decide();
    target.run(300, 30);
    target.latency(times(6.0, &hedged(&help_desk(), 0.5, 1.0)));
    target.counted(vec![counts(600, 6000.0, 300.0, 0.0, 230.0)]);
    target.run(3600, 30);
    assert_eq!(target.hedging().unwrap().delay_ms, 500.0);
    target
}

fn says(target: &mut Target, reason: DiagnosisReason) -> bool {
    diagnosis(&target.decide(), reason).is_some()
}

fn message(target: &mut Target, reason: DiagnosisReason) -> String {
    diagnosis(&target.decide(), reason).unwrap().message.clone()
}

#[test]
fn nothing_is_wrong_with_independent_replicas() {
    assert_eq!(healthy().decide().diagnoses, vec![]);
}

#[test]
fn hedged_calls_that_end_as_if_they_were_not_show_that_replicas_are_slow_together() {
    // Of the 300 calls past 0.5 s, 120 take more than 1 s (40 %, the 99 % lower bound is 33.7 %), though each was hedged and
    // S(0.5) = 5 %: more than 5 % more.
    let mut target = healthy();
    target.latency(times(6.0, &help_desk()));
    let said = message(&mut target, DiagnosisReason::SlowTogether);
    assert!(
        said.starts_with("40 % of the calls past the delay of 500 ms are unanswered 500 ms after it, hedged or not; of independent replicas at most 5 % would be; "),
        "{said}"
    );
}

#[test]
fn calls_that_were_not_hedged_show_nothing() {
    // Half of them were: up to 1 - 0.5 x 0.95 = 52.5 % may be left, 40 % are.
    let mut target = healthy();
    target.latency(times(6.0, &help_desk()));
    target.counted(vec![counts(600, 6000.0, 150.0, 150.0, 115.0)]);
    assert!(!says(&mut target, DiagnosisReason::SlowTogether));
}

#[test]
fn replicas_slow_together_leave_more_than_a_quarter_beyond_what_chance_leaves() {
    // Half of the calls past 0.5 s were hedged: up to 52.5 % may be left after 1 s, and 65.6 % are not said.
    let mut target = healthy();
    target.counted(vec![counts(600, 600_000.0, 15_000.0, 15_000.0, 11_500.0)]);
    let mut said_at = |within: f64| {
        let buckets = [
            (0.15, 500.0),
            (0.3, 800.0),
            (0.5, 950.0),
            (1.0, within),
            (2.0, 985.0),
            (6.0, 1000.0),
            (f64::INFINITY, 1000.0),
        ];
        target.latency(times(600.0, &histogram(&buckets)));
        says(&mut target, DiagnosisReason::SlowTogether)
    };
    // 64 and 68 %.
    assert_eq!((said_at(968.0), said_at(966.0)), (false, true));
}

#[test]
fn replicas_slow_together_take_a_hundred_hedged_calls() {
    let mut target = healthy();
    target.latency(times(6.0, &help_desk()));
    target.counted(vec![counts(600, 1980.0, 99.0, 0.0, 70.0)]);
    assert!(!says(&mut target, DiagnosisReason::SlowTogether));
    target.counted(vec![counts(600, 2000.0, 100.0, 0.0, 71.0)]);
    assert!(says(&mut target, DiagnosisReason::SlowTogether));
}

#[test]
fn hedged_calls_of_several_delays_show_nothing() {
    // A minute ago the delay went up.
    let mut target = healthy();
    target.rules.delay.min = secs(1) * 6 / 10;
    target.run(60, 30);
    assert_eq!(target.hedging().unwrap().delay_ms, 600.0);
    target.latency(times(6.0, &help_desk()));
    assert_eq!(target.decide().diagnoses, vec![]);
}

#[test]
fn replicas_slow_together_are_said_for_an_hour_after_they_last_were() {
    let mut target = healthy();
    target.latency(times(6.0, &help_desk()));
    let stored = target.memory.clone();
    assert!(says(&mut target, DiagnosisReason::SlowTogether));
    assert!(target.memory.must_be_stored(&stored));
    target.latency(times(6.0, &hedged(&help_desk(), 0.5, 1.0)));
    let stored = target.memory.clone();
    target.run(3570, 30);
    assert!(says(&mut target, DiagnosisReason::SlowTogether));
    assert!(!target.memory.must_be_stored(&stored));
    target.restart();
    target.after(30);
    assert!(!says(&mut target, DiagnosisReason::SlowTogether));
    assert!(target.memory.must_be_stored(&stored));
}

#[test]
fn replicas_slow_together_are_said_where_that_leaves_no_delay() {
    // 6.2 % take longer than 1 s, which is the last bound: the delay goes under them, to the 100 ms that 8 % pass.
    let mut target = Target::new(counted_rules());
    (target.rules.deadline, target.rules.delay.max) = (None, secs(10));
    target.latency(histogram(&[
        (0.05, 3000.0),
        (0.1, 5520.0),
        (0.2, 5622.0),
        (1.0, 5628.0),
        (INF, 6000.0),
    ]));
    target.decide();
    target.run(3600, 30);
    assert_eq!(target.hedging().unwrap().delay_ms, 100.0);
    // All of the 480 calls past it were hedged, and 378 of them, 78.8 %, are unanswered 100 ms later, where 8 % were to be.
    // A hedge is no help then, and of the p95 the buckets say that it is at least 1 s.
    target.counted(vec![counts(600, 6000.0, 480.0, 0.0, 90.0)]);
    let decision = target.decide();
    assert_eq!(
        decision.latency.unknown.as_ref().map(|why| why.reason),
        Some(UnknownReason::AboveTopBucket)
    );
    assert_eq!(decision.orders.reason, Reason::LatencyUnknown);
    let said = diagnosis(&decision, DiagnosisReason::SlowTogether).unwrap();
    assert!(
        said.message
            .starts_with("78.8 % of the calls past the delay of 100 ms are unanswered 100 ms after it"),
        "{}",
        said.message
    );
    target.readings.counts = None;
    target.restart();
    target.pass(30);
    assert!(says(&mut target, DiagnosisReason::SlowTogether));
}

#[test]
fn what_nothing_shows_or_refutes_any_more_is_said_for_a_day() {
    let mut target = healthy();
    target.latency(times(6.0, &help_desk()));
    assert!(says(&mut target, DiagnosisReason::SlowTogether));
    target.readings.counts = None;
    target.run(24 * 3600 - 600, 600);
    assert!(
        message(&mut target, DiagnosisReason::SlowTogether).starts_with("nothing to measure it on now; ")
    );
    target.after(600);
    assert!(!says(&mut target, DiagnosisReason::SlowTogether));
}

#[test]
fn attempts_that_are_slow_together_predict_and_infer_nothing() {
    let mut target = healthy();
    target.latency(times(600.0, &hedged(&help_desk(), 0.5, 1.0)));
    let effect = target.decide().effect;
    assert!(
        (effect.miss_share_unhedged.unwrap() - 0.149_237).abs() < 1e-4,
        "{effect:?}"
    );
    target.latency(times(600.0, &help_desk()));
    let effect = target.decide().effect;
    assert!(says(&mut target, DiagnosisReason::SlowTogether));
    assert!(
        (effect.miss_share_hedged.unwrap() - 0.149_237).abs() < 1e-6,
        "{effect:?}"
    );
    assert_eq!(effect.miss_share_unhedged, None);
}

#[test]
fn hedges_that_win_less_than_half_as_often_as_independent_ones_show_that_slowness_belongs_to_the_request() {
    // 0.77 of them would, which buckets that wide read as 0.6. Of 300, 60 (20 %, at most 25.9 %) are less than half
    // of that, 100 (33 %, at most 39.9 %) may not be.
    let mut target = healthy();
    target.counted(vec![counts(600, 6000.0, 300.0, 0.0, 100.0)]);
    assert!(!says(&mut target, DiagnosisReason::RequestBound));
    target.counted(vec![counts(600, 6000.0, 300.0, 0.0, 60.0)]);
    let said = message(&mut target, DiagnosisReason::RequestBound);
    assert!(
        said.starts_with("60 of 300 hedges won (20 %), where of independent replicas 59.5 % would; "),
        "{said}"
    );
    assert!(!says(&mut target, DiagnosisReason::NoBenefit));
}

#[test]
fn slowness_of_the_request_takes_two_hundred_hedges_of_one_delay() {
    let mut target = healthy();
    target.counted(vec![counts(600, 3980.0, 199.0, 0.0, 10.0)]);
    assert!(!says(&mut target, DiagnosisReason::RequestBound));
    // The hour has them, and all of it was hedged at 0.5 s.
    target.counted(vec![
        counts(600, 3980.0, 199.0, 0.0, 10.0),
        counts(3600, 36_000.0, 1800.0, 0.0, 90.0),
    ]);
    assert!(says(&mut target, DiagnosisReason::RequestBound));
    // Six hours are further back than the delays are remembered.
    let mut target = healthy();
    target.counted(vec![
        counts(600, 3980.0, 199.0, 0.0, 10.0),
        counts(6 * 3600, 36_000.0, 1800.0, 0.0, 90.0),
    ]);
    assert!(!says(&mut target, DiagnosisReason::RequestBound));
}

#[test]
fn the_second_of_two_hedges_is_not_judged_as_a_first() {
    let mut target = healthy();
    target.rules.budget.max_attempts = 3;
    target.counted(vec![counts(600, 6000.0, 300.0, 0.0, 60.0)]);
    assert!(!says(&mut target, DiagnosisReason::RequestBound));
}

#[test]
fn counters_that_disagree_three_times_in_a_row_do_not_count_what_the_metric_measures() {
    // The metric has 5 % past the delay, clients 15 % of theirs.
    let mut target = healthy();
    target.keep_the_delay();
    target.counted(vec![counts(600, 6000.0, 600.0, 300.0, 690.0)]);
    let stored = target.memory.clone();
    assert!(!says(&mut target, DiagnosisReason::EstimateDisagrees));
    target.run(1170, 30);
    assert!(
        !says(&mut target, DiagnosisReason::EstimateDisagrees),
        "twice at most"
    );
    assert!(!target.memory.must_be_stored(&stored));
    target.run(630, 30);
    let said = message(&mut target, DiagnosisReason::EstimateDisagrees);
    assert!(
        said.starts_with(
            "clients count 15 % of 6000 calls past the delay of 500 ms, the latency metric 5 %; "
        ),
        "{said}"
    );
    // And three times in a row they must agree again.
    target.counted(vec![counts(600, 6000.0, 300.0, 0.0, 230.0)]);
    target.run(1170, 30);
    assert!(says(&mut target, DiagnosisReason::EstimateDisagrees));
    target.run(630, 30);
    assert!(!says(&mut target, DiagnosisReason::EstimateDisagrees));
}

#[test]
fn counters_of_other_calls_show_nothing_about_these() {
    // Calls look as if they were never hedged, and where the counters are from all of them were.
    let mut target = healthy();
    target.keep_the_delay();
    target.latency(times(6.0, &help_desk()));
    target.counted(vec![counts(600, 6000.0, 1200.0, 0.0, 60.0)]);
    assert!(says(&mut target, DiagnosisReason::RequestBound));
    target.run(1800, 30);
    assert!(says(&mut target, DiagnosisReason::EstimateDisagrees));
    assert!(
        message(&mut target, DiagnosisReason::RequestBound).starts_with("nothing to measure it on now; ")
    );
    assert_eq!(target.decide().effect.miss_share_unhedged, None);
}

#[test]
fn the_share_that_counters_of_other_calls_show_corrects_no_delay() {
    // Attempts get slower: 15 % pass 0.5 s and 5 % pass 0.8 s. Clients hedge one in fifteen of the calls past 0.5 s.
    let slower = histogram(&[
        (0.15, 3000.0),
        (0.5, 5100.0),
        (0.6, 5400.0),
        (0.8, 5700.0),
        (1.0, 5940.0),
        (3.0, 6000.0),
        (INF, 6000.0),
    ]);
    let asked_for = |target: &mut Target, counted: bool| {
        target.latency(hedged(&slower, 0.5, 1.0 / 15.0));
        target.counted(vec![counts(600, 6000.0, 60.0, 840.0, 40.0)]);
        if !counted {
            target.readings.counts = None;
        }
        target.decide().recommended_ms.unwrap()
    };
    // Between 0.8 s and what the most that 60 of 900 can mean, 8.5 %, makes of it: S(0.8) is then 1.5 % higher.
    let mut agreeing = healthy();
    let known = asked_for(&mut agreeing, true);
    assert!((800.0..830.0).contains(&known), "{known}");
    // Without counters two thirds may have been hedged, as the budget allows.
    let at_most = asked_for(&mut healthy(), false);
    assert!(at_most > 1.1 * known, "{at_most}, {known}");

    let mut disagreeing = healthy();
    disagreeing.keep_the_delay();
    disagreeing.counted(vec![counts(600, 6000.0, 600.0, 300.0, 690.0)]);
    disagreeing.run(1800, 30);
    disagreeing.rules.counted = true;
    assert!(says(&mut disagreeing, DiagnosisReason::EstimateDisagrees));
    let ignored = asked_for(&mut disagreeing, true);
    assert!((ignored - at_most).abs() < 1e-9, "{ignored}, {at_most}");
}

#[test]
fn counters_that_disagree_now_and_then_are_no_others() {
    let mut target = healthy();
    target.keep_the_delay();
    for _ in 0..4 {
        target.counted(vec![counts(600, 6000.0, 600.0, 300.0, 690.0)]);
        target.run(1200, 30);
        target.counted(vec![counts(600, 6000.0, 300.0, 0.0, 230.0)]);
        assert!(!says(&mut target, DiagnosisReason::EstimateDisagrees));
        target.run(1200, 30);
    }
}

#[test]
fn hedges_kept_back_unseen_may_be_what_is_missing() {
    // 1 % is hedged where 5 % pass; what was kept back is not known.
    let mut target = healthy();
    let mut few = counts(600, 6000.0, 60.0, 0.0, 43.0);
    few.blocked = None;
    target.counted(vec![few]);
    target.run(3600, 30);
    assert!(!says(&mut target, DiagnosisReason::EstimateDisagrees));
    target.counted(vec![counts(600, 6000.0, 60.0, 0.0, 43.0)]);
    target.run(3600, 30);
    assert!(says(&mut target, DiagnosisReason::EstimateDisagrees));
}

#[test]
fn a_bucket_too_wide_to_say_contradicts_nothing() {
    // All that is known of the share past 500 ms is that it lies between 0 and 40 %.
    let mut target = healthy();
    target.latency(histogram(&[
        (0.1, 3600.0),
        (1.0, 6000.0),
        (2.0, 6000.0),
        (INF, 6000.0),
    ]));
    target.counted(vec![counts(600, 6000.0, 6.0, 0.0, 4.0)]);
    target.run(7200, 30);
    assert!(!says(&mut target, DiagnosisReason::EstimateDisagrees));
}

#[test]
fn a_median_above_the_deadline_is_too_slow() {
    let mut target = healthy();
    target.rules.delay.max = secs(10);
    target.latency(times(6.0, &scaled_help_desk(7.0)));
    let decision = target.after(30);
    assert_eq!(decision.reason, Reason::NoTimeToHedge);
    let said = message(&mut target, DiagnosisReason::TooSlow);
    assert!(said.contains("deadline 1s; the common case is slow"), "{said}");
    target.latency(times(6.0, &help_desk()));
    target.after(30);
    assert!(!says(&mut target, DiagnosisReason::TooSlow));
}

/// A service whose slowest calls take less than twice its median of 0.15 s.
fn tight(factor: f64) -> hedgerow_tuner::Histogram {
    let shape = [
        (0.1, 60.0),
        (0.14, 2400.0),
        (0.16, 3600.0),
        (0.2, 5400.0),
        (0.25, 5990.0),
        (0.3, 6000.0),
        (INF, 6000.0),
    ];
    histogram(&shape.map(|(bound, count)| (bound * factor, count)))
}

#[test]
fn a_tight_distribution_that_moved_as_a_whole_is_too_slow() {
    let mut target = Target::new(counted_rules());
    target.latency(tight(1.0));
    target.run(3600, 30);
    target.latency(tight(1.9));
    target.after(30);
    assert!(!says(&mut target, DiagnosisReason::TooSlow));
    target.latency(tight(2.1));
    target.after(30);
    let said = message(&mut target, DiagnosisReason::TooSlow);
    assert!(said.starts_with("p50 315 ms, usually 150 ms, p99 "), "{said}");
    target.latency(tight(1.6));
    target.after(30);
    assert!(says(&mut target, DiagnosisReason::TooSlow), "not back yet");
    target.latency(tight(1.4));
    target.after(30);
    assert!(!says(&mut target, DiagnosisReason::TooSlow));
}

#[test]
fn a_longer_tail_is_what_hedging_is_for() {
    let mut target = healthy();
    target.latency(times(6.0, &scaled_help_desk(2.5)));
    target.after(30);
    assert!(!says(&mut target, DiagnosisReason::TooSlow));
}

#[test]
fn what_is_so_for_days_is_usual() {
    let mut target = Target::new(counted_rules());
    target.latency(tight(1.0));
    target.run(3600, 300);
    target.latency(tight(2.2));
    let stored = {
        target.after(30);
        target.memory.clone()
    };
    target.run(12 * 3600, 300);
    assert!(says(&mut target, DiagnosisReason::TooSlow));
    assert!(!target.memory.must_be_stored(&stored) || target.memory.revision > stored.revision);
    target.run(36 * 3600, 300);
    assert!(!says(&mut target, DiagnosisReason::TooSlow));
}

#[test]
fn another_metric_is_another_service() {
    let mut target = Target::new(counted_rules());
    target.latency(tight(1.0));
    target.run(3600, 30);
    target.rules.measure = "another_seconds/Seconds".to_owned();
    target.latency(tight(2.2));
    target.after(30);
    assert!(!says(&mut target, DiagnosisReason::TooSlow));
}

#[test]
fn unknown_latency_diagnoses_nothing() {
    let mut target = Target::new(counted_rules());
    target.no_latency(UnknownReason::Unavailable);
    target.counted(vec![counts(600, 6000.0, 300.0, 0.0, 200.0)]);
    assert_eq!(target.decide().diagnoses, vec![]);
}

#[test]
fn a_metric_of_attempts_does_not_show_calls_that_wait() {
    let mut target = healthy();
    target.rules.measures = Measures::Attempt { losers_run_on: true };
    target.latency(times(6.0, &help_desk()));
    assert!(!says(&mut target, DiagnosisReason::SlowTogether));
}

#[test]
fn counters_are_read_over_the_latency_window_and_one_that_holds_enough_hedges() {
    let mut target = healthy();
    assert_eq!(target.decide().counts_wanted, vec![secs(300), secs(600)]);
    // 30 hedges in 10 minutes: 200 take 67 minutes.
    target.counted(vec![counts(600, 6000.0, 30.0, 0.0, 20.0)]);
    assert_eq!(
        target.decide().counts_wanted,
        vec![secs(300), secs(600), secs(6 * 3600)]
    );
    target.counted(vec![counts(600, 6000.0, 0.0, 0.0, 0.0)]);
    assert_eq!(
        target.decide().counts_wanted,
        vec![secs(300), secs(600), secs(24 * 3600)]
    );
    // The hour holds them: back to it.
    target.counted(vec![
        counts(600, 6000.0, 0.0, 0.0, 0.0),
        counts(24 * 3600, 9e5, 4900.0, 0.0, 3000.0),
    ]);
    assert_eq!(
        target.decide().counts_wanted,
        vec![secs(300), secs(600), secs(3600)]
    );
    target.rules.counted = false;
    assert!(target.decide().counts_wanted.is_empty());
}
