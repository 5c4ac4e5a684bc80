//! One Prometheus-compatible endpoint.

use std::time::Duration;

use hedgerow_tuner::{Latency, Signal};

use crate::{SourceSettings, SourceStats, TargetQuery};

/// One Prometheus-compatible endpoint: one pooled client, one concurrency limit.
#[derive(Debug)]
pub struct Source {
    settings: SourceSettings,
}

/// A source that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Its URL is not one.
    #[error("source {name}: {url:?} is not a URL: {why}")]
    Url {
        /// The source.
        name: String,
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
}

/// What one target's signals say, in the order asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetReadings {
    /// The latency, when it was asked for.
    pub latency: Option<Latency>,
    /// The saturation signals asked for, in order.
    pub signals: Vec<Signal>,
    /// The scrape interval of the latency's series as measured, where it could be.
    pub scrape_interval: Option<Duration>,
}

impl Source {
    /// A source as the administrator declared it. Nothing is sent yet.
    pub fn new(settings: SourceSettings) -> Result<Self, SourceError> {
        Ok(Self { settings })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Reads all targets, in as few queries as possible. Never fails as a whole: each reading says for itself what it is.
    pub async fn read(&self, targets: &[TargetQuery]) -> Vec<TargetReadings> {
        targets.iter().map(|_| TargetReadings::default()).collect()
    }

    /// What it has done so far, and how it is now.
    pub fn stats(&self) -> SourceStats {
        SourceStats::default()
    }

    /// The PromQL that is sent for one target, to paste into the source's own console. Nothing is sent.
    pub fn queries_for(&self, _target: &TargetQuery) -> Vec<String> {
        Vec::new()
    }
}
