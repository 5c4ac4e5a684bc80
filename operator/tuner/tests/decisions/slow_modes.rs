//! Where the delay is placed when the percentile lies in a slow mode of a few per cent.

use hedgerow_tuner::{Decision, Histogram, LimitedBy, Plateau, Reason, Rules, WindowReading};

use crate::support::{Target, hedged, histogram, many, rules, rules_without_signals, secs, window};

const INF: f64 = f64::INFINITY;

/// Attempts of which 6 % take 1 to 4 s; p92 is 100 ms, p95 1 + 12.5/22.5 = 1.5556 s.
fn one_slow_replica() -> Histogram {
    many(&histogram(&[
        (0.05, 500.0),
        (0.1, 920.0),
        (0.2, 937.0),
        (1.0, 937.5),
        (2.0, 960.0),
        (4.0, 999.0),
        (10.0, 1000.0),
        (INF, 1000.0),
    ]))
}

/// The others alone: p92 is 100 ms, p95 0.1 + 0.1 x 30/60 = 150 ms, and 0.2 % are above 200 ms.
fn none_slow() -> Histogram {
    many(&histogram(&[
        (0.05, 500.0),
        (0.1, 920.0),
        (0.2, 980.0),
        (0.4, 1000.0),
        (1.0, 1000.0),
        (INF, 1000.0),
    ]))
}

fn patient() -> Rules {
    let mut rules = rules_without_signals();
    (rules.deadline, rules.delay.max) = (None, secs(10));
    rules
}

#[test]
fn the_delay_goes_under_a_slow_mode_of_a_few_per_cent() {
    // B is 10 %: d_b = Q(1 - 0.08) = 100 ms; the p95 is 15 times that.
    let mut target = Target::new(patient());
    target.latency(one_slow_replica());
    let decision = target.decide();
    assert_eq!(decision.orders.hedging.unwrap().delay_ms, 100.0);
    assert_eq!(decision.limited_by, Some(LimitedBy::Plateau));
    assert!((decision.recommended_ms.unwrap() - 1555.5556).abs() < 1e-3);
    assert_eq!(
        decision.message.to_string(),
        "p95 1556 ms of 100000 calls in 10m, in a slow mode; under it 8 % pass 100 ms"
    );
}

#[test]
fn a_policy_may_ignore_slow_modes() {
    let mut rules = patient();
    rules.delay.plateau = Plateau::Ignore;
    let mut target = Target::new(rules);
    target.latency(one_slow_replica());
    let decision = target.decide();
    assert_eq!(decision.orders.hedging.unwrap().delay_ms, 1555.6);
    assert_eq!(decision.limited_by, None);
    // Followed from then on it falls, as any delay does: an hour of new samples allows it at once.
    target.run(3600, 30);
    target.rules.delay.plateau = Plateau::Follow;
    target.latency(hedged(&one_slow_replica(), 1.5556, 1.0));
    assert_eq!(target.after(30).orders.hedging.unwrap().delay_ms, 100.0);
}

#[test]
fn a_slow_mode_is_no_reason_to_be_off() {
    // The p95 of 1.56 s is above delay.max, and above what the deadline leaves; the delay under the slow mode is not.
    let mut target = Target::new(rules());
    target.latency(one_slow_replica());
    assert_eq!(target.decide().orders.hedging.unwrap().delay_ms, 100.0);
    target.rules.delay.plateau = Plateau::Ignore;
    assert_eq!(target.after(30).orders.reason, Reason::AboveMax);
}

/// A thousand calls of which 62 are not answered by the deadline of 1 s, and 92 % within `p92` seconds.
fn one_dead_replica(p92: f64) -> WindowReading {
    let buckets = [
        (0.1, 500.0),
        (0.2, 850.0),
        (p92, 920.0),
        (0.9, 938.0),
        (1.0, 938.0),
        (INF, 938.0),
    ];
    WindowReading {
        timeouts: Some(62.0),
        ..window(600, Ok(histogram(&buckets)))
    }
}

#[test]
fn a_dead_replica_is_hedged_around_and_leaves_no_time_only_where_half_the_deadline_is_gone() {
    // The p95 is the deadline, in which a hedge could not answer. d_b = Q(0.92) is 400 ms: from there a hedge has 600 ms, which are
    // six medians, and 8 % of the calls pass it, which the budget of 10 % bears. The p95 is 2.5 times that.
    let decided = |p92: f64| {
        let mut target = Target::new(rules());
        target.rules.delay.max = secs(10);
        target.windows(vec![one_dead_replica(p92)]);
        target.decide()
    };
    let decision = decided(0.4);
    assert_eq!(decision.orders.hedging.unwrap().delay_ms, 400.0);
    assert_eq!(decision.limited_by, Some(LimitedBy::Plateau));
    assert_eq!(decided(0.5).orders.hedging.unwrap().delay_ms, 500.0);
    // Answers that take so long are those of a service that is slow as a whole.
    let decision = decided(0.51);
    assert_eq!(decision.orders.reason, Reason::NoTimeToHedge);
    assert_eq!(decision.orders.hedging, None);
}

#[test]
fn a_dead_replica_stays_hedged_around_until_it_answers_again() {
    let mut target = Target::new(rules());
    let dead = one_dead_replica(0.4);
    target.windows(vec![dead]);
    target.decide();
    target.run(3600, 30);
    // As hedged: of the 62 those are left whose hedge was not answered in 600 ms either, 7 % (6.2 % and a third of 1.8 - 0.6):
    // 62 x 0.0740 = 4.6, and of the 18 between 0.4 and 0.9 s, whose hedges have up to 500 ms, 2.
    let hedged = [
        (0.1, 500.0),
        (0.2, 850.0),
        (0.4, 920.0),
        (0.9, 993.4),
        (1.0, 995.4),
        (INF, 995.4),
    ];
    target.windows(vec![WindowReading {
        timeouts: Some(4.6),
        ..window(600, Ok(histogram(&hedged)))
    }]);
    target.run(3600, 30);
    assert_eq!(target.decide().limited_by, Some(LimitedBy::Plateau));
    assert_eq!(target.hedging().unwrap().delay_ms, 400.0);
    // It answers: 1.4 % are above 0.4 s, none above 0.9. The delay may rest where it is, but not for a slow mode.
    let well = [
        (0.1, 5330.0),
        (0.2, 9060.0),
        (0.4, 9860.0),
        (0.9, 10_000.0),
        (1.0, 10_000.0),
        (INF, 10_000.0),
    ];
    target.windows(vec![WindowReading {
        timeouts: Some(0.0),
        ..window(600, Ok(histogram(&well)))
    }]);
    assert_ne!(target.decide().limited_by, Some(LimitedBy::Plateau));
}

#[test]
fn a_percentile_beyond_the_buckets_lies_in_a_slow_mode_too() {
    // All that is known of the p95 is that it is at least 1 s: ten times d_b.
    let mut target = Target::new(patient());
    let buckets = [
        (0.05, 500.0),
        (0.1, 920.0),
        (0.2, 937.0),
        (1.0, 938.0),
        (INF, 1000.0),
    ];
    target.latency(histogram(&buckets));
    let decision = target.decide();
    assert_eq!(decision.orders.hedging.unwrap().delay_ms, 100.0);
    assert_eq!(decision.recommended_ms, None);
    assert_eq!(
        decision.message.to_string(),
        "p95 at least 1000 ms of 1000 calls in 10m, in a slow mode; under it 8 % pass 100 ms"
    );
}

#[test]
fn a_budget_no_larger_than_the_percentiles_share_leaves_the_percentile() {
    // 0.8 B = 4.8 %: Q(0.952) is not shorter than the p95.
    let mut target = Target::new(patient());
    target.rules.budget.percent = 6.0;
    target.latency(one_slow_replica());
    assert_eq!(target.decide().orders.hedging.unwrap().delay_ms, 1555.6);
}

#[test]
fn a_slow_mode_begins_at_three_times_the_delay_under_it() {
    // The p92 is 0.1 s, the p95 2.9 and 3.1 times that.
    let delay = |slow: f64| {
        let mut target = Target::new(patient());
        let bounds = [0.05, 0.1, slow, 1.0, INF];
        let calls = [500.0, 920.0, 950.0, 1000.0, 1000.0];
        let buckets: Vec<_> = bounds.into_iter().zip(calls).collect();
        target.latency(many(&histogram(&buckets)));
        target.decide().orders.hedging.unwrap().delay_ms
    };
    assert_eq!((delay(0.29), delay(0.31)), (290.0, 100.0));
}

#[test]
fn a_long_tail_is_no_slow_mode_whatever_the_budget() {
    // Lognormal, sigma 1, median 0.1 s: p60 128.8, p75 196.3, p95 518.2 ms. A budget of 50 % has d_b at the p60, a fourth
    // of the p95: 40 % of the calls would be hedged.
    let mut target = Target::new(patient());
    target.rules.budget.percent = 50.0;
    let tail = [
        (0.1, 500.0),
        (0.1288, 600.0),
        (0.1963, 750.0),
        (0.5182, 950.0),
        (1.0, 989.0),
        (3.0, 1000.0),
        (INF, 1000.0),
    ];
    target.latency(histogram(&tail));
    assert_eq!(target.decide().orders.hedging.unwrap().delay_ms, 518.2);
    // Lognormal, sigma 1.2: the p99 is at exp(1.2 x 2.326) = 16.3 medians, the p92 at exp(1.2 x 1.405) = 5.4.
    let mut target = Target::new(patient());
    target.rules.delay.quantile = 0.99;
    let tail = [
        (0.1, 500.0),
        (0.54, 920.0),
        (0.72, 950.0),
        (1.63, 990.0),
        (4.0, 999.0),
        (9.0, 1000.0),
        (INF, 1000.0),
    ];
    target.latency(histogram(&tail));
    assert_eq!(target.decide().orders.hedging.unwrap().delay_ms, 1630.0);
}

#[test]
fn under_a_slow_mode_the_band_reaches_to_the_budget() {
    let mut target = Target::new(patient());
    target.latency(one_slow_replica());
    target.run(3600, 30);
    let with_share = |share: f64| {
        let calls = |answered: f64| (answered - 920.0) / 80.0 * share * 1000.0 + (1.0 - share) * 1000.0;
        let bounds = [
            (0.2, 937.0),
            (1.0, 937.5),
            (2.0, 960.0),
            (4.0, 999.0),
            (10.0, 1000.0),
            (INF, 1000.0),
        ];
        let tail = bounds.map(|(bound, answered)| (bound, calls(answered)));
        let all: Vec<_> = [(0.05, 500.0), (0.1, calls(920.0))]
            .into_iter()
            .chain(tail)
            .collect();
        hedged(&many(&histogram(&all)), 0.1, 1.0)
    };
    // 100 000 calls leave 0.17 % of doubt about a share of 8 %.
    target.latency(with_share(0.101));
    assert_eq!(target.after(30).orders.hedging.unwrap().delay_ms, 100.0);
    target.latency(with_share(0.103));
    assert!(target.after(30).orders.hedging.unwrap().delay_ms > 100.0);
}

#[test]
fn a_slow_mode_that_is_gone_is_left() {
    let mut target = Target::new(patient());
    target.latency(one_slow_replica());
    target.run(3600, 30);
    // As hedged, 0.08 x 2 % of the calls are above 0.2 s, twice the delay: 160 of 100 000, surely fewer than 200, and
    // 200 / 0.08 are 2.5 % of them. The share of 8 % is above the 6.25 % that a p95 bears: it rises to that at once.
    target.latency(hedged(&none_slow(), 0.1, 1.0));
    let decision = target.after(30);
    let delay_ms = decision.orders.hedging.unwrap().delay_ms;
    assert!((149.0..=151.0).contains(&delay_ms), "{delay_ms}");
    assert_eq!(decision.limited_by, None);
}

#[test]
fn the_delay_changes_sides_once_in_ten_minutes() {
    let mut target = Target::new(patient());
    target.latency(one_slow_replica());
    target.decide();
    let under = |decision: Decision| decision.message.to_string().contains("in a slow mode");
    target.latency(hedged(&none_slow(), 0.1, 1.0));
    assert!(under(target.after(599)));
    assert!(!under(target.after(1)));
    target.latency(hedged(&one_slow_replica(), 1.5, 1.0));
    assert!(!under(target.after(599)));
    assert!(under(target.after(1)));
}

#[test]
fn few_calls_do_not_tell_that_a_slow_mode_is_gone() {
    // 600 calls of which none is above twice the delay: at most 4, and 4 / 0.08 are 8.3 % of 600.
    let mut target = Target::new(patient());
    target.latency(one_slow_replica());
    target.run(1200, 30);
    let few = |histogram: &Histogram| {
        let buckets: Vec<_> = histogram
            .buckets()
            .iter()
            .map(|&(bound, count)| (bound, (count * 0.006).round()))
            .collect();
        crate::support::histogram(&buckets)
    };
    target.latency(few(&hedged(&none_slow(), 0.1, 1.0)));
    let decision = target.after(30);
    assert_eq!(decision.orders.hedging.unwrap().delay_ms, 100.0);
    assert_eq!(decision.limited_by, Some(LimitedBy::Plateau));
    // 20 / (0.05 x 0.08) = 5000 would: wider windows are read, as far as the delay has been under it.
    assert_eq!(decision.windows_wanted, [secs(600), secs(1200)]);
}

#[test]
fn which_side_of_a_slow_mode_outlives_a_restart() {
    let mut target = Target::new(patient());
    target.latency(one_slow_replica());
    target.decide();
    target.restart();
    target.latency(hedged(&none_slow(), 0.1, 1.0));
    assert_eq!(target.after(300).limited_by, Some(LimitedBy::Plateau));
}
