//! What the demo saw, second by second, and the phases it went through.

/// One second of the demo.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Seconds since the first sample.
    pub at: f64,
    /// Queries answered so far, and those of them that missed a section.
    pub queries: f64,
    /// See `queries`.
    pub missed: f64,
    /// Shard calls so far, and hedges sent for them.
    pub calls: f64,
    /// See `calls`.
    pub hedges: f64,
    /// The deepest queue of any replica.
    pub queue_depth: Option<f64>,
    /// The p95 that the replicas draw from now, in milliseconds.
    pub true_p95_ms: f64,
    /// What the document says.
    pub document: Document,
}

/// What the document in the cluster says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Document {
    /// The hedge delay in milliseconds; `None` while off.
    pub delay_ms: Option<f64>,
    /// Hedges per 100 calls; 0 while off.
    pub percent: f64,
}

/// A stretch of the demo with one purpose.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    /// Its name.
    pub title: &'static str,
    /// Seconds since the first sample.
    pub from: f64,
    /// Seconds since the first sample.
    pub to: f64,
}

/// Everything seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Second by second.
    pub samples: Vec<Sample>,
    /// In order.
    pub phases: Vec<Phase>,
}

impl Sample {
    /// Share of queries since `earlier` that missed a section; `None` when there were none.
    pub(crate) fn miss_share_since(&self, earlier: &Self) -> Option<f64> {
        ratio(self.missed - earlier.missed, self.queries - earlier.queries)
    }

    /// Hedges per shard call since `earlier`: the extra reads.
    pub(crate) fn hedge_share_since(&self, earlier: &Self) -> Option<f64> {
        ratio(self.hedges - earlier.hedges, self.calls - earlier.calls)
    }
}

impl Record {
    /// A series over time of `value(window start, sample)`, where the window is the `seconds` before each sample.
    pub(crate) fn rolling(
        &self,
        seconds: f64,
        value: impl Fn(&Sample, &Sample) -> Option<f64>,
    ) -> Vec<(f64, f64)> {
        let mut start = 0;
        self.samples
            .iter()
            .filter_map(|sample| {
                while self.samples[start].at < sample.at - seconds {
                    start += 1;
                }
                value(&self.samples[start], sample).map(|y| (sample.at, y))
            })
            .collect()
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}
