//! How clients hedge now.

use std::time::Duration;

use super::record::in_force;
use crate::closed_loop::Guided;
use crate::counted::Counted;
use crate::delay::{Placed, place, rounded_up};
use crate::latency::Estimate;
use crate::memory::Memory;
use crate::switch::Phase;
use crate::{Hedging, LimitedBy, Mode, Rules};

/// What the delay and the budget follow beside latency.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// Off, ramping or at full budget.
    pub(super) phase: Phase,
    /// The document is rewritten anyway, as the budget ramps up.
    pub(super) rewritten: bool,
    /// What the counters say; `None` when the policy names none.
    pub(super) counted: Option<Counted>,
    /// At full budget with every reading known, and clients follow: the counters may shorten a delay and give back budget.
    pub(super) all_is_well: bool,
}

/// How clients hedge now.
#[derive(Clone, Copy)]
pub(super) struct On {
    pub(super) hedging: Hedging,
    /// What keeps the delay from the percentile.
    pub(super) limited_by: Option<LimitedBy>,
    /// Whether what clients count placed the delay.
    pub(super) by_counters: bool,
}

/// How clients hedge now; `None` when off.
pub(super) fn on(rules: &Rules, estimate: Option<&Estimate>, memory: &Memory, moment: Moment) -> Option<On> {
    if !moment.phase.is_on() {
        return None;
    }
    // In `Observe` nothing is ramped, and what is shown is what hedging would cost and do in full.
    let share = if rules.mode == Mode::Observe {
        1.0
    } else {
        moment.phase.share() * memory.back_off.part()
    };
    let percent = short(rules.budget.percent * share);
    let min_per_second = short(rules.budget.min_per_second * share);
    let in_force = in_force(memory);
    let Some(estimate) = estimate else {
        return in_force.map(|held| On {
            hedging: Hedging {
                percent,
                min_per_second,
                ..held
            },
            limited_by: None,
            by_counters: false,
        });
    };
    let placed = placed(rules, estimate, memory, moment);
    let p50_ms = rounded_up(estimate.observed.p50 * 1e3);
    let min_remaining_ms = match in_force {
        // It follows the delay, and otherwise only a median that is another one: a document is not rewritten for noise.
        Some(held) if held.delay_ms.total_cmp(&placed.delay_ms).is_eq() => {
            let still = p50_ms < 1.5 * held.min_remaining_ms && p50_ms >= 0.5 * held.min_remaining_ms;
            if still { held.min_remaining_ms } else { p50_ms }
        }
        _ => p50_ms,
    };
    let hedging = Hedging {
        delay_ms: placed.delay_ms,
        min_remaining_ms,
        percent,
        min_per_second,
    };
    Some(On {
        hedging,
        limited_by: placed.limited_by,
        by_counters: placed.by_counters,
    })
}

/// Where the delay goes: by the counters where a delay is in force that they have measured, else by the buckets.
fn placed(rules: &Rules, estimate: &Estimate, memory: &Memory, moment: Moment) -> Placed {
    let (attempt, target) = (&estimate.observed.attempt, &estimate.target);
    let new_samples = Duration::from_millis(memory.samples.covered_ms);
    let told = in_force(memory);
    let in_force_ms = told.map(|told| told.delay_ms);
    match (moment.counted, told) {
        (Some(counted), Some(told)) => Guided {
            rules,
            attempt,
            target,
            in_force_ms: told.delay_ms,
            new_samples,
            allowed: told.percent / 100.0,
            may_shorten: moment.all_is_well && memory.back_off.is_none(),
            stepped: memory.stepped,
        }
        .placed(counted),
        _ => place(rules, attempt, target, in_force_ms, new_samples, moment.rewritten),
    }
}

/// With the eight decimals that a quarter of a policy's number can need: more would not outlive being written and read.
fn short(number: f64) -> f64 {
    (number * 1e8).round() / 1e8
}
