//! Quantiles of cumulative counts.

use crate::interpolation::Layout;

/// A quantile as a histogram knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantile {
    /// Interpolated within a bucket.
    Estimate {
        /// The estimate in seconds.
        seconds: f64,
        /// The edges of the bucket that it lies in, in seconds: the truth is between them.
        bucket: (f64, f64),
    },
    /// In the +Inf bucket: the last bound in seconds is all that is known. No number to tune to, but evidence.
    AtLeast(f64),
}

impl Quantile {
    /// The estimate, or the bound: the quantile is at least about this, in seconds.
    pub fn at_least(self) -> f64 {
        match self {
            Self::Estimate { seconds, .. } | Self::AtLeast(seconds) => seconds,
        }
    }

    /// The estimate in seconds; `None` where only a bound is known.
    pub fn estimate(self) -> Option<f64> {
        match self {
            Self::Estimate { seconds, .. } => Some(seconds),
            Self::AtLeast(_) => None,
        }
    }
}

/// The `q`-quantile of `(upper bound, cumulative count)`, rising, the last bound +Inf, at least two.
///
/// Interpolates exactly as Prometheus' `histogram_quantile` does (`BucketQuantile` and `HistogramQuantile` in
/// `promql/quantile.go`), so that a person can check it by hand; where that clips to the last finite bound this says so.
pub(crate) fn quantile(q: f64, buckets: &[(f64, f64)], layout: Layout) -> Quantile {
    let Some((&(_, total), finite)) = buckets.split_last() else {
        return Quantile::AtLeast(0.0);
    };
    let Some(index) = bucket_of(q, total, finite, layout) else {
        return Quantile::AtLeast(finite.last().map_or(0.0, |&(bound, _)| bound.max(0.0)));
    };
    let (upper, count) = finite[index];
    let (lower, below) = match index.checked_sub(1) {
        Some(previous) => finite[previous],
        None if upper <= 0.0 => {
            return Quantile::Estimate {
                seconds: upper,
                bucket: (upper, upper),
            };
        }
        None => (0.0, 0.0),
    };
    let within = if count > below {
        ((q * total - below) / (count - below)).clamp(0.0, 1.0)
    } else {
        1.0
    };
    Quantile::Estimate {
        seconds: layout.time((lower, upper), within),
        bucket: (lower, upper),
    }
}

/// The finite bucket that holds the rank of the `q`-quantile; `None` when the one up to +Inf does.
///
/// A rank that ends a bucket belongs to it; in a native histogram, where Prometheus counts from above from the median on,
/// to the next one with calls.
fn bucket_of(q: f64, total: f64, finite: &[(f64, f64)], layout: Layout) -> Option<usize> {
    if !layout.is_native() || q < 0.5 {
        let rank = q * total;
        let index = finite.partition_point(|&(_, count)| count < rank);
        return (index < finite.len()).then_some(index);
    }
    let from_above = (1.0 - q) * total;
    let counts = |index: usize| finite.get(index).map_or(total, |&(_, count)| count);
    (0..=finite.len())
        .rev()
        .find(|&index| {
            let below = index.checked_sub(1).map_or(0.0, counts);
            counts(index) > below && total - below >= from_above
        })
        .filter(|&index| index < finite.len())
}
