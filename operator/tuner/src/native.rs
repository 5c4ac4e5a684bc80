//! Distributions from native histograms.

use crate::distribution::{Histogram, LARGEST_REPAIR};
use crate::interpolation::Layout;
use crate::{Unknown, UnknownReason};

/// Schemas of exponential histograms: bounds are powers of `2^(2^-n)` for `n` in these.
const SCHEMAS: std::ops::RangeInclusive<f64> = -4.0..=8.0;
/// How far a bound may be from such a power, in buckets: it went through logarithms.
const ON_GRID: f64 = 1e-6;
/// How far a bucket may reach into the next one, as a share of the bound: it went through decimals.
const SAME_BOUND: f64 = 1e-9;

/// A bucket of a native histogram, as the HTTP API of Prometheus tells it: `[rule, "lower", "upper", "calls"]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NativeBucket {
    /// The lower bound in seconds; -Inf for the lowest bucket of a histogram with custom bounds.
    pub lower: f64,
    /// The upper bound in seconds; +Inf for its highest.
    pub upper: f64,
    /// Calls in this bucket alone: not cumulative.
    pub calls: f64,
}

impl Histogram {
    /// A distribution from a native histogram: its buckets in any order, those without calls left out or not.
    ///
    /// `sum_seconds` and `count` are the histogram's own. A sum of NaN means that some observations were NaN: these are
    /// counted and in no bucket, and stand here, as they do for Prometheus, above every bucket.
    ///
    /// The answer of the API does not say what kind of histogram it was. It is an exponential one when every bound is a
    /// power of `2^(2^-n)` and every bucket one such power wide; any other has custom bounds. Custom bounds that are powers
    /// of two are only told apart when one or two of them hold every call: then as custom ones, which gives the longer delay.
    ///
    /// # Errors
    /// - `NotANumber`, `OutOfRange`: a bound or a count that is NaN, a count that is negative or infinite, a bucket that
    ///   ends before it begins, or at -Inf;
    /// - `NotAHistogram`: buckets that overlap, none with a finite bound, or a total that differs from `count` by more
    ///   than 1 %;
    /// - `BucketsUnsuitable`: bounds made for milliseconds hold seconds, or the mean cannot come from these buckets;
    /// - `NoTraffic`: everything is zero.
    pub fn from_native(
        buckets: impl IntoIterator<Item = NativeBucket>,
        sum_seconds: Option<f64>,
        count: f64,
    ) -> Result<Self, Unknown> {
        Self::from_native_in(1.0, buckets, sum_seconds, count)
    }

    /// The same of a histogram in another unit, of which `per_second` are a second: what kind it is shows in its own unit
    /// alone. `buckets` and `sum` are in that unit.
    ///
    /// # Errors
    /// As [`Histogram::from_native`].
    pub fn from_native_in(
        per_second: f64,
        buckets: impl IntoIterator<Item = NativeBucket>,
        sum: Option<f64>,
        count: f64,
    ) -> Result<Self, Unknown> {
        if count.is_nan() {
            return Err(Unknown::new(UnknownReason::NotANumber, "the count is NaN"));
        }
        let sum_seconds = sum.map(|sum| sum / per_second);
        let mut buckets = populated(buckets)?;
        let layout = layout(&buckets);
        for bucket in &mut buckets {
            // Dividing keeps 5 ms exactly 0.005 s, as multiplying by 0.001 would not.
            (bucket.lower, bucket.upper) = (bucket.lower / per_second, bucket.upper / per_second);
        }
        let mut knots = knots(&buckets, layout);
        let total = knots.last().map_or(0.0, |&(_, calls)| calls);
        let in_no_bucket = count - total;
        if let Some((_, calls)) = knots.last_mut()
            && sum_seconds.is_some_and(f64::is_nan)
            && (0.0..=LARGEST_REPAIR * total).contains(&in_no_bucket)
        {
            *calls = count;
        }
        if knots.len() == 1 && total > 0.0 {
            return Err(Unknown::new(
                UnknownReason::NotAHistogram,
                "the only bucket has no bounds",
            ));
        }
        Self::checked(knots, layout, sum_seconds, Some(count))
    }
}

/// The buckets that hold calls, by their bounds.
fn populated(buckets: impl IntoIterator<Item = NativeBucket>) -> Result<Vec<NativeBucket>, Unknown> {
    let mut populated = Vec::new();
    for bucket in buckets {
        let NativeBucket { lower, upper, calls } = bucket;
        if lower.is_nan() || upper.is_nan() || calls.is_nan() {
            return Err(Unknown::new(
                UnknownReason::NotANumber,
                "a bucket's bound or count is NaN",
            ));
        }
        if calls < 0.0 || calls.is_infinite() || lower > upper || upper <= f64::NEG_INFINITY {
            return Err(Unknown::new(
                UnknownReason::OutOfRange,
                format!("the bucket from {lower} s to {upper} s counts {calls}"),
            ));
        }
        if calls > 0.0 {
            populated.push(bucket);
        }
    }
    populated.sort_by(|left, right| left.lower.total_cmp(&right.lower));
    for pair in populated.windows(2) {
        let (end, begin) = (pair[0].upper, pair[1].lower);
        if end > begin + SAME_BOUND * begin.abs() {
            return Err(Unknown::new(
                UnknownReason::NotAHistogram,
                format!("a bucket ends at {end} s, the next begins at {begin} s: they overlap"),
            ));
        }
    }
    Ok(populated)
}

/// What kind of histogram has these buckets.
fn layout(buckets: &[NativeBucket]) -> Layout {
    let has_zero_bucket = buckets.iter().any(is_zero_bucket);
    let mut magnitudes = Vec::with_capacity(buckets.len());
    for bucket in buckets
        .iter()
        .filter(|bucket| !is_zero_bucket(bucket) && !is_beyond_numbers(bucket))
    {
        let (near, far) = match bucket.lower > 0.0 {
            true => (bucket.lower, bucket.upper),
            false => (-bucket.upper, -bucket.lower),
        };
        if near <= 0.0 || far.is_infinite() {
            return Layout::Custom;
        }
        magnitudes.push((near, far));
    }
    magnitudes.sort_by(|left, right| left.0.total_cmp(&right.0));
    // What is left of a bucket beside the one around zero may be of any width.
    let whole = &magnitudes[usize::from(has_zero_bucket).min(magnitudes.len())..];
    let told_apart = has_zero_bucket || whole.len() > 2;
    match width_in_powers(whole) {
        // Bounds of 0.25, 0.5 and 1 s stand beside each other in many a custom layout too.
        Some(width) if told_apart || width < 1.0 - ON_GRID => Layout::Exponential,
        None if has_zero_bucket && whole.is_empty() => Layout::Exponential,
        _ => Layout::Custom,
    }
}

/// The binary logarithm of the width that all these buckets have, if a schema has such buckets.
fn width_in_powers(buckets: &[(f64, f64)]) -> Option<f64> {
    let width = |&(near, far): &(f64, f64)| (far / near).log2();
    let is_whole = |number: f64| (number - number.round()).abs() < ON_GRID;
    let first = buckets.first().map(width)?;
    let schema = -first.log2();
    let on_grid = is_whole(schema)
        && SCHEMAS.contains(&schema.round())
        && buckets
            .iter()
            .all(|bucket| (width(bucket) / first - 1.0).abs() < ON_GRID && is_whole(bucket.1.log2() / first));
    on_grid.then_some(first)
}

/// The bucket of an exponential histogram that spans zero.
fn is_zero_bucket(bucket: &NativeBucket) -> bool {
    bucket.upper.is_finite() && (bucket.lower + bucket.upper).abs() <= 0.0
}

/// The last buckets of an exponential histogram end at the largest number and at infinity: no latency is in them.
fn is_beyond_numbers(bucket: &NativeBucket) -> bool {
    bucket.lower >= f64::MAX || bucket.upper.total_cmp(&f64::MAX).is_eq()
}

/// `(upper bound, calls at most that long)`, rising, the last bound +Inf, with the edges of buckets left out for want of calls.
fn knots(buckets: &[NativeBucket], layout: Layout) -> Vec<(f64, f64)> {
    let has_negative = buckets.iter().any(|bucket| bucket.upper < 0.0);
    let mut knots: Vec<(f64, f64)> = Vec::with_capacity(buckets.len() + 2);
    let mut calls = 0.0;
    for bucket in buckets {
        // Without negative calls those around zero are above it.
        let lower = match is_zero_bucket(bucket) && !has_negative && layout == Layout::Exponential {
            true => 0.0,
            false => bucket.lower,
        };
        let begins_anew = knots
            .last()
            .is_none_or(|&(end, _)| lower > end + SAME_BOUND * end.abs());
        if begins_anew && lower.abs() < f64::MAX {
            knots.push((lower, calls));
        }
        calls += bucket.calls;
        if bucket.upper < f64::MAX {
            // A narrow bucket may lie within the rounding at the end of the one before.
            let end = knots
                .last()
                .map_or(bucket.upper, |&(end, _)| end.max(bucket.upper));
            knots.push((end, calls));
        }
    }
    knots.push((f64::INFINITY, calls));
    knots
}
