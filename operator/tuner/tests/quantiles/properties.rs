//! What holds for a hundred thousand bucket sets, drawn anew from fixed seeds.

use hedgerow_tuner::{Histogram, NativeBucket, Quantile};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const SETS: u32 = 100_000;
const INF: f64 = f64::INFINITY;

/// Rising bounds from a millisecond on: of any ratio, or of one that an exponential histogram has.
struct Bounds {
    edges: Vec<f64>,
    exponential: bool,
}

impl Bounds {
    fn any(rng: &mut StdRng) -> Self {
        let exponential = rng.random_bool(0.5);
        let buckets = rng.random_range(2..14);
        let edges = if exponential {
            // Schemas from 1 on: those with wider buckets can be taken for custom ones.
            let step = 2.0_f64.powf(0.5_f64.powi(rng.random_range(1..=5)));
            let first = rng.random_range(-20..10);
            (first..=first + buckets).map(|index| step.powi(index)).collect()
        } else {
            let first = rng.random_range(0.001..0.1);
            let ratios = (0..buckets).map(|_| rng.random_range(1.05..4.0));
            ratios
                .scan(first, |edge, ratio| {
                    *edge *= ratio;
                    Some(*edge)
                })
                .collect()
        };
        Self { edges, exponential }
    }

    /// Calls, each in one of the buckets: from an edge to the next, or above the last.
    fn calls(&self, rng: &mut StdRng) -> Vec<usize> {
        let above = usize::from(!self.exponential);
        (0..rng.random_range(1..40))
            .map(|_| rng.random_range(1..self.edges.len() + above))
            .collect()
    }

    fn counts(&self, calls: &[usize]) -> Vec<f64> {
        let mut counts = vec![0.0; self.edges.len() + 1];
        for &bucket in calls {
            counts[bucket] += 1.0;
        }
        counts
    }

    fn classic(&self, calls: &[usize]) -> Histogram {
        let bounds = self.edges.iter().copied().chain([INF]);
        let cumulative = bounds.zip(self.counts(calls)).scan(0.0, |below, (bound, count)| {
            *below += count;
            Some((bound, *below))
        });
        Histogram::from_cumulative(cumulative, None, None).unwrap()
    }

    fn native(&self, calls: &[usize]) -> Histogram {
        let buckets = self
            .counts(calls)
            .into_iter()
            .enumerate()
            .map(|(index, calls)| NativeBucket {
                lower: index
                    .checked_sub(1)
                    .map_or(f64::NEG_INFINITY, |below| self.edges[below]),
                upper: self.edges.get(index).copied().unwrap_or(INF),
                calls,
            });
        let told = buckets.filter(|bucket| bucket.calls > 0.0);
        Histogram::from_native(told, None, f64::from(u32::try_from(calls.len()).unwrap())).unwrap()
    }
}

fn each(mut check: impl FnMut(&mut StdRng)) {
    for seed in 0..SETS {
        check(&mut StdRng::seed_from_u64(seed.into()));
    }
}

fn quantiles(rng: &mut StdRng) -> [f64; 2] {
    let mut quantiles = [rng.random_range(0.01..0.999), rng.random_range(0.01..0.999)];
    quantiles.sort_by(f64::total_cmp);
    quantiles
}

/// The buckets of the calls on both sides of the rank.
fn buckets_of(calls: &[usize], q: f64) -> (usize, usize) {
    let mut sorted = calls.to_vec();
    sorted.sort_unstable();
    let rank = q * f64::from(u32::try_from(sorted.len()).unwrap());
    let at = |rank: f64| sorted[(rank as usize).clamp(1, sorted.len()) - 1];
    (at((rank - 1e-9).ceil()), at((rank + 1e-9).floor() + 1.0))
}

#[test]
fn a_quantile_is_within_the_bucket_of_the_call_that_it_is_of() {
    each(|rng| {
        let bounds = Bounds::any(rng);
        let calls = bounds.calls(rng);
        let [q, _] = quantiles(rng);
        let (first, last) = buckets_of(&calls, q);
        for histogram in [bounds.classic(&calls), bounds.native(&calls)] {
            match histogram.quantile(q) {
                Quantile::Estimate { seconds, bucket } => {
                    let upper = bounds.edges.get(last).copied().unwrap_or(INF);
                    assert!(
                        seconds >= bounds.edges[first - 1] * (1.0 - 1e-12)
                            && seconds <= upper * (1.0 + 1e-12),
                        "{q}: {seconds} of {calls:?} in {:?}",
                        bounds.edges
                    );
                    assert!(bucket.0 <= seconds * (1.0 + 1e-12) && seconds <= bucket.1 * (1.0 + 1e-12));
                }
                Quantile::AtLeast(bound) => {
                    assert!(last == bounds.edges.len() && bound <= bounds.edges[last - 1]);
                }
            }
        }
    });
}

#[test]
fn a_higher_quantile_is_no_shorter_and_longer_calls_lower_none() {
    each(|rng| {
        let bounds = Bounds::any(rng);
        let mut calls = bounds.calls(rng);
        let [lower, higher] = quantiles(rng);
        let before = [bounds.classic(&calls), bounds.native(&calls)];
        for histogram in &before {
            let (less, more) = (
                histogram.quantile(lower).at_least(),
                histogram.quantile(higher).at_least(),
            );
            assert!(less <= more * (1.0 + 1e-12), "p{lower} {less}, p{higher} {more}");
        }
        let moved = rng.random_range(0..calls.len());
        let top = bounds.edges.len() - usize::from(bounds.exponential);
        calls[moved] = rng.random_range(calls[moved]..=top);
        let after = [bounds.classic(&calls), bounds.native(&calls)];
        for (before, after) in before.iter().zip(&after) {
            let (before, after) = (before.quantile(higher), after.quantile(higher));
            // A bound says no more than that it is longer.
            let still = after.at_least() >= before.at_least() * (1.0 - 1e-12) || after.estimate().is_none();
            assert!(still, "{before:?}, then {after:?}");
        }
    });
}

#[test]
fn classic_and_native_agree_where_their_edges_do() {
    each(|rng| {
        let bounds = Bounds::any(rng);
        let calls = bounds.calls(rng);
        let [q, _] = quantiles(rng);
        let (first, last) = buckets_of(&calls, q);
        let (classic, native) = (
            bounds.classic(&calls).quantile(q),
            bounds.native(&calls).quantile(q),
        );
        // At the edge between two buckets with calls Prometheus itself takes the one or the other.
        if first != last {
            return;
        }
        match (classic.estimate(), native.estimate()) {
            (Some(classic), Some(native)) if bounds.exponential => {
                assert!(
                    native <= classic * (1.0 + 1e-12) && native >= bounds.edges[first - 1] * (1.0 - 1e-12)
                );
            }
            (Some(classic), Some(native)) => {
                assert!((classic - native).abs() < 1e-9 * classic, "{classic} {native}");
            }
            (classic, native) => assert_eq!(classic, native),
        }
    });
}

#[test]
fn nothing_that_a_source_can_say_panics() {
    let strange = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::NAN,
        INF,
        -INF,
        f64::MAX,
        f64::MIN_POSITIVE,
        1e-320,
        0.25,
        0.5,
        2.0,
    ];
    each(|rng| {
        let mut number = || match rng.random_range(0..3) {
            0 => strange[rng.random_range(0..strange.len())],
            1 => f64::from_bits(rng.random()),
            _ => rng.random_range(0.0..100.0),
        };
        let buckets: Vec<_> = (0..6).map(|_| (number(), number(), number())).collect();
        let (sum, count) = (number(), number());
        let with_inf = buckets
            .iter()
            .map(|&(bound, calls, _)| (bound, calls))
            .chain([(INF, count)]);
        let native = buckets
            .iter()
            .map(|&(lower, upper, calls)| NativeBucket { lower, upper, calls });
        let read = [
            Histogram::from_cumulative(with_inf, Some(sum), Some(count)),
            Histogram::from_native(native, Some(sum), count),
        ];
        for histogram in read.into_iter().flatten() {
            for q in [0.0, 0.5, 0.95, 1.0, number()] {
                assert!(
                    !histogram.quantile(q).at_least().is_nan() || !q.is_finite(),
                    "{histogram:?} at {q}"
                );
            }
        }
    });
}
