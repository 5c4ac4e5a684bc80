//! Replicas that are slow at the same time.

use super::evidence::Evidence;
use super::look::{Look, Outcome};
use crate::{Measures, messages};

pub(super) const ADVICE: &str = "find what the replicas share when they are slow (a disk, a neighbour, a dependency, a \
                                 collection of garbage, the request itself): a hedge waits for the same";

/// Fewer hedged calls show nothing.
const HEDGED: f64 = 100.0;
/// How far beyond what independent attempts allow is too far.
const MARGIN: f64 = 1.25;
/// The share of attempts that a hedge leaves unanswered at the time looked at: near this, and between the two others.
const UNANSWERED: f64 = 0.2;
const UNANSWERED_LEAST: f64 = 0.1;
const UNANSWERED_MOST: f64 = 0.5;

/// Calls past the delay `d`, a time `u` later: the hedge has answered `1 - S(u)` of those that were hedged, if attempts are
/// independent, so `S_L(d+u) / S_L(d) <= 1 - a (1 - S(u))`, whatever the first attempts of those calls do.
///
/// Both times are bucket bounds, `u` itself and the first one at or after `d + u`: that can only lower what is left.
pub(super) fn look(evidence: &Evidence<'_>) -> Option<Look> {
    if evidence.rules.measures != Measures::LogicalCall {
        return None;
    }
    let calls = &evidence.estimate()?.calls;
    let delay = evidence.delay_of_latency()?;
    if evidence.beside_latency()?.hedges < HEDGED {
        return None;
    }
    let hedged_share = evidence.hedged_share()?;
    let deadline = evidence
        .rules
        .deadline
        .map_or(f64::INFINITY, |deadline| deadline.as_secs_f64());
    let bounds = calls.bounds();
    let candidates = bounds.iter().filter_map(|&after| {
        let unanswered = calls.at(after).filter(|_| after > 0.0 && after <= delay)?;
        let until = bounds
            .iter()
            .copied()
            .find(|&bound| bound >= delay + after && bound <= deadline)?;
        let fits = (UNANSWERED_LEAST..=UNANSWERED_MOST).contains(&unanswered);
        fits.then_some((unanswered, until))
    });
    let distance = |unanswered: f64| (unanswered / UNANSWERED).ln().abs();
    let (unanswered, until) =
        candidates.min_by(|left, right| distance(left.0).total_cmp(&distance(right.0)))?;

    let passed = calls.calls() * calls.at(delay)?;
    let left = calls.calls() * calls.at(until)?;
    let most = 1.0 - hedged_share * (1.0 - unanswered);
    let percent = |share: f64| messages::number(share * 100.0);
    Some(Look {
        outcome: Outcome::above(left, passed, MARGIN * most),
        numbers: format!(
            "{} % of the calls past the delay of {} are unanswered {} after it, hedged or not; of independent replicas at most {} % would be",
            percent(left / passed),
            messages::milliseconds(delay),
            messages::milliseconds(until - delay),
            percent(most),
        ),
    })
}
