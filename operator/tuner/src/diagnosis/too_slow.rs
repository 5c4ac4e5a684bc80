//! A service whose common case is slow.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::look::{Look, Outcome};
use crate::finding::Finding;
use crate::{Timestamp, messages};

pub(super) const ADVICE: &str =
    "the common case is slow, and a hedge is no faster: find what slows the service as a whole";

/// The median is back under the deadline only under this part of it.
const BACK_UNDER: f64 = 0.9;
/// The median moved when it is this many times the usual one ...
const SHIFTED: f64 = 2.0;
/// ... and is back under so many.
const BACK: f64 = 1.5;
/// The tail is no more than this many medians long ...
const TIGHT: f64 = 2.0;
/// ... until it is so long.
const LOOSE: f64 = 2.5;
/// A median, in milliseconds, from a nanosecond to three decades: what lies beyond is none of calls, and no number that is read
/// as it was written.
const POSSIBLE_MS: Range<f64> = 1e-6..1e12;
/// The usual median follows with this time constant: what is so for a day is usual.
const USUAL_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The median that the service usually has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usual {
    /// In milliseconds.
    p50_ms: f64,
    /// As of the reading of.
    at: Timestamp,
}

impl Usual {
    pub(super) fn sane(self, now: Timestamp) -> Option<Self> {
        POSSIBLE_MS.contains(&self.p50_ms).then(|| Self {
            at: self.at.min(now),
            ..self
        })
    }
}

/// Lets the usual median follow the one read: slowly, and by its logarithm.
pub(super) fn note(evidence: &Evidence<'_>, usual: &mut Option<Usual>) {
    let Some(observed) = evidence.observed() else {
        return;
    };
    let (p50_ms, at) = (observed.p50 * 1e3, observed.at);
    if !POSSIBLE_MS.contains(&p50_ms) {
        return;
    }
    *usual = match *usual {
        None => Some(Usual {
            p50_ms: short(p50_ms),
            at,
        }),
        Some(before) if at > before.at => {
            // A pause brings no more to know than one window.
            let new = at.since(before.at).min(observed.window);
            let weight = -(-new.as_secs_f64() / USUAL_AFTER.as_secs_f64()).exp_m1();
            Some(Usual {
                p50_ms: short(before.p50_ms * (p50_ms / before.p50_ms).powf(weight)),
                at,
            })
        }
        unchanged => unchanged,
    };
}

/// With ten digits: more would not outlive being written and read.
fn short(number: f64) -> f64 {
    format!("{number:.9e}").parse().unwrap_or(number)
}

/// What was seen, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    p50: f64,
    usual: Option<f64>,
    p99: Option<f64>,
    deadline: Option<Duration>,
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {}", messages::milliseconds(self.p50))?;
        if let Some(usual) = self.usual {
            write!(f, ", usually {}", messages::milliseconds(usual))?;
        }
        if let Some(p99) = self.p99 {
            write!(f, ", p99 {}", messages::milliseconds(p99))?;
        }
        if let Some(deadline) = self.deadline {
            write!(f, ", deadline {}", messages::duration(deadline))?;
        }
        Ok(())
    }
}

/// The median above the deadline, or moved with the whole distribution.
pub(super) fn look(evidence: &Evidence<'_>, usual: Option<Usual>) -> Option<Look<Numbers>> {
    let (p50, p99) = match evidence.finding {
        Ok(observed) => (observed.p50, observed.attempt.quantile(0.99).estimate()),
        Err(Finding::AtLeast { p50, .. }) => (*p50, None),
        Err(Finding::Nothing { .. }) => return None,
    };
    if !POSSIBLE_MS.contains(&(p50 * 1e3)) {
        return None;
    }
    let p99 = p99.filter(|p99| POSSIBLE_MS.contains(&(p99 * 1e3)));
    let usual = usual.map(|usual| usual.p50_ms / 1e3);
    let tail = p99.map(|p99| p99 / p50);
    let moved = usual.map(|usual| p50 / usual);
    let deadline = evidence
        .rules
        .deadline
        .map(|deadline| deadline.as_secs_f64() - evidence.rules.unseen());
    let late = deadline.map(|deadline| p50 / deadline);

    let is = |number: Option<f64>, test: fn(f64) -> bool| number.is_some_and(test);
    let shown =
        is(late, |late| late > 1.0) || (is(moved, |moved| moved >= SHIFTED) && is(tail, |tail| tail < TIGHT));
    let stays = is(late, |late| late > BACK_UNDER)
        || (is(moved, |moved| moved >= BACK) && tail.is_none_or(|tail| tail < LOOSE));
    let outcome = match (shown, stays) {
        (true, _) => Outcome::Shown,
        (false, true) => Outcome::Unclear,
        (false, false) => Outcome::Refuted,
    };
    Some(Look {
        outcome,
        numbers: Numbers {
            p50,
            usual,
            p99,
            deadline: evidence.rules.deadline,
        },
    })
}
