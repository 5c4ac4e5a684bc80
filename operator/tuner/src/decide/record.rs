//! What is remembered of what clients are told, and of what that was measured to do.

use super::terms::On;
use crate::counted::Counted;
use crate::latency::Estimate;
use crate::memory::{Limits, Memory};
use crate::{Hedging, Measured, Orders, Rules, Timestamp};

pub(super) fn in_force(memory: &Memory) -> Option<Hedging> {
    memory.orders.as_ref().and_then(|orders| orders.hedging)
}

/// Remembers what was measured of the delay in force, to be told, and where that moves it.
pub(super) fn note_measurement(
    counted: Option<Counted>,
    estimate: Option<&Estimate>,
    on: Option<On>,
    orders: &Orders,
    memory: &mut Memory,
) {
    let (Some(Counted::Measured(measurement)), Some(told)) = (counted, in_force(memory)) else {
        return;
    };
    let asked = estimate.map(|estimate| estimate.target.aim.share);
    let moved_to_ms = orders
        .hedging
        .filter(|_| on.is_some_and(|on| on.by_counters))
        .map(|hedging| hedging.delay_ms)
        .filter(|delay_ms| delay_ms.total_cmp(&told.delay_ms).is_ne());
    memory.measurement = Some(Measured::of(&measurement, told.delay_ms, asked, moved_to_ms));
}

/// Remembers what clients are told, and counts it as a revision when it is another thing than before.
pub(super) fn note_orders(
    rules: &Rules,
    orders: &Orders,
    estimate: Option<&Estimate>,
    counted: Option<Counted>,
    memory: &mut Memory,
    now: Timestamp,
) {
    let delay = |hedging: Option<Hedging>| hedging.map(|hedging| hedging.delay_ms.to_bits());
    let before = in_force(memory);
    if let Some(estimate) = estimate.filter(|_| delay(orders.hedging) != delay(before)) {
        memory.samples.covered_ms = 0;
        if let (Some(before), Some(_), Some(Counted::Measured(measured))) = (before, orders.hedging, counted)
        {
            let aim = &estimate.target.aim;
            memory.stepped = Some(measured.stepped(memory.stepped, before.delay_ms, aim));
        }
    }
    let limits = Limits::told(rules, orders);
    // A memory without limits is one of an earlier version, which is no change of what clients are told.
    let same_limits = memory.limits.is_none_or(|told| told == limits);
    if memory.orders.as_ref() != Some(orders) || !same_limits {
        memory.revision = memory.revision.saturating_add(1);
        memory.orders = Some(orders.clone());
        memory.published = now;
    }
    memory.limits = Some(limits);
    let longest = rules
        .windows
        .max_window
        .max(rules.windows.window)
        .saturating_add(rules.propagation);
    memory.history.note(orders.hedging, now, longest);
}
