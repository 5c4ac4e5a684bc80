//! What is told of the counters that clients export, and of what the delay makes of them.

use serde::{Deserialize, Serialize};

use crate::counted::{Counted, Measurement};
use crate::tally::Tally;
use crate::{Counts, Rules, Timestamp, Unknown, UnknownReason, WindowCounts, messages};

/// What clients counted, and what the delay makes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CountsView {
    /// Why nothing is known; `None` when something is.
    pub unknown: Option<Unknown>,
    /// What was counted over each window in use, narrowest first.
    pub windows: Vec<WindowCounts>,
    /// What the delay makes of it.
    pub guidance: Guidance,
    /// The last measurement: of these counts when [`Guidance::Measured`], else of earlier ones.
    pub measured: Option<Measured>,
}

/// What the delay makes of what clients counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guidance {
    /// They are unknown for so long that buckets lengthen the delay, and nothing shortens it.
    Unknown,
    /// Calls are too few for them to say anything; buckets place the delay.
    Quiet,
    /// They are, or were a moment ago, known; nothing new is to be learned from them yet.
    Known,
    /// They measure a delay in force.
    Measured,
}

/// What clients counted of calls that all had one delay. Told, and not decided by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// When its window ends.
    pub at: Timestamp,
    /// Its window, in milliseconds.
    pub window_ms: u64,
    /// The delay, in milliseconds.
    pub delay_ms: f64,
    /// The share of the calls that passed it, in `[0, 1]`: at least this, where hedges kept back are not known.
    pub share: f64,
    /// The share that was asked for; `None` while latency was unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<f64>,
    /// Where it moved the delay to, in milliseconds; `None` when it stayed, or buckets or the switch had their way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to_ms: Option<f64>,
}

impl CountsView {
    /// What was `counted` in the `counts` that were read at `now`, of which the `tallies` are used.
    pub(crate) fn of(
        rules: &Rules,
        counts: Option<&Counts>,
        tallies: &[Tally],
        counted: Counted,
        measured: Option<Measured>,
        now: Timestamp,
    ) -> Self {
        let is_of_these = |measured: Measured| tallies.iter().any(|tally| tally.at == measured.at);
        Self {
            unknown: tallies.is_empty().then(|| why_none(rules, counts, now)),
            windows: tallies.iter().map(Tally::told).collect(),
            guidance: match counted {
                _ if measured.is_some_and(is_of_these) => Guidance::Measured,
                Counted::Unknown => Guidance::Unknown,
                Counted::Quiet => Guidance::Quiet,
                Counted::Known | Counted::Measured(_) => Guidance::Known,
            },
            measured,
        }
    }
}

impl Measured {
    /// What is told of a measurement of `delay_ms`, where such a share is `asked` for.
    pub(crate) fn of(
        measurement: &Measurement,
        delay_ms: f64,
        asked: Option<f64>,
        moved_to_ms: Option<f64>,
    ) -> Self {
        // More digits would not outlive being written and read.
        let digits = |share: f64| (share * 1e6).round() / 1e6;
        Self {
            at: measurement.at,
            window_ms: u64::try_from(measurement.window.as_millis()).unwrap_or(u64::MAX),
            delay_ms,
            share: digits(measurement.passed_share()),
            asked: asked.map(digits),
            moved_to_ms,
        }
    }

    /// This, as it can be relied on at `now`; `None` when a number is one that it cannot have.
    pub(crate) fn sane(self, now: Timestamp) -> Option<Self> {
        let share = |share: f64| (0.0..=1.0).contains(&share);
        let delay = |delay_ms: f64| delay_ms.is_finite() && delay_ms > 0.0;
        let is_sane = share(self.share)
            && delay(self.delay_ms)
            && self.asked.is_none_or(share)
            && self.moved_to_ms.is_none_or(delay);
        is_sane.then_some(Self {
            at: self.at.min(now),
            ..self
        })
    }
}

/// Why none of what was read is used.
fn why_none(rules: &Rules, counts: Option<&Counts>, now: Timestamp) -> Unknown {
    let Some(counts) = counts else {
        return Unknown::new(UnknownReason::Stale, "not read yet");
    };
    let windows = match &counts.windows {
        Ok(windows) => windows,
        Err(why) => return why.clone(),
    };
    let age = now.since(counts.at);
    if age > rules.max_staleness {
        let message = format!("the last reading is {} old", messages::duration(age));
        return Unknown::new(UnknownReason::Stale, message);
    }
    let Some(odd) = windows.first() else {
        return Unknown::new(UnknownReason::BadResponse, "no window was read");
    };
    let message = format!(
        "{} calls and {} hedges in {}",
        messages::number(odd.calls),
        messages::number(odd.hedges),
        messages::duration(odd.window)
    );
    Unknown::new(UnknownReason::OutOfRange, message)
}
