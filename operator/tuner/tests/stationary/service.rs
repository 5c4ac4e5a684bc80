//! How long attempts take.

use rand::RngExt;
use rand::rngs::StdRng;
use rand_distr::{Distribution, LogNormal};

use crate::common::help_desk_quantile;

/// How long attempts take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    /// The median in seconds.
    pub(crate) median: f64,
    /// The shape.
    pub(crate) shape: Shape,
}

/// The shape of a distribution with a median of 1.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Lognormal, with a share of attempts that take 20 times as long.
    Lognormal {
        /// Its sigma.
        sigma: f64,
        /// The share.
        slow: f64,
    },
    /// The help-desk case: p50 0.15, p95 0.5, p98 1.0, p99 3.0 s, at most 6 s; log-linear between these.
    HelpDesk,
}

impl Service {
    pub(crate) const fn lognormal(median: f64, sigma: f64) -> Self {
        Self::with_slow_share(median, sigma, 0.0)
    }

    /// One slow replica of `n` answers `1 / n` of the attempts.
    pub(crate) const fn with_slow_share(median: f64, sigma: f64, slow: f64) -> Self {
        Self {
            median,
            shape: Shape::Lognormal { sigma, slow },
        }
    }

    pub(crate) fn attempt(self, rng: &mut StdRng) -> f64 {
        self.median
            * match self.shape {
                Shape::Lognormal { sigma, slow } => {
                    let times = LogNormal::new(0.0, sigma).unwrap().sample(rng);
                    if rng.random_bool(slow) {
                        times * 20.0
                    } else {
                        times
                    }
                }
                Shape::HelpDesk => help_desk_quantile(rng.random_range(0.0..1.0)) / 0.15,
            }
    }
}

pub(crate) const LOGNORMAL: Service = Service::lognormal(0.04, 1.0);
pub(crate) const SLOW_MODE: Service = Service::with_slow_share(0.04, 0.5, 0.05);
pub(crate) const HELP_DESK: Service = Service {
    median: 0.15,
    shape: Shape::HelpDesk,
};
