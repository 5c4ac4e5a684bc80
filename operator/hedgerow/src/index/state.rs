//! One target of a policy: what is remembered of it and decided about it.

use std::time::Duration;

use hedgerow_tuner::{Decision, Memory, Reason, Rules, Stop, Timestamp, decide};

use super::Follow;
use super::change::{diagnosed_otherwise, lane, raises};
use super::reads::Reads;
use super::told::Told;
use crate::cluster::Lane;
use crate::compile::Target;

#[derive(Debug)]
pub(super) struct State {
    pub(super) reads: Reads,
    pub(super) told: Told,
    pub(super) memory: Memory,
    pub(super) decision: Option<Decision>,
    /// Whether it is remembered from before this process followed it.
    remembered: bool,
}

impl State {
    /// A target that was not followed until now; `recalled` is what each ConfigMap remembers of it from before.
    pub(super) fn new(target: &Target, recalled: Vec<(String, Memory)>) -> Self {
        let newest = recalled.iter().map(|(_, memory)| memory);
        let newest = newest.max_by_key(|memory| memory.written).cloned();
        Self {
            reads: Reads::new(target),
            told: Told::recalled(&recalled, newest.as_ref()),
            remembered: newest.is_some(),
            memory: newest.unwrap_or_default(),
            decision: None,
        }
    }

    /// This state under an edited target.
    pub(super) fn follow(mut self, old: &Target, new: &Target, same_source: bool) -> Self {
        self.reads.follow(old, new, same_source);
        self
    }

    /// Notes what happened to the target's clients, whatever is decided then: a person or a refusal stops it, its documents
    /// expired, others joined.
    pub(super) fn note_circumstances(&mut self, follow: &Follow, now: Timestamp) {
        let refused = follow.refusal.as_ref().map(|refusal| Stop {
            reason: refusal.reason,
            message: refusal.message.clone(),
        });
        // A person goes before what the operator finds wrong.
        self.reads.readings.stop = follow.stop.clone().or(refused);
        if self.told.has_expired(now) {
            self.memory.went_off();
        }
        if self.told.take_joined() {
            self.memory.others_joined(now);
        }
    }

    /// What would be decided now, and remembered of it.
    pub(super) fn consider(&self, rules: &Rules, grace: Duration, now: Timestamp) -> (Decision, Memory) {
        if grace.is_zero() {
            decide(rules, &self.memory, &self.reads.readings, now)
        } else {
            decide(&with_grace(rules, grace), &self.memory, &self.reads.readings, now)
        }
    }

    /// Whether nothing is decided yet: the target is remembered from before a restart, which changes nothing by itself, and a
    /// reading is still to come. What turns hedging off whatever that reading will say waits for none.
    pub(super) fn must_wait(&self, target: &Target, decision: &Decision) -> bool {
        let needs_no_reading = match decision.reason {
            Reason::Stopped | Reason::Invalid | Reason::SourceNotAvailable => true,
            reason => {
                self.turns_off(decision)
                    && (reason == Reason::Saturated || decision.orders.reason == Reason::Observing)
            }
        };
        self.awaits_reading(target) && !needs_no_reading
    }

    /// Whether it is remembered from before a restart, and a reading is still to come.
    fn awaits_reading(&self, target: &Target) -> bool {
        self.remembered && self.reads.awaits_reading(target)
    }

    /// Whether clients that hedge are told to stop.
    pub(super) fn turns_off(&self, decision: &Decision) -> bool {
        self.memory.lets_hedge() && decision.orders.hedging.is_none()
    }

    /// Whether clients were to be told to stop, and that is not written yet.
    pub(super) fn is_going_off(&self) -> bool {
        let off = |decision: &Decision| decision.orders.hedging.is_none();
        self.told.published.is_some() && self.waiting().is_some_and(off)
    }

    /// Takes over what was [considered](Self::consider), and tells what holds now.
    pub(super) fn adopt(&mut self, target: &Target, (decision, memory): (Decision, Memory)) -> Decision {
        self.reads.want(&decision, self.decision.as_ref());
        let waiting = self.waiting();
        if let Some(waiting) = waiting.filter(|waiting| raises(&waiting.orders, &decision.orders)) {
            let held_back = held_back(waiting, decision);
            self.decision = Some(held_back.clone());
            return held_back;
        }
        // What is not known before the first reading is no news: then only what clients are told is.
        if !self.awaits_reading(target) || memory.revision != self.memory.revision {
            self.memory = memory;
        }
        self.decision = Some(decision.clone());
        decision
    }

    /// The decision whose document is not written yet. Nothing is raised beyond it: a ramp that went on while the API
    /// server was away would end in one step from off to the full budget.
    fn waiting(&self) -> Option<&Decision> {
        self.decision
            .as_ref()
            .filter(|_| self.told.published != Some(self.memory.revision))
    }

    /// The lane in which this must be written; `None` when what was handed on last still holds.
    pub(super) fn must_be_written(&self) -> Option<Lane> {
        let decision = self.decision.as_ref()?;
        match &self.told.handed {
            None => Some(lane(None, &decision.orders)),
            Some((handed, _)) if handed.orders != decision.orders => {
                Some(lane(Some(&handed.orders), &decision.orders))
            }
            Some((handed, memory)) => {
                let state_changed = handed.reason != decision.reason
                    || diagnosed_otherwise(handed, decision)
                    || self.memory.must_be_stored(memory);
                state_changed.then_some(Lane::Document)
            }
        }
    }
}

/// What `newest` says is read and would be done, while clients are told no more than the document that `waiting` is for.
fn held_back(waiting: &Decision, newest: Decision) -> Decision {
    Decision {
        revision: waiting.revision,
        orders: waiting.orders.clone(),
        switch: waiting.switch,
        message: format!(
            "{}; clients are told once their documents are written",
            newest.message
        )
        .into(),
        ..newest
    }
}

/// The rules of a target that bears with unknown readings for a little longer.
fn with_grace(rules: &Rules, grace: Duration) -> Rules {
    let mut rules = rules.clone();
    rules.switch.max_unknown = rules.switch.max_unknown.saturating_add(grace);
    rules.max_staleness = rules.max_staleness.saturating_add(grace);
    rules
}
