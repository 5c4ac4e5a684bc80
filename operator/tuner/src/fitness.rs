//! What latency has against hedging: a line that the delay is above, or blindness.

use crate::delay::{Latch, line_above, line_proved};
use crate::finding::Finding;
use crate::latency::Sight;
use crate::memory::{Blindness, Memory};
use crate::{Reason, Rules, Timestamp, UnknownReason};

/// What the latency reading means for hedging: above a line, known, held, or off. Whether traffic is back after a pause
/// for longer than a delay is held.
pub(crate) fn note_latency(
    rules: &Rules,
    sight: &Sight,
    in_force_ms: Option<f64>,
    memory: &mut Memory,
    now: Timestamp,
) -> bool {
    let before = memory.blindness.unwrap_or(Blindness {
        since: None,
        idle_since: None,
        off: false,
    });
    let idle_too_long = before
        .idle_since
        .is_some_and(|since| now.since(since) >= rules.max_staleness);
    let known = |memory: &mut Memory, latch: Option<Latch>| {
        (memory.latch, memory.blindness) = (latch, None);
        idle_too_long
    };
    match &sight.finding {
        Ok(estimate) => {
            let newest = memory.samples.newest;
            if memory.blindness.is_none() && newest > Timestamp::default() {
                let new = u64::try_from(estimate.observed.at.since(newest).as_millis()).unwrap_or(u64::MAX);
                memory.samples.covered_ms = memory.samples.covered_ms.saturating_add(new);
            }
            memory.samples.newest = newest.max(estimate.observed.at);
            let latch = line_above(rules, &estimate.target, estimate.observed.p50, memory.latch);
            known(memory, latch)
        }
        Err(Finding::AtLeast { bound, p50, .. }) => {
            if let Some(latch) = line_proved(rules, *bound, *p50) {
                return known(memory, Some(latch));
            }
            // A hold never keeps a delay that the reading proves too short.
            let bound = bound + rules.delay.add.as_secs_f64();
            let too_short = in_force_ms.is_some_and(|delay_ms| delay_ms / 1e3 < bound);
            unknown(rules, before, idle_too_long, too_short, now, memory, now)
        }
        Err(Finding::Nothing { why, .. }) if why.reason == UnknownReason::NoTraffic => {
            let idle_since = before.idle_since.or(Some(now));
            memory.blindness = Some(Blindness { idle_since, ..before });
            false
        }
        Err(Finding::Nothing { since, .. }) => {
            unknown(rules, before, idle_too_long, false, *since, memory, now)
        }
    }
}

/// Latency is unknown for another reason than that nothing is called. A pause that was long enough for the budget to
/// restart ends with it, and the time that a delay is held begins then.
fn unknown(
    rules: &Rules,
    before: Blindness,
    idle_too_long: bool,
    too_short: bool,
    since: Timestamp,
    memory: &mut Memory,
    now: Timestamp,
) -> bool {
    let since = before.since.filter(|_| !idle_too_long).unwrap_or(since);
    let off = before.off || too_short || now.since(since) >= rules.max_staleness;
    memory.blindness = Some(Blindness {
        since: Some(since),
        idle_since: None,
        off,
    });
    idle_too_long
}

/// What latency has against hedging, by precedence.
pub(crate) fn unfit(memory: &Memory) -> Option<Reason> {
    if memory.blindness.is_some_and(|blindness| blindness.off) {
        Some(Reason::LatencyUnknown)
    } else {
        memory.latch.map(Latch::reason)
    }
}
