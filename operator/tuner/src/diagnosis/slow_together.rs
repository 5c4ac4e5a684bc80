//! Replicas that are slow at the same time.

use std::fmt;

use super::evidence::Evidence;
use super::look::{Look, Outcome};
use crate::{Measures, messages};

pub(super) const ADVICE: &str = "find what the replicas share when they are slow (a disk, a neighbour, a dependency, a \
                                 collection of garbage, the request itself): a hedge waits for the same";

/// Fewer hedged calls show nothing.
const HEDGED: f64 = 100.0;
/// How far beyond what independent attempts allow is too far: by this factor ...
const FACTOR: f64 = 1.25;
/// ... and by this share. Where little is allowed, a factor of little is nothing.
const SHARE: f64 = 0.05;
/// It is looked at when hedges leave a share of attempts unanswered that is as near to this as bucket bounds allow ...
const UNANSWERED: f64 = 0.2;
/// ... and no larger than this.
const UNANSWERED_MOST: f64 = 0.5;

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// The share of the calls past the delay that is left ...
    left: f64,
    /// ... and of independent attempts at most would be ...
    most: f64,
    /// ... so long after it, in seconds.
    after: f64,
    /// In seconds.
    delay: f64,
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, most) = (
            messages::number(self.left * 100.0),
            messages::number(self.most * 100.0),
        );
        let (delay, after) = (
            messages::milliseconds(self.delay),
            messages::milliseconds(self.after),
        );
        write!(
            f,
            "{left} % of the calls past the delay of {delay} are unanswered {after} after it, hedged or not; \
             of independent replicas at most {most} % would be"
        )
    }
}

/// Calls past the delay `d`, a time `u` later: the hedge has answered `1 - S(u)` of those that were hedged, if attempts are
/// independent, so `S_L(d+u) / S_L(d) <= 1 - a (1 - S(u))`, whatever the first attempts of those calls do.
///
/// `d + u` is a bucket bound. `S` is known up to `d`, beyond that `S(d)` is the most that it can be. How many calls pass `d`
/// is counted: in the bucket that holds it hedges begin to answer, and a line through that bucket finds too few.
pub(super) fn look(evidence: &Evidence<'_>) -> Option<Look<Numbers>> {
    if evidence.rules.measures != Measures::LogicalCall {
        return None;
    }
    let calls = &evidence.observed()?.calls;
    let delay = evidence.delay_of_latency()?;
    let tally = evidence.beside_latency()?;
    if tally.hedges < HEDGED {
        return None;
    }
    let attempt = evidence.attempt()?;
    let (_, hedged_share) = attempt.hedged?;
    let deadline = evidence
        .rules
        .deadline
        .map_or(f64::INFINITY, |deadline| deadline.as_secs_f64());
    let (unanswered, until) = calls
        .bounds()
        .iter()
        .filter(|&&until| until > delay && until <= deadline)
        .filter_map(|&until| Some((attempt.range(delay.min(until - delay))?.1, until)))
        .filter(|&(unanswered, _)| unanswered <= UNANSWERED_MOST)
        .min_by(|left, right| distance(left.0).total_cmp(&distance(right.0)))?;

    let counted = tally.due().map(|due| due / tally.calls);
    let (least, most_passed) = attempt.passed(delay)?;
    let passed = calls.calls() * counted.map_or(most_passed, |counted| counted.max(least));
    let left = (calls.calls() * calls.at(until)?).min(passed);
    let most = 1.0 - hedged_share * (1.0 - unanswered);
    Some(Look {
        outcome: Outcome::above(left, passed, (FACTOR * most).max(most + SHARE)),
        numbers: Numbers {
            left: left / passed,
            most,
            after: until - delay,
            delay,
        },
    })
}

/// How far a share is from the one to look at.
fn distance(unanswered: f64) -> f64 {
    (unanswered.max(f64::MIN_POSITIVE) / UNANSWERED).ln().abs()
}
