//! Histogram arithmetic: how real data misleads.

use hedgerow_tuner::{Histogram, Quantile, UnknownReason};

use crate::support::histogram;

const INF: f64 = f64::INFINITY;

fn refused(buckets: &[(f64, f64)], sum: Option<f64>, count: Option<f64>) -> UnknownReason {
    Histogram::from_cumulative(buckets.iter().copied(), sum, count)
        .unwrap_err()
        .reason
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
fn few_calls_still_interpolate() {
    // p99 of 3 calls: rank 2.97 in (.1, .5] after 2: .1 + .4 x .97 = .488
    let histogram = histogram(&[(0.1, 2.0), (0.5, 3.0), (INF, 3.0)]);
    assert_near(histogram.quantile(0.99).estimate(), 0.488);
}

#[test]
fn low_resolution_carries_the_edges_of_the_bucket() {
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
}

#[test]
fn zero_everywhere_is_no_traffic() {
    assert_eq!(
        refused(&[(0.1, 0.0), (INF, 0.0)], Some(0.0), Some(0.0)),
        UnknownReason::NoTraffic
    );
}

#[test]
fn without_an_inf_bucket_it_is_no_histogram() {
    // As in a linkerd histogram that was cut off at le="30".
    let cut = [(0.01, 1260.0), (0.02, 1274.0), (0.03, 1276.0)];
    assert_eq!(refused(&cut, None, None), UnknownReason::NotAHistogram);
    assert_eq!(refused(&[], None, None), UnknownReason::NotAHistogram);
    assert_eq!(refused(&[(INF, 5.0)], None, None), UnknownReason::NotAHistogram);
}

#[test]
fn counts_per_bucket_are_refused_not_repaired() {
    let per_bucket = [(0.1, 50.0), (0.5, 30.0), (1.0, 15.0), (INF, 5.0)];
    assert_eq!(refused(&per_bucket, None, None), UnknownReason::NotAHistogram);
}

#[test]
fn counts_that_fall_a_little_are_repaired_by_the_cumulative_maximum() {
    // 99.5 after 100 is half a per cent of the mass: 100 is kept.
    let histogram = histogram(&[(0.1, 50.0), (0.5, 100.0), (1.0, 99.5), (INF, 100.0)]);
    assert_near(histogram.quantile(0.75).estimate(), 0.3);
    assert_eq!(histogram.buckets()[2], (1.0, 100.0));
}

#[test]
fn counts_that_fall_by_more_than_a_hundredth_are_non_monotonic() {
    let falling = [(0.1, 50.0), (0.5, 90.0), (1.0, 88.0), (INF, 100.0)];
    assert_eq!(refused(&falling, None, None), UnknownReason::NonMonotonic);
}

#[test]
fn rounding_noise_between_equal_counts_is_dropped() {
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
fn bounds_spelled_differently_are_added_up_in_any_order() {
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
fn a_first_bound_of_zero_is_accepted() {
    let histogram = histogram(&[(0.0, 10.0), (-0.0, 0.0), (1.0, 20.0), (INF, 20.0)]);
    assert_near(histogram.quantile(0.75).estimate(), 0.5);
    assert_near(histogram.quantile(0.25).estimate(), 0.0);
}

#[test]
fn a_total_that_disagrees_with_count_is_no_histogram() {
    // A Micrometer summary with buckets: every bucket 0, _count 1.
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
fn bounds_made_for_milliseconds_on_a_metric_in_seconds_are_unsuitable() {
    // The default bounds of OpenTelemetry with one call of 0.091 s: p95 would read 4.75 s whatever the load.
    let bounds = [
        0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0, 10000.0,
    ];
    let buckets = |scale: f64| {
        bounds
            .iter()
            .map(move |&bound| (bound * scale, if bound > 0.0 { 1.0 } else { 0.0 }))
            .chain([(INF, 1.0)])
    };
    let refused = Histogram::from_cumulative(buckets(1.0), Some(0.091), Some(1.0)).unwrap_err();
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
fn envoys_approximate_sum_passes_and_its_quantiles_are_known() {
    // upstream_rq_time in milliseconds, 7 calls, sum 5532: p50 87.5 ms, p99 9650 ms.
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
        (INF, 7.0),
    ];
    let seconds = counts.iter().map(|&(bound, count)| (bound / 1e3, count));
    let histogram = Histogram::from_cumulative(seconds, Some(5.532), Some(7.0)).unwrap();
    assert_near(histogram.quantile(0.5).estimate(), 0.0875);
    assert_near(histogram.quantile(0.99).estimate(), 9.65);
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
