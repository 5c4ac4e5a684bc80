//! The windows over which counters are read.

use std::time::Duration;

use super::no_benefit::{FURTHEST, HEDGES};
use crate::Rules;
use crate::tally::Tally;

/// Windows that many targets share.
const LADDER: [Duration; 4] = [
    Duration::from_secs(600),
    Duration::from_secs(3600),
    Duration::from_secs(6 * 3600),
    FURTHEST,
];

/// The windows to read the counters over next, narrowest first: those that are `wanted` for the delay, and the narrowest on a
/// short ladder that will hold enough hedges for the diagnoses, as far as is known.
pub(crate) fn counts_wanted(rules: &Rules, tallies: &[Tally], mut wanted: Vec<Duration>) -> Vec<Duration> {
    if !rules.counted {
        return Vec::new();
    }
    wanted.push(for_hedges(tallies));
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

fn for_hedges(tallies: &[Tally]) -> Duration {
    let enough = tallies.iter().find(|tally| tally.hedges >= HEDGES);
    let Some(tally) = enough.or(tallies.last()) else {
        return LADDER[0];
    };
    let rate = tally.hedges / tally.window.as_secs_f64().max(f64::MIN_POSITIVE);
    let fills = |rung: &Duration| rate * rung.as_secs_f64() >= HEDGES;
    LADDER.into_iter().find(fills).unwrap_or(FURTHEST)
}
