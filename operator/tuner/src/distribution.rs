//! Distributions from classic histogram buckets.

/// A latency distribution over one window: increases per bucket, in seconds.
///
/// Built by [`Histogram::from_cumulative`], which repairs what the reference repairs and refuses the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// `(upper bound in seconds, calls at most that long)`, rising, the last bound +Inf.
    buckets: Vec<(f64, f64)>,
}

impl Histogram {
    /// Calls in the window.
    pub fn count(&self) -> f64 {
        self.buckets.last().map_or(0.0, |&(_, count)| count)
    }
}
