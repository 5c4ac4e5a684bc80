//! What must outlive a restart.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::budget::BackOff;
use crate::closed_loop::Stepped;
use crate::delay::{Latch, SlowMode};
use crate::diagnosis::Findings;
use crate::history::History;
use crate::switch::Phase;
use crate::{Measured, Orders, Reason, Rules, Timestamp};

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
    /// What clients were told beside that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<Limits>,
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
    /// On which side of a slow mode the delay lies; `None` while there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slow_mode: Option<SlowMode>,
    /// The part of the budget that is published, while clients spend more than they are told.
    #[serde(skip_serializing_if = "BackOff::is_none")]
    pub(crate) back_off: BackOff,
    /// When the document of the orders in force was published, at the latest.
    #[serde(skip_serializing_if = "is_never")]
    pub(crate) published: Timestamp,
    /// The end of the last window of the counters that was measured: the next one begins there.
    #[serde(skip_serializing_if = "is_never")]
    pub(crate) measured: Timestamp,
    /// The last measurement that moved the delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stepped: Option<Stepped>,
    /// The last measurement, as it is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) measurement: Option<Measured>,
    /// The counters are unknown since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counts_unknown: Option<Timestamp>,
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

/// What clients were told that the policy fixes whatever is decided: the rest of the content of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limits {
    /// What one call may take in all, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deadline_us: Option<u64>,
    /// Attempts per call, the primary included.
    pub(crate) max_attempts: u8,
    /// Hedges in flight per client process; told only while hedging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_concurrent: Option<u32>,
}

impl Limits {
    /// The limits that clients are told with `orders`.
    pub(crate) fn told(rules: &Rules, orders: &Orders) -> Self {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            deadline_us: rules.deadline.map(micros),
            max_attempts: rules.budget.max_attempts,
            max_concurrent: orders.hedging.map(|_| rules.budget.max_concurrent),
        }
    }
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

    /// Notes that its document was written at `at`, and the one before at `before`. A step of the ramp, the wait after
    /// switching off and the calls that show what the document does count from there, and not from the decision: a write may
    /// come late.
    pub fn took_effect(&mut self, before: Option<Timestamp>, at: Timestamp) {
        let began_with_it = |phase: &Phase| before.is_none_or(|before| phase.since() > before);
        self.phase = match self.phase {
            Some(phase) if began_with_it(&phase) => Some(phase.not_before(at)),
            phase => phase,
        };
        self.published = self.published.max(at);
    }

    /// Whether clients who are told this instead of what `before` remembers are off, or hedge less or later.
    pub fn is_safer_than(&self, before: &Self) -> bool {
        match (&before.orders, &self.orders) {
            (Some(before), Some(after)) => after.are_safer_than(before),
            _ => before.lets_hedge() && !self.lets_hedge(),
        }
    }

    /// Whether clients were told to hedge.
    pub fn lets_hedge(&self) -> bool {
        self.orders
            .as_ref()
            .is_some_and(|orders| orders.hedging.is_some())
    }

    /// Whether clients were told to hedge with the whole budget.
    pub fn has_whole_budget(&self) -> bool {
        let tuned = |orders: &Orders| orders.hedging.is_some() && orders.reason == Reason::Tuned;
        self.orders.as_ref().is_some_and(tuned)
    }

    /// Whether clients were told to hedge more than at the first step of a ramp: nobody may come to that in one step.
    pub fn is_past_first_step(&self) -> bool {
        let first = Phase::restarted(Timestamp::default()).share();
        self.lets_hedge() && self.phase.is_some_and(|phase| phase.share() > first)
    }

    /// Notes that clients went off without a decision: their documents expired, or were written off as they stood. They come
    /// back as after every off: after a cooldown, through the ramp.
    pub fn went_off(&mut self) {
        if self.lets_hedge() {
            self.orders = None;
            self.revision = self.revision.saturating_add(1);
        }
    }

    /// Notes that clients join that were told nothing of this target until now: for them hedging comes on, and like every
    /// return it goes through the ramp. A client's own bucket starts empty, but what the ramp spares is the servers, and
    /// nobody knows what share of the calls is theirs. The others go back with them: all are told the same.
    pub fn others_joined(&mut self, now: Timestamp) {
        self.phase = self.phase.map(|phase| match phase {
            on if on.share() > Phase::restarted(now).share() => Phase::restarted(now),
            off_or_at_the_first_step => off_or_at_the_first_step,
        });
    }

    /// This, without what readings alone move.
    fn states(&self) -> Self {
        Self {
            // Another limit is another revision.
            limits: None,
            written: Timestamp::default(),
            samples: Samples::default(),
            published: Timestamp::default(),
            measured: Timestamp::default(),
            measurement: None,
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
        settle(&mut memory.published);
        settle(&mut memory.measured);
        memory.counts_unknown.iter_mut().for_each(settle);
        memory
            .slow_mode
            .iter_mut()
            .for_each(|mode| settle(&mut mode.since));
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
        memory.stepped = memory.stepped.filter(Stepped::is_sane);
        memory.measurement = memory.measurement.and_then(|measured| measured.sane(now));
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
fn is_never(time: &Timestamp) -> bool {
    *time == Timestamp::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
