//! What the signals say now.

use std::fmt;
use std::time::Duration;

use crate::{Histogram, Timestamp, UnknownReason};

/// Everything one target is decided on.
///
/// A reading may be handed in again: it is told apart from a new one by its sample time, and deciding twice on the same
/// readings changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// A person stopped this target.
    pub stop: Option<Stop>,
    /// The last latency reading; `None` before the first.
    pub latency: Option<Latency>,
    /// The last reading of the counters that clients export; `None` before the first, or when the policy names none.
    pub counts: Option<Counts>,
    /// The last reading of each of [`SwitchRules::signals`](crate::SwitchRules), in that order; `None` before its first.
    pub signals: Vec<Option<Signal>>,
}

/// A stop by a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// What stopped it (`ConfigMap helpdesk/hedgerow-off`), and the reason that the person gave.
    pub message: String,
}

/// A reading that is not a number, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The bounded name.
    pub reason: UnknownReason,
    /// For people: what was asked, what came back, what to do. Never a response body.
    pub message: String,
}

impl Unknown {
    /// An unknown reading.
    pub fn new(reason: UnknownReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

/// A latency reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Time of the newest sample where the source answered; else the time of asking.
    pub at: Timestamp,
    /// The distribution over each window asked for, narrowest first, or why there is none.
    pub windows: Result<Vec<WindowReading>, Unknown>,
}

/// The distribution over one window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowReading {
    /// The window.
    pub window: Duration,
    /// What was observed in it.
    pub distribution: Result<Histogram, Unknown>,
    /// Attempts in it that were cut short, by how long they had run; `None` when the policy names no such outcome or
    /// there were none. They are not in `distribution`.
    pub cancelled: Option<Histogram>,
    /// Calls in it that timed out and never entered the histogram; `None` when the policy names no counter of them.
    pub timeouts: Option<f64>,
    /// Why the distribution deserves little confidence (series with different buckets, reduced to those in common).
    pub caveat: Option<String>,
}

/// A reading of the counters that clients export.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    /// Time of the newest sample where the source answered; else the time of asking.
    pub at: Timestamp,
    /// What was counted over each window asked for, narrowest first, or why nothing is known.
    pub windows: Result<Vec<WindowCounts>, Unknown>,
}

/// What clients counted over one window. Increases, so they are not whole numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowCounts {
    /// The window, which ends at [`Counts::at`].
    pub window: Duration,
    /// Calls made.
    pub calls: f64,
    /// Hedges sent.
    pub hedges: f64,
    /// Hedges that a budget, a permit or a deadline kept back; `None` when not known.
    pub blocked: Option<f64>,
    /// Hedges that answered first; `None` when not known.
    pub wins: Option<f64>,
}

/// A reading of a saturation signal.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// Time of the newest sample where the source answered; else the time of asking.
    pub at: Timestamp,
    /// The scrape interval as measured, where it could be.
    pub scrape_interval: Option<Duration>,
    /// What it says, or why it says nothing.
    pub value: Result<SignalValue, Unknown>,
}

/// What a saturation signal says.
#[derive(Clone, Debug, PartialEq)]
pub enum SignalValue {
    /// One value per series, each finite and not negative.
    Series(Vec<f64>),
    /// The state of an alert.
    Alert(Alert),
}

/// The state of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alert {
    /// Its expression matches nothing.
    Inactive,
    /// Its expression matches; it has not held for long enough.
    Pending,
    /// It fires.
    Firing,
}
