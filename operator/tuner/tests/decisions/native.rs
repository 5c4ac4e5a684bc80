//! Native histograms, as the HTTP API of Prometheus tells them.

use hedgerow_tuner::{Histogram, NativeBucket, Quantile, Unknown, UnknownReason};

use crate::support::{Target, rules_without_signals, window};

const INF: f64 = f64::INFINITY;

fn read(buckets: &[(f64, f64, f64)], sum: Option<f64>, count: f64) -> Result<Histogram, Unknown> {
    let buckets = buckets
        .iter()
        .map(|&(lower, upper, calls)| NativeBucket { lower, upper, calls });
    Histogram::from_native(buckets, sum, count)
}

fn refused(buckets: &[(f64, f64, f64)], sum: Option<f64>, count: f64) -> UnknownReason {
    read(buckets, sum, count).unwrap_err().reason
}

fn assert_near(found: Quantile, expected: f64) {
    let found = found.estimate().unwrap();
    assert!(
        (found - expected).abs() < 1e-12 * expected.max(1.0),
        "{found} is not {expected}"
    );
}

#[test]
fn an_exponential_bucket_is_interpolated_on_a_logarithmic_scale() {
    // Schema 0: rank 50 of 100 is in the middle of (1, 2]: 2^(1/2). Rank 90 is half of the calls of (2, 4]: 2^(3/2).
    let histogram = read(
        &[(0.5, 1.0, 20.0), (1.0, 2.0, 60.0), (2.0, 4.0, 20.0)],
        Some(130.0),
        100.0,
    )
    .unwrap();
    assert_near(histogram.quantile(0.5), 2.0_f64.powf(0.5));
    assert_near(histogram.quantile(0.9), 2.0_f64.powf(1.5));
}

#[test]
fn the_bucket_around_zero_begins_at_zero_and_is_linear() {
    let zero = 2.0_f64.powi(-128);
    let histogram = read(&[(-zero, zero, 50.0), (0.5, 1.0, 50.0)], None, 100.0).unwrap();
    assert_near(histogram.quantile(0.25), zero / 2.0);
    assert_near(histogram.quantile(0.75), 0.5_f64.sqrt());
    // With calls under zero, which only a fault can make, it is taken as it is.
    let histogram = read(
        &[(-2.0, -1.0, 10.0), (-0.5, 0.5, 80.0), (1.0, 2.0, 10.0)],
        None,
        100.0,
    )
    .unwrap();
    assert_near(histogram.quantile(0.3), -0.25);
}

#[test]
fn custom_bounds_are_linear_and_end_in_a_bound() {
    // As classic buckets .1, .5, 1: rank 50 in (.1, .5] after 20 of 40; p99 above 1.
    let buckets = [
        (-INF, 0.1, 20.0),
        (0.1, 0.5, 40.0),
        (0.5, 1.0, 30.0),
        (1.0, INF, 10.0),
    ];
    let histogram = read(&buckets, Some(40.0), 100.0).unwrap();
    assert_near(histogram.quantile(0.1), 0.05);
    assert_near(histogram.quantile(0.4), 0.3);
    assert_eq!(histogram.quantile(0.99), Quantile::AtLeast(1.0));
}

#[test]
fn a_rank_between_two_buckets_is_the_higher_from_the_median_on() {
    // Prometheus counts from above there: of 100 calls 50 are at 0.8 s or longer, and none between.
    let histogram = read(&[(0.1, 0.2, 50.0), (0.8, 1.6, 50.0)], None, 100.0).unwrap();
    assert_near(histogram.quantile(0.5), 0.8);
    assert_near(histogram.quantile(0.49999999), 0.2 - 2e-9);
}

#[test]
fn wide_buckets_that_could_be_either_are_read_as_the_longer() {
    // (.25, .5] and (.5, 1] are bounds of Prometheus' default buckets and of an exponential histogram of schema 0.
    let histogram = read(&[(0.25, 0.5, 50.0), (0.5, 1.0, 50.0)], None, 100.0).unwrap();
    assert_near(histogram.quantile(0.75), 0.75);
    // One more of them, or narrow ones, are no accident.
    let histogram = read(
        &[(0.25, 0.5, 50.0), (0.5, 1.0, 40.0), (1.0, 2.0, 10.0)],
        None,
        100.0,
    )
    .unwrap();
    assert_near(histogram.quantile(0.7), 0.5_f64.sqrt());
    let narrow = 2.0_f64.powf(0.125);
    assert_near(
        read(&[(1.0, narrow, 50.0)], None, 50.0).unwrap().quantile(0.5),
        2.0_f64.powf(0.0625),
    );
}

#[test]
fn observations_of_nan_stand_above_every_bucket() {
    // The sum says so. p99.5 of 1000 is beyond the 991 that are in buckets.
    let narrow = 2.0_f64.powf(0.125);
    let histogram = read(&[(1.0, narrow, 991.0)], Some(f64::NAN), 1000.0).unwrap();
    assert_eq!(histogram.quantile(0.995), Quantile::AtLeast(narrow));
    assert_near(histogram.quantile(0.4955), 2.0_f64.powf(0.0625));
}

#[test]
fn infinite_observations_are_at_least_the_last_number_seen() {
    let buckets = [
        (1.0, 2.0, 50.0),
        (2.0, 4.0, 10.0),
        (4.0, 8.0, 10.0),
        (f64::MAX, INF, 30.0),
    ];
    assert_eq!(
        read(&buckets, Some(INF), 100.0).unwrap().quantile(0.95),
        Quantile::AtLeast(8.0)
    );
}

#[test]
fn what_is_no_native_histogram_is_refused() {
    let one = [(1.0, 2.0, 10.0)];
    assert_eq!(refused(&[], None, 0.0), UnknownReason::NoTraffic);
    assert_eq!(refused(&[(1.0, 2.0, 0.0)], None, 0.0), UnknownReason::NoTraffic);
    assert_eq!(
        refused(&[(1.0, 2.0, f64::NAN)], None, 1.0),
        UnknownReason::NotANumber
    );
    assert_eq!(
        refused(&[(f64::NAN, 2.0, 1.0)], None, 1.0),
        UnknownReason::NotANumber
    );
    assert_eq!(refused(&one, None, f64::NAN), UnknownReason::NotANumber);
    assert_eq!(refused(&[(1.0, 2.0, -1.0)], None, 1.0), UnknownReason::OutOfRange);
    assert_eq!(refused(&[(1.0, 2.0, INF)], None, 1.0), UnknownReason::OutOfRange);
    assert_eq!(refused(&[(2.0, 1.0, 1.0)], None, 1.0), UnknownReason::OutOfRange);
    assert_eq!(refused(&one, None, 10.2), UnknownReason::NotAHistogram);
    assert_eq!(refused(&one, Some(f64::NAN), 10.2), UnknownReason::NotAHistogram);
    assert_eq!(
        refused(&[(1.0, 3.0, 1.0), (2.0, 4.0, 1.0)], None, 2.0),
        UnknownReason::NotAHistogram
    );
    assert_eq!(
        refused(&[(-INF, INF, 9.0)], None, 9.0),
        UnknownReason::NotAHistogram
    );
    // A mean of 3 s from calls of 1 to 2 s.
    assert_eq!(refused(&one, Some(30.0), 10.0), UnknownReason::BucketsUnsuitable);
    // Bounds made for milliseconds hold seconds: all that is seen of them is the lowest.
    assert_eq!(
        refused(&[(0.0, 5.0, 10.0)], Some(0.91), 10.0),
        UnknownReason::BucketsUnsuitable
    );
    assert!(read(&[(0.0, 5.0, 10.0)], Some(25.0), 10.0).is_ok());
}

#[test]
fn an_exponential_histogram_reaches_beyond_any_deadline() {
    let step = 2.0_f64.powf(0.125);
    let buckets: Vec<_> = (0..16)
        .map(|index| (0.125 * step.powi(index), 0.125 * step.powi(index + 1), 100.0))
        .collect();
    let mut target = Target::new(rules_without_signals());
    target.windows(vec![window(600, read(&buckets, None, 1600.0))]);
    let decision = target.decide();
    assert_eq!(decision.low_confidence, None);
    // p95: 80 % into the sixteenth bucket.
    let expected = 125.0 * step.powf(15.2);
    assert!((decision.recommended_ms.unwrap() - expected).abs() < 1e-9);
    assert_eq!(decision.effect.miss_share_unhedged, Some(0.0));
}

#[test]
fn a_bucket_that_ends_at_minus_infinity_is_refused() {
    let below_everything = (-INF, -INF, 3.0);
    assert_eq!(refused(&[below_everything], None, 3.0), UnknownReason::OutOfRange);
    assert_eq!(
        refused(&[below_everything, (1.0, 2.0, 97.0)], None, 100.0),
        UnknownReason::OutOfRange
    );
}

/// The second bucket lies within the rounding at the end of the first, and ends before it.
#[test]
fn bounds_never_fall_where_buckets_touch() {
    let inside = 2.0 - 1e-10;
    let touching = [(1.0, 2.0, 10.0), (inside, inside + 5e-11, 5.0), (2.0, 3.0, 1.0)];
    let histogram = read(&touching, None, 16.0).unwrap();
    let found = histogram.buckets();
    assert!(found.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{found:?}");
}
