//! What the signals say now.

use std::fmt;
use std::time::Duration;

use crate::{Histogram, Reason, Timestamp, UnknownReason};

/// Everything one target is decided on.
///
/// A reading may be handed in again: it is told apart from a new one by its sample time, and deciding twice on the same
/// readings changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// What turns this target off whatever is read.
    pub stop: Option<Stop>,
    /// The last latency reading; `None` before the first.
    pub latency: Option<Latency>,
    /// The last reading of the counters that clients export; `None` before the first, or when the policy names none.
    pub counts: Option<Counts>,
    /// The last reading of each of [`SwitchRules::signals`](crate::SwitchRules), in that order; `None` before its first.
    pub signals: Vec<Option<Signal>>,
}

/// What turns a target off whatever is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// `Stopped` by a person, `Invalid` or `SourceNotAvailable`; any other reason counts as `Stopped`.
    pub reason: Reason,
    /// For people: what stopped it (`ConfigMap helpdesk/hedgerow-off`) and the reason that the person gave, or what is wrong
    /// and the remedy.
    pub message: String,
}

impl Stop {
    /// The reason of a decision that it makes.
    pub(crate) const fn reason(&self) -> Reason {
        match self.reason {
            reason @ (Reason::Invalid | Reason::SourceNotAvailable) => reason,
            _ => Reason::Stopped,
        }
    }
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
    /// Attempts in it that were cut short, by how long they had run; `None` when the policy names no such outcome, or when none
    /// was. They are not in `distribution`. Where they cannot be read, `distribution` is unknown for the same reason.
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

impl WindowCounts {
    /// Hedges sent per call; `None` without calls.
    pub fn hedged(&self) -> Option<f64> {
        (self.calls > 0.0).then(|| self.hedges / self.calls)
    }

    /// The share of the hedges sent that answered first; `None` without hedges, and when wins are not known.
    pub fn won(&self) -> Option<f64> {
        self.wins
            .filter(|_| self.hedges > 0.0)
            .map(|wins| wins / self.hedges)
    }
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

#[cfg(test)]
mod tests {
    use super::WindowCounts;

    #[test]
    fn shares_of_nothing_are_not_known() {
        let counts = |calls, hedges, wins| WindowCounts {
            window: std::time::Duration::from_secs(60),
            calls,
            hedges,
            blocked: None,
            wins,
        };
        assert_eq!(counts(400.0, 20.0, Some(5.0)).hedged(), Some(0.05));
        assert_eq!(counts(400.0, 20.0, Some(5.0)).won(), Some(0.25));
        assert_eq!(counts(400.0, 20.0, None).won(), None);
        assert_eq!(counts(400.0, 0.0, Some(0.0)).won(), None);
        assert_eq!(counts(0.0, 0.0, Some(0.0)).hedged(), None);
    }
}
