//! Where within a bucket calls lie.

/// How a histogram was made, which decides how Prometheus interpolates within its buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Cumulative buckets by `le`.
    #[default]
    Classic,
    /// A native histogram with bounds of its own (schema -53).
    Custom,
    /// A native histogram whose bounds are powers of `2^(2^-n)`.
    Exponential,
}

impl Layout {
    /// The time under which `fraction` of the calls of a bucket lie.
    ///
    /// Evenly spread over time; over its logarithm in an exponential bucket, but for the one around zero (`HistogramQuantile`
    /// in Prometheus' `promql/quantile.go`). At the upper edge where the width is no number: the longer time is the safer one.
    pub(crate) fn time(self, (lower, upper): (f64, f64), fraction: f64) -> f64 {
        if (upper - lower).is_infinite() {
            return upper;
        }
        let time = if self.is_exponential(lower, upper) {
            // A negative bucket is a positive one in the mirror: the formula is the same.
            lower * (upper / lower).powf(fraction)
        } else {
            lower + (upper - lower) * fraction
        };
        // By rounding, or where the ratio of the bounds is beyond numbers.
        time.min(upper)
    }

    /// The share of the calls of a bucket that lie under `time`: the inverse of [`Layout::time`].
    pub(crate) fn fraction(self, (lower, upper): (f64, f64), time: f64) -> f64 {
        if lower >= upper || time >= upper {
            1.0
        } else if time <= lower || (upper - lower).is_infinite() {
            0.0
        } else if self.is_exponential(lower, upper) {
            (time / lower).ln() / (upper / lower).ln()
        } else {
            (time - lower) / (upper - lower)
        }
    }

    /// Whether Prometheus counts ranks from above for quantiles from the median up.
    pub(crate) const fn is_native(self) -> bool {
        !matches!(self, Self::Classic)
    }

    fn is_exponential(self, lower: f64, upper: f64) -> bool {
        self == Self::Exponential && (lower > 0.0 || upper < 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;

    #[test]
    fn the_middle_of_an_exponential_bucket_is_where_a_finer_one_would_part_it() {
        // (1, 2] is parted at 2^(1/2), (-2, -1] at -2^(1/2); the bucket around zero and custom ones in the middle.
        let root = std::f64::consts::SQRT_2;
        for (layout, bucket, middle) in [
            (Layout::Exponential, (1.0, 2.0), root),
            (Layout::Exponential, (-2.0, -1.0), -root),
            (Layout::Exponential, (0.0, 2.0), 1.0),
            (Layout::Exponential, (-1.0, 1.0), 0.0),
            (Layout::Custom, (1.0, 2.0), 1.5),
            (Layout::Classic, (1.0, 2.0), 1.5),
        ] {
            assert!((layout.time(bucket, 0.5) - middle).abs() < 1e-15, "{bucket:?}");
            assert!(
                (layout.fraction(bucket, middle) - 0.5).abs() < 1e-15,
                "{bucket:?}"
            );
        }
    }

    #[test]
    fn no_time_is_beyond_its_bucket() {
        assert!(Layout::Exponential.time((0.05, 2.973e307), 0.5) <= 2.973e307);
        assert!(Layout::Classic.time((-0.1, 0.001), 1.0) <= 0.001);
    }

    /// A width that is no number: `-Inf` may be written as a bound, and the largest numbers are too far apart.
    #[test]
    fn the_calls_of_a_bucket_without_end_are_at_its_upper_edge() {
        for lower in [f64::NEG_INFINITY, f64::MIN] {
            let bucket = (lower, f64::MAX);
            for layout in [Layout::Classic, Layout::Custom] {
                assert!(layout.time(bucket, 0.01) >= f64::MAX, "{lower}");
                assert!(layout.fraction(bucket, 1.0).abs() < 1e-15, "{lower}");
            }
        }
    }

    #[test]
    fn a_bucket_without_width_holds_everything() {
        assert!((Layout::Classic.fraction((1.0, 1.0), 1.0) - 1.0).abs() < 1e-15);
    }
}
