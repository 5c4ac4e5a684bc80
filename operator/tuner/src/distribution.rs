//! Distributions, from classic histogram buckets.

use crate::interpolation::Layout;
use crate::quantile::{Quantile, quantile};
use crate::{Unknown, UnknownReason, messages};

/// Relative difference under which two cumulative counts are the same: what Prometheus' `histogram_quantile` uses.
const SAME_COUNT: f64 = 1e-12;
/// A repair that moves more than this share of the mass is no rounding but a fault.
pub(crate) const LARGEST_REPAIR: f64 = 0.01;
/// How far the bucket total may be from `_count`.
const TOTAL_TOLERANCE: f64 = 0.01;
/// How far `_sum` / `_count` may lie outside what the buckets allow: Envoy's `_sum` is approximate.
const MEAN_TOLERANCE: f64 = 0.05;

/// A latency distribution over one window: increases per bucket, in seconds.
///
/// Built by [`Histogram::from_cumulative`] and [`Histogram::from_native`], which repair what the reference repairs and
/// refuse the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// `(upper bound in seconds, calls at most that long)`, rising, the last bound +Inf, at least two. A native bucket without
    /// width is two equal bounds.
    buckets: Vec<(f64, f64)>,
    layout: Layout,
}

impl Histogram {
    /// A distribution from cumulative bucket counts: `(upper bound in seconds, calls at most that long)`, in any order.
    ///
    /// Equal bounds are added up (`le="0.1"` and `le="1e-1"`). Counts that fall are repaired as Prometheus repairs them:
    /// differences under 1e-12 of the counts are dropped, then the cumulative maximum is taken. `sum_seconds` and `count`
    /// are the increases of `_sum` and `_count`, where the source has them; they only check the buckets, and check nothing
    /// where they are not finite.
    ///
    /// # Errors
    /// - `NotANumber`, `OutOfRange`: a count that is NaN, negative or infinite, a bound of -Inf;
    /// - `NotAHistogram`: no +Inf bucket, fewer than two buckets, counts per bucket instead of cumulative ones, or a total
    ///   that differs from `count` by more than 1 %;
    /// - `NonMonotonic`: the repair would move more than 1 % of the mass;
    /// - `BucketsUnsuitable`: bounds made for milliseconds hold seconds, or the mean cannot come from these buckets;
    /// - `NoTraffic`: everything is zero.
    pub fn from_cumulative(
        buckets: impl IntoIterator<Item = (f64, f64)>,
        sum_seconds: Option<f64>,
        count: Option<f64>,
    ) -> Result<Self, Unknown> {
        let mut buckets = merged(buckets)?;
        let total = checked_total(&buckets)?;
        repair(&mut buckets, total)?;
        Self::checked(buckets, Layout::Classic, sum_seconds, count)
    }

    /// The distribution with these cumulative `buckets`, if its total and its mean can be.
    pub(crate) fn checked(
        buckets: Vec<(f64, f64)>,
        layout: Layout,
        sum_seconds: Option<f64>,
        count: Option<f64>,
    ) -> Result<Self, Unknown> {
        let histogram = Self { buckets, layout };
        histogram.check_count(count)?;
        if histogram.count() <= 0.0 {
            return Err(Unknown::new(
                UnknownReason::NoTraffic,
                "no call was counted in the window",
            ));
        }
        let mean = sum_seconds
            .filter(|sum| sum.is_finite())
            .map(|sum| sum / histogram.count());
        histogram.check_shape(mean)?;
        histogram.check_mean(mean)?;
        Ok(histogram)
    }

    /// Calls in the window.
    pub fn count(&self) -> f64 {
        self.buckets.last().map_or(0.0, |&(_, count)| count)
    }

    /// `(upper bound in seconds, calls at most that long)`, rising, the last bound +Inf. Of a native histogram those that
    /// hold calls, each beside the bound where it begins, which is the same where a bucket has no width.
    pub fn buckets(&self) -> &[(f64, f64)] {
        &self.buckets
    }

    /// The `q`-quantile, interpolated exactly as Prometheus' `histogram_quantile` does.
    pub fn quantile(&self, q: f64) -> Quantile {
        quantile(q, &self.buckets, self.layout)
    }

    /// Calls that took at most `time` seconds, interpolated; those in the +Inf bucket never did.
    pub(crate) fn calls_within(&self, time: f64) -> f64 {
        let index = self.buckets.partition_point(|&(bound, _)| bound < time);
        let (lower, below) = match index.checked_sub(1) {
            Some(previous) => self.buckets[previous],
            None => (0.0, 0.0),
        };
        match self.buckets.get(index) {
            Some(&(upper, calls)) if upper.is_finite() => {
                below + (calls - below) * self.layout.fraction((lower, upper), time)
            }
            _ => below,
        }
    }

    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }

    fn check_count(&self, count: Option<f64>) -> Result<(), Unknown> {
        let total = self.count();
        match count {
            Some(count)
                if count.is_finite() && (total - count).abs() > TOTAL_TOLERANCE * total.max(count) =>
            {
                Err(Unknown::new(
                    UnknownReason::NotAHistogram,
                    format!("the buckets hold {total:.0} calls, _count says {count:.0}"),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Finds bounds made for milliseconds on a metric in seconds: OpenTelemetry's default bounds (5, 10 ... 10000) with
    /// every call in the lowest of them. The 95th percentile would read 4.75 s whatever the load. A native histogram with
    /// such bounds shows the lowest alone; there the mean tells.
    fn check_shape(&self, mean: Option<f64>) -> Result<(), Unknown> {
        let finite = &self.buckets[..self.buckets.len() - 1];
        let Some(&(first, in_first)) = finite.iter().find(|&&(bound, _)| bound > 0.0) else {
            return Ok(());
        };
        let top = finite.last().map_or(0.0, |&(bound, _)| bound);
        let far_under_first = mean.is_some_and(|mean| mean < first / 10.0);
        let made_for_milliseconds =
            first >= 1.0 && (top >= 1000.0 || (self.layout == Layout::Custom && far_under_first));
        let all_in_first = in_first >= 0.95 * self.count() || mean.is_some_and(|mean| mean < first);
        if made_for_milliseconds && all_in_first {
            return Err(Unknown::new(
                UnknownReason::BucketsUnsuitable,
                format!(
                    "bounds from {first} s to {top} s were made for milliseconds and hold seconds: nearly every call \
                     is in the lowest; give the instrument bounds in seconds"
                ),
            ));
        }
        Ok(())
    }

    /// The mean must lie between what all calls at the lower and all at the upper edges of their buckets would give.
    fn check_mean(&self, mean: Option<f64>) -> Result<(), Unknown> {
        let Some(mean) = mean else { return Ok(()) };
        let (mut least, mut most, mut lower, mut below) = (0.0, 0.0, None, 0.0);
        for &(upper, cumulative) in &self.buckets {
            let calls = cumulative - below;
            if calls > 0.0 {
                // Nothing bounds the lowest bucket from below when its bound is not positive.
                least += calls * lower.unwrap_or(upper.min(0.0));
                most += calls * upper;
            }
            (lower, below) = (Some(upper), cumulative);
        }
        let (least, most) = (least / self.count(), most / self.count());
        if mean < least - MEAN_TOLERANCE * least.abs() || mean > most + MEAN_TOLERANCE * most.abs() {
            return Err(Unknown::new(
                UnknownReason::BucketsUnsuitable,
                format!(
                    "the mean is {} s, which buckets between {} s and {} s on average cannot give",
                    messages::number(mean),
                    messages::number(least),
                    messages::number(most)
                ),
            ));
        }
        Ok(())
    }
}

/// Sorted by bound, equal bounds added up.
fn merged(buckets: impl IntoIterator<Item = (f64, f64)>) -> Result<Vec<(f64, f64)>, Unknown> {
    let mut sorted: Vec<(f64, f64)> = buckets.into_iter().collect();
    for &(bound, count) in &sorted {
        if bound.is_nan() || count.is_nan() {
            return Err(Unknown::new(
                UnknownReason::NotANumber,
                "a bucket's bound or count is NaN",
            ));
        }
        if count < 0.0 || count.is_infinite() || bound <= f64::NEG_INFINITY {
            return Err(Unknown::new(
                UnknownReason::OutOfRange,
                format!("the bucket up to {bound} s counts {count}"),
            ));
        }
    }
    sorted.sort_by(|left, right| left.0.total_cmp(&right.0));
    let mut merged: Vec<(f64, f64)> = Vec::with_capacity(sorted.len());
    for (bound, count) in sorted {
        match merged.last_mut() {
            // `-0` and `0` are one bound.
            Some(last) if last.0 >= bound => last.1 += count,
            _ => merged.push((bound, count)),
        }
    }
    Ok(merged)
}

/// The count of the +Inf bucket, which must be there and hold all the others.
fn checked_total(buckets: &[(f64, f64)]) -> Result<f64, Unknown> {
    let not_a_histogram = |message: String| Err(Unknown::new(UnknownReason::NotAHistogram, message));
    let Some((&(bound, total), finite)) = buckets.split_last() else {
        return not_a_histogram("there are no buckets".to_owned());
    };
    if bound < f64::INFINITY {
        return not_a_histogram(format!(
            "there is no +Inf bucket; the last bound is {bound} s: a relabelling or a limit cut it off"
        ));
    }
    if finite.is_empty() {
        return not_a_histogram("the only bucket is +Inf".to_owned());
    }
    let largest = finite.iter().map(|&(_, count)| count).fold(0.0, f64::max);
    if !total.is_finite() {
        return Err(Unknown::new(
            UnknownReason::OutOfRange,
            "the +Inf bucket's count is too large",
        ));
    }
    if largest - total > LARGEST_REPAIR * largest {
        return not_a_histogram(format!(
            "the +Inf bucket holds {}, another {}: counts per bucket, not cumulative ones",
            messages::number(total),
            messages::number(largest)
        ));
    }
    Ok(total)
}

/// What Prometheus does before it interpolates, unless that would hide a fault.
fn repair(buckets: &mut [(f64, f64)], total: f64) -> Result<(), Unknown> {
    let mut previous = f64::NAN;
    let mut largest: f64 = 0.0;
    for (_, count) in buckets.iter_mut() {
        let falls = *count < previous;
        if falls && !nearly_equal(previous, *count) {
            largest = largest.max(previous - *count);
        }
        if falls || nearly_equal(previous, *count) {
            *count = previous;
        }
        previous = *count;
    }
    if largest > LARGEST_REPAIR * total {
        return Err(Unknown::new(
            UnknownReason::NonMonotonic,
            format!(
                "cumulative counts fall by {} of {} calls",
                messages::number(largest),
                messages::number(total)
            ),
        ));
    }
    Ok(())
}

fn nearly_equal(left: f64, right: f64) -> bool {
    (left - right).abs() <= SAME_COUNT * (left.abs() + right.abs()).min(f64::MAX)
}
