//! Native histograms as an answer carries them. Pure.

use hedgerow_tuner::{Histogram, NativeBucket, Unknown};
use serde::Deserialize;

use crate::answer::Number;

/// A native histogram: counts per bucket, in the metric's unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Native {
    /// All observations, those that are no number included.
    pub(crate) count: f64,
    /// Their sum.
    pub(crate) sum: f64,
    /// The buckets that hold any, in rising order.
    pub(crate) buckets: Vec<NativeBucket>,
}

/// As the API writes one: `{"count":"3","sum":"0.5","buckets":[[0,"0.25","0.5","3"]]}`. The first number of a bucket says
/// which of its edges belong to it, which makes no difference to an interpolation.
#[derive(Deserialize)]
pub(crate) struct Written {
    count: Number,
    sum: Number,
    #[serde(default)]
    buckets: Vec<(u8, Number, Number, Number)>,
}

impl From<Written> for Native {
    fn from(written: Written) -> Self {
        let bucket = |(_, lower, upper, count): (u8, Number, Number, Number)| NativeBucket {
            lower: lower.0,
            upper: upper.0,
            calls: count.0,
        };
        Self {
            count: written.count.0,
            sum: written.sum.0,
            buckets: written.buckets.into_iter().map(bucket).collect(),
        }
    }
}

impl Native {
    /// All of these together. Where resolutions differ, overlapping buckets become one: those of a coarser resolution hold
    /// whole ones of a finer.
    pub(crate) fn merged<'a>(histograms: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut merged = Self::default();
        for histogram in histograms {
            merged.count += histogram.count;
            merged.sum += histogram.sum;
            merged.buckets.extend(&histogram.buckets);
        }
        merged
            .buckets
            .sort_by(|one, other| one.lower.total_cmp(&other.lower));
        merged.buckets.dedup_by(|next, last| {
            let overlap = next.lower < last.upper;
            if overlap {
                last.upper = last.upper.max(next.upper);
                last.calls += next.calls;
            }
            overlap
        });
        merged
    }

    /// The distribution, for a unit of which `per_second` are a second.
    ///
    /// # Errors
    /// As [`Histogram::from_native`].
    pub(crate) fn histogram(&self, per_second: f64) -> Result<Histogram, Unknown> {
        let buckets = self.buckets.iter().copied();
        Histogram::from_native_in(per_second, buckets, Some(self.sum), self.count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram(buckets: &[(f64, f64, f64)]) -> Native {
        Native {
            count: buckets.iter().map(|bucket| bucket.2).sum(),
            sum: 1.0,
            buckets: buckets
                .iter()
                .map(|&(lower, upper, calls)| NativeBucket { lower, upper, calls })
                .collect(),
        }
    }

    #[test]
    fn histograms_of_one_resolution_are_added_bucket_by_bucket() {
        let one = histogram(&[(0.25, 0.5, 1.0), (0.5, 1.0, 2.0)]);
        let other = histogram(&[(0.5, 1.0, 3.0), (2.0, 4.0, 4.0)]);
        let merged = Native::merged([&one, &other]);
        let sums = histogram(&[(0.25, 0.5, 1.0), (0.5, 1.0, 5.0), (2.0, 4.0, 4.0)]);
        assert_eq!((merged.count, merged.sum), (10.0, 2.0));
        assert_eq!(merged.buckets, sums.buckets);
    }

    #[test]
    fn finer_buckets_are_taken_into_the_coarser_that_holds_them() {
        let root = std::f64::consts::SQRT_2;
        let fine = histogram(&[(1.0, root, 1.0), (root, 2.0, 2.0), (2.0, 2.0 * root, 5.0)]);
        let coarse = histogram(&[(1.0, 2.0, 3.0)]);
        for order in [[&fine, &coarse], [&coarse, &fine]] {
            assert_eq!(
                Native::merged(order).buckets,
                histogram(&[(1.0, 2.0, 6.0), (2.0, 2.0 * root, 5.0)]).buckets
            );
        }
    }

    #[test]
    fn what_kind_it_is_shows_in_its_own_unit() {
        // Powers of two in milliseconds are none in seconds. 15 of 30 lie half way, by logarithm, from 2 to 4 ms.
        let histogram = histogram(&[(1.0, 2.0, 10.0), (2.0, 4.0, 10.0), (4.0, 8.0, 10.0)]);
        let histogram = Native {
            sum: 100.0,
            ..histogram
        };
        let median = histogram
            .histogram(1e3)
            .unwrap()
            .quantile(0.5)
            .estimate()
            .unwrap();
        assert!(
            (median - 0.002 * std::f64::consts::SQRT_2).abs() < 1e-12,
            "{median}"
        );
    }

    proptest! {
        #[test]
        fn merging_loses_no_observation_and_gives_buckets_that_do_not_overlap(
            all in prop::collection::vec(prop::collection::vec((0u8..40, 1u8..4, 0.0..9.0f64), 0..10), 0..5)
        ) {
            let all: Vec<Native> = all
                .iter()
                .map(|buckets| {
                    let buckets: Vec<_> = buckets
                        .iter()
                        .map(|&(lower, width, count)| (f64::from(lower), f64::from(lower) + f64::from(width), count))
                        .collect();
                    histogram(&buckets)
                })
                .collect();
            let merged = Native::merged(&all);
            let held: f64 = merged.buckets.iter().map(|bucket| bucket.calls).sum();
            prop_assert!((held - merged.count).abs() < 1e-9);
            for pair in merged.buckets.windows(2) {
                prop_assert!(pair[0].upper <= pair[1].lower);
            }
        }
    }
}
