//! Counters and latency metric that do not speak of the same calls.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::look::{Look, Outcome};
use crate::tail::Attempt;
use crate::{Timestamp, messages, wilson};

pub(super) const ADVICE: &str = "do the latency metric and the counters, with their labels, count the same calls, and do \
                                 clients follow this target's document?";

/// Measurements, one after the other and without a call in common, that must disagree.
const STRIKES: u8 = 3;
/// How often the share may be what the metric says, or the other way round.
const FACTOR: f64 = 2.0;
/// So many calls past the delay are expected in one measurement.
const PASSED: f64 = 40.0;

/// What was seen, shares of the calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    counted: f64,
    calls: f64,
    /// In seconds.
    delay: f64,
    /// What the metric says, from ...
    least: f64,
    /// ... to.
    most: f64,
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| messages::number(share * 100.0);
        let delay = messages::milliseconds(self.delay);
        write!(
            f,
            "clients count {} % of {:.0} calls past the delay of {delay}, the latency metric ",
            percent(self.counted),
            self.calls
        )?;
        match (percent(self.least), percent(self.most)) {
            (least, most) if least == most => write!(f, "{most} %"),
            (least, most) => write!(f, "{least} to {most} %"),
        }
    }
}

/// Measurements that disagreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Strikes {
    /// How many, less those that agreed since.
    count: u8,
    /// When the last measurement ended.
    at: Timestamp,
}

impl Strikes {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn sane(self, now: Timestamp) -> Self {
        Self {
            count: self.count.min(STRIKES),
            at: self.at.min(now),
        }
    }

    /// Counts one more measurement. One that agrees takes all strikes back, or one of them once they were said.
    fn count(&mut self, disagrees: bool, said: bool, at: Timestamp) {
        self.at = at;
        self.count = match disagrees {
            true => (self.count + 1).min(STRIKES),
            false if said => self.count.saturating_sub(1),
            false => 0,
        };
    }
}

/// `(hedges + blocked) / calls` against the share of calls past the delay that the metric says; `strikes` counts.
///
/// What the metric says is as wide as the bucket that holds the delay leaves it. With more than one hedge per call each `d`
/// more is another chance, and all of them are counted: at most as many as the first. Without those kept back only too many
/// hedges can be seen.
pub(super) fn look(evidence: &Evidence<'_>, said: bool, strikes: &mut Strikes) -> Option<Look<Numbers>> {
    let rules = evidence.rules;
    let observed = evidence.observed()?;
    let tally = evidence.beside_latency()?;
    let delay = evidence.delay_of(tally)?;
    if tally.calls * (1.0 - rules.delay.quantile) < PASSED {
        return None;
    }
    // Where none was hedged, calls are attempts.
    let attempt = evidence.attempt().unwrap_or(Attempt {
        seen: &observed.calls,
        hedged: None,
    });
    let delay_seen = delay - rules.unseen();
    let (least, most) = attempt.passed(delay_seen)?;
    let chances = f64::from(rules.budget.max_attempts.saturating_sub(1).max(1));
    let counted = tally.due().unwrap_or(tally.hedges);
    let above = wilson::lower(counted, tally.calls) > FACTOR * most * chances;
    let under = tally.blocked.is_some() && wilson::upper(counted, tally.calls) < least / FACTOR;
    if tally.from() >= strikes.at {
        strikes.count(above || under, said, tally.at);
    }
    Some(Look {
        outcome: match strikes.count {
            STRIKES.. => Outcome::Shown,
            0 => Outcome::Refuted,
            _ => Outcome::Unclear,
        },
        numbers: Numbers {
            counted: counted / tally.calls,
            calls: tally.calls,
            delay,
            least,
            most,
        },
    })
}
