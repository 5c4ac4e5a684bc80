//! What must outlive a restart.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::delay::Latch;
use crate::diagnosis::Findings;
use crate::history::History;
use crate::switch::Phase;
use crate::{Orders, Timestamp};

/// What must outlive a restart, for one target. Opaque but for the fields here: written with the documents, read back at
/// start, the newest per target wins. Fields that a later version adds are ignored; those that it misses are as never set.
///
/// Times in the future, which another clock wrote, count as now. What cannot be (a delay below zero) counts as never set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// When it was written.
    pub written: Timestamp,
    /// The revision of the document that it was written with.
    pub revision: u64,
    /// What clients were told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) orders: Option<Orders>,
    /// The delays and budgets in force within `maxWindow`.
    #[serde(skip_serializing_if = "History::is_empty")]
    pub(crate) history: History,
    /// Off, ramping or at full budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<Phase>,
    /// How often the cooldown is doubled.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) doublings: u32,
    /// Told off by `mode: Observe` since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observing_since: Option<Timestamp>,
    /// The line that the delay is above, left only 10 % under it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latch: Option<Latch>,
    /// The window in use, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) window_ms: Option<u64>,
    /// The metric and unit that gave a plausible reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) accepted: Option<String>,
    /// Latency is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blindness: Option<Blindness>,
    /// The signals that are unknown, and since when.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) signals_unknown: BTreeMap<String, Timestamp>,
    /// New samples since the delay last moved.
    pub(crate) samples: Samples,
    /// What the diagnoses found.
    #[serde(skip_serializing_if = "Findings::is_empty")]
    pub(crate) findings: Findings,
    /// The last fresh reading of each signal. In the process only: a restart counts from its first reading.
    #[serde(skip)]
    pub(crate) signals_seen: BTreeMap<String, Seen>,
}

/// Latency is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Blindness {
    /// For another reason than that nothing is called, since; `None` while it is only that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
    /// Nothing is called, since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) idle_since: Option<Timestamp>,
    /// For so long, or with such evidence, that hedging is off until it is known again.
    #[serde(default)]
    pub(crate) off: bool,
}

/// New samples since the delay last moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Samples {
    /// The newest sample seen.
    pub(crate) newest: Timestamp,
    /// The time that new samples cover, in milliseconds.
    pub(crate) covered_ms: u64,
}

/// The last fresh reading of a signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seen {
    /// When.
    pub(crate) at: Option<Timestamp>,
    /// The scrape interval as measured then.
    pub(crate) scrape_interval: Option<Duration>,
}

impl Memory {
    /// Whether this differs from what was `written` in a way that must be stored now: a document or a state changed
    /// (latency or a signal that becomes unknown is one). A reading alone never does.
    pub fn must_be_stored(&self, written: &Self) -> bool {
        self.states() != written.states()
    }

    /// Notes that its document was written at `at`, and the one before at `before`. A step of the ramp and the wait after
    /// switching off count from there, and not from the decision: a write may come late.
    pub fn took_effect(&mut self, before: Option<Timestamp>, at: Timestamp) {
        let began_with_it = |phase: &Phase| before.is_none_or(|before| phase.since() > before);
        self.phase = match self.phase {
            Some(phase) if began_with_it(&phase) => Some(phase.not_before(at)),
            phase => phase,
        };
    }

    /// Whether clients were told to hedge.
    pub fn lets_hedge(&self) -> bool {
        self.orders
            .as_ref()
            .is_some_and(|orders| orders.hedging.is_some())
    }

    /// Notes that clients went off without a decision: their documents expired, or were written off as they stood. They come
    /// back as after every off: after a cooldown, through the ramp.
    pub fn went_off(&mut self) {
        if self.lets_hedge() {
            self.orders = None;
            self.revision = self.revision.saturating_add(1);
        }
    }

    /// This, without what readings alone move.
    fn states(&self) -> Self {
        Self {
            written: Timestamp::default(),
            samples: Samples::default(),
            signals_seen: BTreeMap::new(),
            phase: self.phase.map(Phase::without_moving_times),
            findings: self.findings.states(),
            ..self.clone()
        }
    }

    /// This, as it can be relied on at `now`.
    pub(crate) fn sane(&self, now: Timestamp) -> Self {
        let mut memory = self.clone();
        let settle = |time: &mut Timestamp| *time = (*time).min(now);
        settle(&mut memory.written);
        settle(&mut memory.samples.newest);
        memory.observing_since.iter_mut().for_each(settle);
        memory.signals_unknown.values_mut().for_each(settle);
        memory
            .signals_seen
            .values_mut()
            .filter_map(|seen| seen.at.as_mut())
            .for_each(settle);
        if let Some(blindness) = &mut memory.blindness {
            blindness.since.iter_mut().for_each(settle);
            blindness.idle_since.iter_mut().for_each(settle);
        }
        memory.phase = memory.phase.map(|phase| phase.not_after(now));
        memory.history = memory.history.sane(now);
        memory.findings = memory.findings.sane(now);
        if memory
            .orders
            .as_ref()
            .is_some_and(|orders| orders.hedging.is_some_and(|hedging| !hedging.is_sane()))
        {
            memory.orders = None;
        }
        if memory.observing_since.is_none() && !memory.lets_hedge() {
            // Without the delay that clients were told there is nothing to go on with.
            memory.phase = memory
                .phase
                .map(|phase| if phase.is_on() { Phase::cooling(now) } else { phase });
        }
        memory
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
