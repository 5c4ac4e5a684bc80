//! Slowness that belongs to the request.

use std::fmt;

use super::evidence::Evidence;
use super::look::{Look, Outcome};
use crate::messages;
use crate::tail::{Attempt, answered_after};
use crate::tally::Tally;

pub(super) const ADVICE: &str = "slowness belongs to the request, or the replicas are slow together: make such requests \
                                 cheaper, or leave them out of this target";

/// Fewer hedges show nothing.
const HEDGES: f64 = 200.0;
/// Hedges win less than this part of what independent attempts would.
const PART: f64 = 0.5;
/// Where independent ones would win less often than this, wide buckets cannot tell: they read twice the truth of a light
/// tail (a lognormal of sigma 0.4 in Prometheus' default ones).
const EXPECTED: f64 = 0.3;
/// Delays that differ by no more than this factor count as one.
const ONE_DELAY: f64 = 1.25;
/// Points that stand for the calls within one bucket.
const POINTS: u32 = 16;

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    wins: f64,
    hedges: f64,
    /// The share of them that independent attempts would win.
    expected: f64,
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            wins,
            hedges,
            expected,
        } = self;
        let (won, expected) = (
            messages::number(wins / hedges * 100.0),
            messages::number(expected * 100.0),
        );
        write!(
            f,
            "{wins:.0} of {hedges:.0} hedges won ({won} %), where of independent replicas {expected} % would"
        )
    }
}

/// The share of hedges that win against the one that independent attempts would give.
pub(super) fn look(evidence: &Evidence<'_>) -> Option<Look<Numbers>> {
    if evidence.rules.budget.max_attempts > 2 {
        // A second hedge wins less often than a first one, and both are counted alike.
        return None;
    }
    evidence.delay_of_latency()?;
    let enough = |tally: &&Tally| tally.hedges >= HEDGES && tally.wins.is_some();
    let tally = evidence.tallies.iter().find(enough)?;
    let (shortest, longest) = evidence.delays_of(tally)?;
    if longest > ONE_DELAY * shortest {
        return None;
    }
    let attempt = evidence.attempt()?;
    let unseen = evidence.rules.unseen();
    let deadline = evidence
        .rules
        .deadline
        .map_or(f64::INFINITY, |deadline| deadline.as_secs_f64());
    let wins_at = |delay: f64| wins_if_independent(&attempt, delay - unseen, deadline - unseen);
    let expected = wins_at(shortest)?.min(wins_at(longest)?);
    if expected < EXPECTED {
        return None;
    }
    let wins = tally.wins?;
    Some(Look {
        outcome: Outcome::under(wins, tally.hedges, PART * expected),
        numbers: Numbers {
            wins,
            hedges: tally.hedges,
            expected,
        },
    })
}

/// `P(Y < X - d | X > d)` of independent attempts `X` and `Y`, no call longer than the deadline, in seconds; `None` when no
/// attempt takes longer than the delay.
///
/// From buckets this is a low observed. Read linearly, as quantiles are, they promise up to four times the truth: calls of
/// a wide bucket lie near its lower bound, where a hedge has hardly any time. So those calls are spread as a power law has
/// them, and of the hedges only as many count as answered as surely are.
fn wins_if_independent(attempt: &Attempt<'_>, delay: f64, deadline: f64) -> Option<f64> {
    let surely_answered = |time: f64| attempt.range(time).map_or(0.0, |(_, most)| 1.0 - most);
    let (_, passed) = attempt
        .passed(delay)
        .filter(|&(_, most)| most > 0.0 && delay > 0.0)?;
    let beyond = attempt
        .seen
        .bounds()
        .iter()
        .copied()
        .filter(|&bound| bound > delay);
    let (mut wins, mut lower, mut waiting) = (0.0, delay, passed);
    for upper in beyond {
        let Some((least, _)) = attempt.range(upper) else {
            break;
        };
        let left = least.min(waiting);
        let part = (waiting - left) / f64::from(POINTS);
        for point in 0..POINTS {
            let share = (f64::from(point) + 0.5) / f64::from(POINTS);
            let took = answered_after((lower, waiting), (upper, left), share);
            wins += part * surely_answered(took.min(deadline) - delay);
        }
        (lower, waiting) = (upper, left);
    }
    wins += waiting * surely_answered(lower.min(deadline) - delay);
    let wins = wins / passed;
    wins.is_finite().then(|| wins.clamp(0.0, 1.0))
}
