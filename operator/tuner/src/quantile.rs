//! Quantiles of cumulative counts.

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
/// Interpolates exactly as Prometheus' `histogram_quantile` does (`BucketQuantile` in `promql/quantile.go`), so that a
/// person can check it by hand; where that clips to the last finite bound this says so.
pub(crate) fn quantile(q: f64, buckets: &[(f64, f64)]) -> Quantile {
    let (Some(&(_, total)), Some(finite)) = (buckets.last(), buckets.len().checked_sub(1)) else {
        return Quantile::AtLeast(0.0);
    };
    let rank = q * total;
    let finite = &buckets[..finite];
    let Some(index) = finite.iter().position(|&(_, count)| count >= rank) else {
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
        (rank - below) / (count - below)
    } else {
        1.0
    };
    Quantile::Estimate {
        seconds: lower + (upper - lower) * within,
        bucket: (lower, upper),
    }
}
