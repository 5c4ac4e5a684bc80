//! Metrics that Hedgerow knows. A preset is what a person who knows the exporter well would have written by hand: the metric,
//! its unit, what it measures, which of its series, and where it misleads.
//!
//! [`Target::written_out`](crate::Target::written_out) puts it in place of the name, so that nothing else needs to know of
//! presets.

mod expand;
mod latency;
mod signal;

use crate::{Measures, Unit};

pub use latency::LATENCY;
pub use signal::SIGNALS;

/// A latency histogram that Hedgerow knows.
#[derive(Debug)]
pub struct LatencyPreset {
    /// Its name in `latency.preset`.
    pub name: &'static str,
    /// Who exports it, and of what.
    pub about: &'static str,
    /// The histogram, without `_bucket`.
    pub metric: &'static str,
    /// The unit of its bounds.
    pub unit: Unit,
    /// What one observation is.
    pub measures: Measures,
    /// Whether it is measured at the server's end of the network, which it therefore leaves out.
    pub at_server: bool,
    /// How observations are told apart that do not say how long an answer takes.
    pub outcomes: Option<KnownOutcomes>,
    /// The labels that series must have.
    pub labels: &'static [(&'static str, &'static str)],
    /// The counter of calls that timed out and never entered the histogram, with the labels of the histogram.
    pub timeouts: Option<&'static str>,
    /// The counters of the same exporter, with the labels of the histogram.
    pub hedging: Option<KnownHedging>,
    /// Where it misleads and what to do about it: a sentence each.
    pub traps: &'static [&'static str],
}

/// Outcomes that a preset fixes; see [`Outcomes`](crate::Outcomes).
#[derive(Debug)]
pub struct KnownOutcomes {
    /// The label.
    pub label: &'static str,
    /// Its values for attempts that were cut short.
    pub cancelled: &'static [&'static str],
    /// Its values for fast failures.
    pub ignored: &'static [&'static str],
}

/// Counters that a preset fixes; see [`HedgingCounters`](crate::HedgingCounters).
#[derive(Debug)]
pub struct KnownHedging {
    /// Calls made.
    pub calls: &'static str,
    /// Hedges sent.
    pub hedges: &'static str,
    /// Hedges kept back.
    pub blocked: &'static str,
    /// Hedges that answered first.
    pub wins: &'static str,
}

/// A saturation signal that Hedgerow knows.
#[derive(Debug)]
pub struct SignalPreset {
    /// Its name in `saturation.signals[].preset`.
    pub name: &'static str,
    /// Who exports it, and of what.
    pub about: &'static str,
    /// What is compared with the line.
    pub value: KnownValue,
    /// The labels that series must have, with these values.
    pub labels: &'static [(&'static str, &'static str)],
    /// The labels that series must have, with any value.
    pub present: &'static [&'static str],
    /// The line, where the policy says none.
    pub off_above: &'static str,
    /// Where it misleads and what to do about it: a sentence each.
    pub traps: &'static [&'static str],
}

/// What a signal preset compares with the line.
#[derive(Debug)]
pub enum KnownValue {
    /// A gauge.
    Gauge(&'static str),
    /// The increase of a counter, as a share of another's.
    Share {
        /// The counter.
        of: &'static str,
        /// The counter to divide by.
        per: &'static str,
    },
}

impl LatencyPreset {
    /// The preset of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        LATENCY.iter().find(|preset| preset.name == name)
    }

    /// The preset that reads this metric: where there are several, the first.
    pub fn of_metric(metric: &str) -> Option<&'static Self> {
        LATENCY.iter().find(|preset| preset.metric == metric)
    }

    /// The labels that are the preset's own: those that it pins, and the one by which outcomes are told apart.
    pub fn own_labels(&self) -> impl Iterator<Item = &'static str> {
        let outcome = self.outcomes.as_ref().map(|outcomes| outcomes.label);
        self.labels.iter().map(|&(label, _)| label).chain(outcome)
    }

    /// Whether attempts that were cut short leave no trace in it.
    pub fn hides_cancelled(&self) -> bool {
        let known = |outcomes: &KnownOutcomes| !outcomes.cancelled.is_empty();
        self.measures == Measures::Attempt && !self.outcomes.as_ref().is_some_and(known)
    }
}

impl SignalPreset {
    /// The preset of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SIGNALS.iter().find(|preset| preset.name == name)
    }

    /// The preset that reads this metric: where there are several, the first.
    pub fn of_metric(metric: &str) -> Option<&'static Self> {
        SIGNALS.iter().find(|preset| preset.metric() == metric)
    }

    /// The metric that is compared with the line.
    pub const fn metric(&self) -> &'static str {
        match self.value {
            KnownValue::Gauge(metric) | KnownValue::Share { of: metric, .. } => metric,
        }
    }

    /// The labels whose values the preset pins.
    pub fn own_labels(&self) -> impl Iterator<Item = &'static str> {
        self.labels.iter().map(|&(label, _)| label)
    }
}

/// The names of the latency presets, as the schema lists them.
pub(crate) fn latency_names() -> Vec<&'static str> {
    LATENCY.iter().map(|preset| preset.name).collect()
}

/// The names of the signal presets, as the schema lists them.
pub(crate) fn signal_names() -> Vec<&'static str> {
    SIGNALS.iter().map(|preset| preset.name).collect()
}
