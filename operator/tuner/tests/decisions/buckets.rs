//! Histogram arithmetic: how real data misleads, a test for each case that was met.

use hedgerow_tuner::{Decision, Histogram, LimitedBy, Quantile, Reason, UnknownReason};

use crate::support::{Target, histogram, rules, rules_without_signals, secs, unknown, window};

const INF: f64 = f64::INFINITY;

fn refused(buckets: &[(f64, f64)], sum: Option<f64>, count: Option<f64>) -> UnknownReason {
    Histogram::from_cumulative(buckets.iter().copied(), sum, count)
        .unwrap_err()
        .reason
}

/// The first decision on this histogram, when 20 calls are enough.
fn decided(histogram: Histogram) -> Decision {
    let mut rules = rules_without_signals();
    rules.windows.min_samples = 20;
    let mut target = Target::new(rules);
    target.latency(histogram);
    target.decide()
}

fn assert_near(found: Option<f64>, expected: f64) {
    let found = found.unwrap();
    assert!(
        (found - expected).abs() < 1e-9 * expected.abs().max(1.0),
        "{found} is not {expected}"
    );
}

#[test]
fn quantiles_interpolate_as_prometheus_does() {
    // rank 50 of 100: in (.1, .5], which holds 40 of them after 20: .1 + .4 x 30/40 = .4
    let histogram = histogram(&[(0.1, 20.0), (0.5, 60.0), (1.0, 100.0), (INF, 100.0)]);
    assert_near(histogram.quantile(0.5).estimate(), 0.4);
    // The lowest bucket begins at 0: rank 10 of 20 in (0, .1].
    assert_near(histogram.quantile(0.1).estimate(), 0.05);
    // A rank that is a bucket's count is that bucket's edge.
    assert_near(histogram.quantile(0.6).estimate(), 0.5);
}

#[test]
fn a_quantile_in_the_inf_bucket_is_a_bound_and_no_estimate() {
    let histogram = histogram(&[(0.1, 90.0), (0.5, 94.0), (1.0, 95.0), (INF, 100.0)]);
    assert_eq!(histogram.quantile(0.99), Quantile::AtLeast(1.0));
    assert_near(histogram.quantile(0.95).estimate(), 1.0);
}

#[test]
fn few_samples_are_too_few() {
    // p99 of 3 calls: rank 2.97 in (.1, .5] after 2: .1 + .4 x .97 = .488
    let histogram = histogram(&[(0.1, 2.0), (0.5, 3.0), (INF, 3.0)]);
    assert_near(histogram.quantile(0.99).estimate(), 0.488);
    let mut target = Target::new(rules());
    target.latency(histogram);
    let why = target.decide().latency.unknown.unwrap();
    assert_eq!(
        (why.reason, why.message.as_str()),
        (UnknownReason::TooFewSamples, "3 calls in 10m, 400 wanted")
    );
}

#[test]
fn low_resolution_carries_the_edges_of_the_bucket_and_tunes_to_one() {
    // 1000 calls at 20 ms read p50 50 ms and p95 95 ms: only (0, .1] is known.
    let histogram = histogram(&[
        (0.1, 1000.0),
        (0.3, 1000.0),
        (1.2, 1000.0),
        (5.0, 1000.0),
        (INF, 1000.0),
    ]);
    assert_near(histogram.quantile(0.5).estimate(), 0.05);
    assert_eq!(
        histogram.quantile(0.95),
        Quantile::Estimate {
            seconds: 0.095,
            bucket: (0.0, 0.1)
        }
    );
    assert_near(histogram.quantile(0.99).estimate(), 0.099);
    let decision = decided(histogram);
    assert_eq!(decision.orders.hedging.unwrap().delay_ms, 100.0);
    assert_eq!(decision.limited_by, Some(LimitedBy::LowResolution));
}

#[test]
fn low_resolution_of_grpc_go_at_two_seconds() {
    // grpc-otel-go.prom: 26 attempts of 2.0036 s on average, all in (2, 5]: p50 reads 3.5 s, p99 4.97 s.
    let buckets = |mean: f64| {
        let counts = [
            (0.0, 0.0),
            (1e-5, 0.0),
            (1.0, 0.0),
            (2.0, 0.0),
            (5.0, 26.0),
            (10.0, 26.0),
            (100.0, 26.0),
        ];
        Histogram::from_cumulative(
            counts.into_iter().chain([(INF, 26.0)]),
            Some(26.0 * mean),
            Some(26.0),
        )
    };
    let histogram = buckets(52.092_750_544_999_99 / 26.0).unwrap();
    assert_near(histogram.quantile(0.5).estimate(), 3.5);
    assert_near(histogram.quantile(0.99).estimate(), 4.97);
    let Quantile::Estimate { bucket, .. } = histogram.quantile(0.5) else {
        panic!()
    };
    assert_eq!(bucket, (2.0, 5.0));
    // The mean is what tells that buckets and calls belong together.
    assert_eq!(buckets(1.8).unwrap_err().reason, UnknownReason::BucketsUnsuitable);
    let mut target = Target::new(rules_without_signals());
    target.rules.windows.min_samples = 20;
    (target.rules.deadline, target.rules.delay.max) = (Some(secs(10)), secs(10));
    target.latency(histogram);
    // The edges are 2.5 apart and no more: within the bucket, at 2 + 0.95 x 3.
    assert_near(target.decide().recommended_ms, 4850.0);
}

#[test]
fn zero_traffic_is_held_without_alarm() {
    assert_eq!(
        refused(&[(0.1, 0.0), (INF, 0.0)], Some(0.0), Some(0.0)),
        UnknownReason::NoTraffic
    );
}

#[test]
fn idle_percentiles_of_0_are_no_traffic() {
    // micrometer-percentiles-zeroed.prom reads 0.0 for every percentile of a target that was tuned. Never a delay of 0.
    let mut target = Target::tuned(rules());
    let held = target.hedging();
    target.windows(vec![window(600, Err(unknown(UnknownReason::NoTraffic)))]);
    let decision = target.after(3600);
    assert_eq!((decision.reason, decision.orders.hedging), (Reason::Held, held));
    assert_eq!(decision.latency.p95_ms, None);
}

#[test]
fn every_call_above_the_top_bucket_is_at_least_its_bound() {
    // ingress-nginx.prom: le="10" holds 0 calls, +Inf one.
    let bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
    let histogram = histogram(
        &bounds
            .map(|bound| (bound, 0.0))
            .into_iter()
            .chain([(INF, 1.0)])
            .collect::<Vec<_>>(),
    );
    for q in [0.5, 0.95, 0.99] {
        assert_eq!(histogram.quantile(q), Quantile::AtLeast(10.0));
    }
}

#[test]
fn victoriametrics_vmrange_is_no_histogram() {
    // victoriametrics-vmrange.prom, its upper bounds taken for le: counts per bucket, and no +Inf.
    let ranges = [
        (100.0, 6.0),
        (113.6, 26.0),
        (129.2, 32.0),
        (146.8, 34.0),
        (166.8, 40.0),
        (189.6, 46.0),
        (215.4, 52.0),
    ];
    assert_eq!(
        refused(&ranges, Some(37_800.0), Some(240.0)),
        UnknownReason::NotAHistogram
    );
}

#[test]
fn milliseconds_observed_into_second_shaped_buckets_are_implausible() {
    // kinto-ms-values-in-seconds-buckets.prom: p50 reads 5.1 s of a cache; the deadline is 1 s.
    let bounds = [
        0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, INF,
    ];
    let counts = [
        0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 57.0, 119.0, 120.0, 121.0,
    ];
    let histogram = Histogram::from_cumulative(bounds.into_iter().zip(counts), None, Some(121.0)).unwrap();
    // Rank 60.5 of 57..119 in (5, 7.5].
    assert_near(histogram.quantile(0.5).estimate(), 5.0 + 2.5 * 3.5 / 62.0);
    let decision = decided(histogram);
    assert_eq!(
        decision.latency.unknown.unwrap().reason,
        UnknownReason::ImplausibleUnit
    );
    assert_eq!(decision.orders.hedging, None);
}

#[test]
fn no_inf_bucket_is_no_histogram() {
    // linkerd-response_latency_ms.prom, cut off at le="30".
    let cut = [(0.01, 1260.0), (0.02, 1274.0), (0.03, 1276.0)];
    assert_eq!(refused(&cut, None, None), UnknownReason::NotAHistogram);
    assert_eq!(refused(&[], None, None), UnknownReason::NotAHistogram);
    assert_eq!(refused(&[(INF, 5.0)], None, None), UnknownReason::NotAHistogram);
}

#[test]
fn per_bucket_instead_of_cumulative_counts_are_refused_not_repaired() {
    let per_bucket = [(0.1, 50.0), (0.5, 30.0), (1.0, 15.0), (INF, 5.0)];
    assert_eq!(refused(&per_bucket, None, None), UnknownReason::NotAHistogram);
}

#[test]
fn non_monotonic_buckets_are_repaired_by_the_cumulative_maximum() {
    // 99.5 after 100 is half a per cent of the mass: 100 is kept.
    let histogram = histogram(&[(0.1, 50.0), (0.5, 100.0), (1.0, 99.5), (INF, 100.0)]);
    assert_near(histogram.quantile(0.75).estimate(), 0.3);
    assert_eq!(histogram.buckets()[2], (1.0, 100.0));
}

#[test]
fn non_monotonic_buckets_beyond_a_hundredth_are_refused() {
    let falling = [(0.1, 50.0), (0.5, 90.0), (1.0, 88.0), (INF, 100.0)];
    assert_eq!(refused(&falling, None, None), UnknownReason::NonMonotonic);
}

#[test]
fn non_monotonic_buckets_within_the_tolerance_are_equal() {
    let histogram = histogram(&[
        (0.1, 100.0),
        (0.5, 100.0 + 1e-11),
        (1.0, 100.0 - 1e-11),
        (INF, 100.0),
    ]);
    assert!(
        histogram
            .buckets()
            .iter()
            .all(|&(_, count)| count.total_cmp(&100.0).is_eq())
    );
}

#[test]
fn le_spelled_in_different_ways_is_added_up_in_any_order() {
    // le="1e-05" of one series and le="1.0E-5" of another, the second half of them out of order.
    let histogram = histogram(&[
        (1e-5, 10.0),
        (INF, 20.0),
        (1.0, 20.0),
        (1.0e-5, 30.0),
        (1.0, 40.0),
        (INF, 40.0),
    ]);
    assert_eq!(histogram.buckets(), [(1e-5, 40.0), (1.0, 60.0), (INF, 60.0)]);
}

#[test]
fn le_spelled_in_different_ways_reads_alike_of_grpc_in_go_and_java() {
    // grpc-otel-java.prom as its text has it, 34 attempts, and the spellings of grpc-otel-go.prom for the same bounds.
    let java = [
        "0.0", "1.0E-5", "1.0E-4", "0.002", "0.003", "0.004", "0.005", "0.006", "0.3", "0.4", "1.0", "100.0",
        "+Inf",
    ];
    let go = [
        "0", "1e-05", "0.0001", "0.002", "0.003", "0.004", "0.005", "0.006", "0.3", "0.4", "1", "100", "+Inf",
    ];
    let counts = [
        0.0, 0.0, 0.0, 0.0, 2.0, 14.0, 29.0, 33.0, 33.0, 34.0, 34.0, 34.0, 34.0,
    ];
    let read = |bounds: &[&str]| {
        let buckets: Vec<_> = bounds
            .iter()
            .map(|bound| bound.parse().unwrap())
            .zip(counts)
            .collect();
        Histogram::from_cumulative(buckets, Some(0.465_126_653), Some(34.0)).unwrap()
    };
    assert_eq!(read(&java), read(&go));
    // Rank 17 of 14..29 in (.004, .005].
    assert_near(read(&java).quantile(0.5).estimate(), 0.0042);
    // One of each, summed by le as the server does not: twice the calls.
    let both: Vec<(f64, f64)> = java
        .iter()
        .chain(&go)
        .map(|bound| bound.parse().unwrap())
        .zip(counts.into_iter().chain(counts))
        .collect();
    assert_near(histogram(&both).quantile(0.5).estimate(), 0.0042);
    assert_eq!(histogram(&both).count(), 68.0);
}

#[test]
fn a_first_bound_of_0_or_under_is_accepted_and_a_quantile_there_is_no_delay() {
    let histogram = histogram(&[(0.0, 10.0), (-0.0, 0.0), (1.0, 20.0), (INF, 20.0)]);
    assert_near(histogram.quantile(0.75).estimate(), 0.5);
    assert_near(histogram.quantile(0.25).estimate(), 0.0);
    assert_eq!(
        decided(histogram)
            .orders
            .hedging
            .map(|hedging| hedging.delay_ms > 0.0),
        Some(true)
    );
    let zeroed = self::histogram(&[(0.0, 960.0), (1.0, 1000.0), (INF, 1000.0)]);
    let decision = decided(zeroed);
    assert_eq!(
        decision.latency.unknown.unwrap().reason,
        UnknownReason::OutOfRange
    );
    let negative = self::histogram(&[(-1.0, 960.0), (1.0, 1000.0), (INF, 1000.0)]);
    assert_near(negative.quantile(0.95).estimate(), -1.0);
    assert_eq!(decided(negative).orders.hedging, None);
}

#[test]
fn a_bucket_total_that_disagrees_with_count_is_no_histogram() {
    // micrometer-summary-type-with-buckets.prom: every bucket 0, _count 1.
    let summary = [(0.001, 0.0), (30.0, 0.0), (INF, 0.0)];
    assert_eq!(
        refused(&summary, Some(106.0), Some(1.0)),
        UnknownReason::NotAHistogram
    );
    let buckets = [(0.1, 50.0), (INF, 100.0)];
    assert_eq!(refused(&buckets, None, Some(102.0)), UnknownReason::NotAHistogram);
    assert!(Histogram::from_cumulative(buckets, None, Some(100.9)).is_ok());
}

#[test]
fn a_seconds_metric_with_millisecond_shaped_bounds_is_unsuitable() {
    // otel-seconds-metric-with-ms-buckets.prom: one call of 0.091 s; p95 would read 4.75 s whatever the load.
    let bounds = [
        0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0, 10000.0,
    ];
    let buckets = |scale: f64| {
        bounds
            .iter()
            .map(move |&bound| (bound * scale, if bound > 0.0 { 1.0 } else { 0.0 }))
            .chain([(INF, 1.0)])
    };
    let refused =
        Histogram::from_cumulative(buckets(1.0), Some(0.091_207_265_853_881_84), Some(1.0)).unwrap_err();
    assert_eq!(refused.reason, UnknownReason::BucketsUnsuitable);
    assert!(refused.message.contains("milliseconds"), "{refused}");
    // In milliseconds the same bounds are right.
    assert!(Histogram::from_cumulative(buckets(1e-3), Some(0.0009), Some(1.0)).is_ok());
}

#[test]
fn a_mean_that_the_buckets_cannot_give_is_unsuitable() {
    // 100 calls between .1 and .5 s, with a sum in milliseconds: mean 300 s.
    let buckets = [(0.1, 0.0), (0.5, 100.0), (INF, 100.0)];
    assert_eq!(
        refused(&buckets, Some(30_000.0), None),
        UnknownReason::BucketsUnsuitable
    );
    // 5 % beyond the edges is allowed: 0.52 s is 4 % above .5.
    assert!(Histogram::from_cumulative(buckets, Some(52.0), None).is_ok());
    assert_eq!(
        refused(&buckets, Some(53.0), None),
        UnknownReason::BucketsUnsuitable
    );
    // Nothing limits the mean of calls in the +Inf bucket.
    assert!(Histogram::from_cumulative([(0.1, 0.0), (INF, 100.0)], Some(1e6), None).is_ok());
}

#[test]
fn le_exclusive_and_sum_approximate_as_envoy_has_them_pass() {
    // envoy-upstream_rq_time.prom, in milliseconds, 7 calls, sum 5532: p50 87.5 ms, p99 9650 ms.
    let counts = [
        (0.5, 0.0),
        (1.0, 0.0),
        (5.0, 0.0),
        (10.0, 0.0),
        (25.0, 1.0),
        (50.0, 2.0),
        (100.0, 4.0),
        (250.0, 6.0),
        (500.0, 6.0),
        (1000.0, 6.0),
        (2500.0, 6.0),
        (5000.0, 6.0),
        (10000.0, 7.0),
        (30000.0, 7.0),
        (60000.0, 7.0),
        (300_000.0, 7.0),
        (600_000.0, 7.0),
        (1_800_000.0, 7.0),
        (3_600_000.0, 7.0),
        (INF, 7.0),
    ];
    let seconds = counts.iter().map(|&(bound, count)| (bound / 1e3, count));
    let histogram = Histogram::from_cumulative(seconds, Some(5.532), Some(7.0)).unwrap();
    assert_near(histogram.quantile(0.5).estimate(), 0.0875);
    assert_near(histogram.quantile(0.99).estimate(), 9.65);
}

/// A quantile would be no number, or infinitely negative.
#[test]
fn a_bound_of_minus_infinity_is_refused() {
    for calls in [0.0, 5.0] {
        let buckets = [(f64::NEG_INFINITY, calls), (2.0, 100.0), (INF, 100.0)];
        let why = Histogram::from_cumulative(buckets, None, None).unwrap_err();
        assert_eq!(why.reason, UnknownReason::OutOfRange, "{why}");
    }
}

#[test]
fn counts_that_are_no_counts_are_refused() {
    assert_eq!(
        refused(&[(0.1, f64::NAN), (INF, 1.0)], None, None),
        UnknownReason::NotANumber
    );
    assert_eq!(
        refused(&[(f64::NAN, 1.0), (INF, 1.0)], None, None),
        UnknownReason::NotANumber
    );
    assert_eq!(
        refused(&[(0.1, -1.0), (INF, 1.0)], None, None),
        UnknownReason::OutOfRange
    );
    assert_eq!(
        refused(&[(0.1, 1.0), (INF, INF)], None, None),
        UnknownReason::OutOfRange
    );
    assert_eq!(
        refused(&[(0.1, f64::MAX), (INF, f64::MAX), (INF, f64::MAX)], None, None),
        UnknownReason::OutOfRange
    );
}
