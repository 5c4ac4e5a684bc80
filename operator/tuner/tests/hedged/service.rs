//! How long attempts take, and what of that belongs to the call.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, LogNormal};

use crate::common::help_desk_quantile;

/// So many times stand for a distribution.
const SAMPLE: usize = 20_000;

/// A distribution of times as a sorted sample, which is the truth.
#[derive(Clone, Debug)]
pub(crate) struct Attempts(Vec<f64>);

impl Attempts {
    fn new(mut draw: impl FnMut(&mut StdRng) -> f64) -> Self {
        let mut rng = StdRng::seed_from_u64(7);
        let mut times: Vec<_> = (0..SAMPLE).map(|_| draw(&mut rng)).collect();
        times.sort_by(f64::total_cmp);
        Self(times)
    }

    /// Lognormal, in seconds; a `slow` share takes 20 times as long, each attempt by itself: one slow replica.
    pub(crate) fn lognormal(median: f64, sigma: f64, slow: f64) -> Self {
        let shape = LogNormal::new(0.0, sigma).unwrap();
        Self::new(|rng| {
            let factor = if rand::RngExt::random_bool(rng, slow) {
                20.0
            } else {
                1.0
            };
            median * factor * shape.sample(rng)
        })
    }

    /// The help-desk case: p50 0.15, p95 0.5, p98 1.0, p99 3.0 s, at most 6 s; log-linear between these.
    pub(crate) fn help_desk() -> Self {
        Self::new(|rng| help_desk_quantile(rand::RngExt::random_range(rng, 0.0..1.0)))
    }

    pub(crate) fn times(&self, factor: f64) -> Self {
        Self(self.0.iter().map(|time| time * factor).collect())
    }

    /// The share that takes longer than `t`.
    pub(crate) fn survival(&self, t: f64) -> f64 {
        let answered = self.0.partition_point(|&time| time <= t);
        1.0 - answered as f64 / self.0.len() as f64
    }

    /// `P(Y < X - d | X > d)`.
    pub(crate) fn wins(&self, delay: f64) -> f64 {
        let passed = &self.0[self.0.partition_point(|&time| time <= delay)..];
        // A hundred of them stand for all.
        let some = passed.iter().step_by((passed.len() / 100).max(1));
        let count = some.clone().count().max(1);
        some.map(|time| 1.0 - self.survival(time - delay)).sum::<f64>() / count as f64
    }
}

/// Calls of several kinds; whatever attempt serves a call, it is of the call's kind.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// Their shares, and how long their attempts take.
    pub(crate) kinds: Vec<(f64, Attempts)>,
}

impl Service {
    /// All calls are alike: attempts are independent.
    pub(crate) fn independent(attempts: Attempts) -> Self {
        Self {
            kinds: vec![(1.0, attempts)],
        }
    }

    /// A `share` of the calls is `slow` on every replica: a heavy request, or a time when all are slow.
    pub(crate) fn dependent(attempts: Attempts, share: f64, slow: Attempts) -> Self {
        Self {
            kinds: vec![(1.0 - share, attempts), (share, slow)],
        }
    }
}
