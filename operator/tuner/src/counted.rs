//! What clients count of their hedges, and which of it says something about the document in force.

use std::time::Duration;

use crate::memory::Memory;
use crate::tally::Tally;
use crate::{Rules, Timestamp};

/// A measurement holds at least this many calls, divided by the percentile's share: 800 for the p95.
const CALLS: f64 = 40.0;
/// The windows that the counters are read over. Few, so that many targets share a query.
const LADDER: [Duration; 7] = [
    Duration::from_secs(60),
    Duration::from_secs(120),
    Duration::from_secs(300),
    Duration::from_secs(600),
    Duration::from_secs(1200),
    Duration::from_secs(1800),
    LONGEST,
];
const LONGEST: Duration = Duration::from_secs(3600);
/// One that found the share right ends, and the next begins, with so many, divided likewise: the margin is then four
/// standard deviations.
const CALLS_TO_END: f64 = 256.0;

/// What clients counted over calls that the document in force governed, and that no finished measurement has seen before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measurement {
    /// When its window ends.
    pub(crate) at: Timestamp,
    /// Its window.
    pub(crate) window: Duration,
    /// Calls, above zero.
    pub(crate) calls: f64,
    /// Hedges sent.
    pub(crate) hedges: f64,
    /// Hedges kept back.
    pub(crate) blocked: Option<f64>,
}

/// What the counters say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Counted {
    /// Nothing, for so long that they are no help, or nothing that could be.
    Unknown,
    /// They are known, and that calls are too few for them to say anything.
    Quiet,
    /// They are, or were a moment ago, known; nothing new is to be learned from them yet.
    Known,
    /// A new measurement.
    Measured(Measurement),
}

/// Reads what clients counted at `now`; notes in `memory` what has been measured, and since when they are unknown.
///
/// `(hedges + blocked) / calls` is the share of calls that passed the delay, whatever buckets say. It is measured on calls
/// that began when clients had followed the last document, so that what a step does is seen before the next one: stepping
/// every 30 s on a window of 10 min swings the delay by a factor of five. One that does not move anything goes on, so that it
/// grows sure, until it has calls enough; none is used twice for a step, as each step is a document.
///
/// Where the policy names no counters (any more) there is nothing, and nothing is kept of them.
pub(crate) fn read(rules: &Rules, tallies: &[Tally], memory: &mut Memory, now: Timestamp) -> Option<Counted> {
    if !rules.counted {
        (memory.counts_unknown, memory.stepped) = (None, None);
        (memory.back_off, memory.measured, memory.measurement) = Default::default();
        return None;
    }
    if tallies.is_empty() {
        let since = *memory.counts_unknown.get_or_insert(now);
        let lost = now.since(since) >= rules.max_staleness;
        return Some(if lost { Counted::Unknown } else { Counted::Known });
    }
    memory.counts_unknown = None;
    let enough = CALLS / (1.0 - rules.delay.quantile);
    let free_from = free_from(rules, memory);
    let measured = tallies
        .iter()
        .filter(|tally| tally.window <= LONGEST && tally.from() >= free_from)
        .filter(|tally| tally.calls > 0.0 && tally.calls >= enough)
        .max_by_key(|tally| tally.window);
    if let Some(tally) = measured.filter(|_| memory.lets_hedge()) {
        if tally.calls >= CALLS_TO_END / (1.0 - rules.delay.quantile) {
            memory.measured = tally.at;
        }
        return Some(Counted::Measured(Measurement {
            at: tally.at,
            window: tally.window,
            calls: tally.calls,
            hedges: tally.hedges,
            blocked: tally.blocked,
        }));
    }
    let busiest = |tally: &Tally| tally.calls / tally.window.as_secs_f64().max(1.0);
    let rate = tallies.iter().map(busiest).fold(0.0, f64::max);
    let quiet = rate * LONGEST.as_secs_f64() < enough;
    Some(if quiet { Counted::Quiet } else { Counted::Known })
}

/// The windows to read the counters over next, narrowest first: the longest that a measurement can use, and the one that
/// latency is read over. None where the policy names no counters.
pub(crate) fn wanted(rules: &Rules, memory: &Memory, now: Timestamp) -> Vec<Duration> {
    if !rules.counted {
        return Vec::new();
    }
    let free_from = free_from(rules, memory);
    let free = LADDER
        .iter()
        .rev()
        .copied()
        .find(|&window| now.minus(window) >= free_from);
    let latency = memory
        .window_ms
        .map_or(rules.windows.window, Duration::from_millis);
    let mut wanted: Vec<_> = free.into_iter().chain([latency]).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// From when on calls show what the document in force does, and have not been measured.
fn free_from(rules: &Rules, memory: &Memory) -> Timestamp {
    memory.published.plus(rules.propagation).max(memory.measured)
}
