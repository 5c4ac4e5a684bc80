//! One policy in the index.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_signals::{LatencyQuery, TargetQuery, TargetReadings};
use hedgerow_tuner::{Decision, Memory, Readings, Rules, Stop, Timestamp, decide};

use super::change::{diagnosed_otherwise, lane, raises};
use super::{Decided, Follow, Outcome, TargetView, counts};
use crate::cluster::Lane;
use crate::compile::Target;
use crate::schedule;
use crate::status::Written;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) follow: Follow,
    pub(super) outcome: Outcome,
    targets: BTreeMap<String, State>,
}

/// One target.
#[derive(Debug)]
struct State {
    readings: Readings,
    memory: Memory,
    decision: Option<Decision>,
    /// What the next latency reading shall cover.
    windows: Vec<Duration>,
    counts: counts::State,
    /// When latency and the signals are due; `None`: at once.
    latency_at: Option<Timestamp>,
    signals_at: Option<Timestamp>,
    /// Whether anything was read since the target was remembered or seen first.
    was_read: bool,
    /// Whether it is remembered from before this process followed it.
    remembered: bool,
    /// What was decided and remembered when documents were handed on last.
    handed: Option<(Decision, Memory)>,
    /// The revision that was written last, and when this process wrote it.
    published: Option<u64>,
    published_at: Option<Timestamp>,
    /// When what was written last expires: clients are off then, whatever was decided.
    valid_until: Option<Timestamp>,
}

impl Entry {
    /// The entry of a policy. What `before` knew of targets that are read alike is kept.
    pub(super) fn new(follow: Follow, before: Option<Self>, recall: impl Fn(&str) -> Option<Memory>) -> Self {
        let (known, outcome, compiled) = match before {
            Some(before) => (before.targets, before.outcome, Some(before.follow.compiled)),
            None => (BTreeMap::new(), Outcome::default(), None),
        };
        let mut known = known;
        let same_source = compiled
            .as_ref()
            .is_some_and(|compiled| compiled.source == follow.compiled.source);
        let targets = follow.compiled.targets.iter().map(|target| {
            let old = compiled
                .as_ref()
                .and_then(|compiled| compiled.targets.iter().find(|old| old.name == target.name));
            let state = match (known.remove(&target.name), old) {
                (Some(state), Some(old)) => state.follow(old, target, same_source),
                _ => State::new(target, recall(&target.name)),
            };
            (target.name.clone(), state)
        });
        let targets = targets.collect();
        Self {
            follow,
            outcome,
            targets,
        }
    }

    /// The targets of which something is due. What is due counts as asked for.
    pub(super) fn due(
        &mut self,
        phase: Duration,
        now: Timestamp,
    ) -> Vec<(String, TargetQuery, Option<Timestamp>)> {
        let compiled = Arc::clone(&self.follow.compiled);
        let mut due = Vec::new();
        for target in &compiled.targets {
            let Some(state) = self.targets.get_mut(&target.name) else {
                continue;
            };
            // What lies more than a period ahead was planned before the clock was set back.
            let is_due = |at: Option<Timestamp>, period: Duration| {
                at.is_none_or(|at| at <= now || at > now.plus(period))
            };
            let latency = is_due(state.latency_at, compiled.interval);
            let signals = is_due(state.signals_at, compiled.saturation_interval);
            if !latency && !signals {
                continue;
            }
            let at = [
                state.latency_at.filter(|_| latency),
                state.signals_at.filter(|_| signals),
            ]
            .into_iter()
            .flatten()
            .min();
            let mut query = target.query.clone();
            if latency {
                state.latency_at = Some(schedule::next(now, compiled.interval, phase));
                if let Some(query) = &mut query.latency {
                    query.windows.clone_from(&state.windows);
                }
            } else {
                query.latency = None;
            }
            state.counts.ask(&mut query);
            if signals {
                state.signals_at = Some(schedule::next(now, compiled.saturation_interval, phase));
            } else {
                query.signals.clear();
            }
            due.push((target.name.clone(), query, at));
        }
        due
    }

    /// When something is due next.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.targets
            .values()
            .flat_map(|state| [state.latency_at, state.signals_at])
            .flatten()
            .min()
    }

    /// Takes in what was read of a target by `query`, and decides.
    pub(super) fn take(
        &mut self,
        name: &str,
        query: &TargetQuery,
        read: TargetReadings,
        grace: Duration,
        now: Timestamp,
    ) -> Option<Lane> {
        let follow = self.follow.clone();
        let target = follow
            .compiled
            .targets
            .iter()
            .find(|target| target.name == name)?;
        let state = self.targets.get_mut(name)?;
        let asked_alike = |asked: &TargetQuery| {
            let latency = |query: &TargetQuery| {
                let latency = query.latency.clone()?;
                Some(LatencyQuery {
                    windows: Vec::new(),
                    ..latency
                })
            };
            asked.enforced == query.enforced
                && (query.latency.is_none() || latency(asked) == latency(query))
                && (query.counts.is_none() || counts::alike(asked, query))
                && (query.signals.is_empty() || asked.signals == query.signals)
        };
        if !asked_alike(&target.query) {
            // The policy was edited while the question was out.
            return None;
        }
        if query.latency.is_some() {
            state.readings.latency = read.latency;
        }
        counts::take(&mut state.readings.counts, query, read.counts);
        if !query.signals.is_empty() {
            state.readings.signals = read.signals.into_iter().map(Some).collect();
        }
        state.was_read = true;
        state.decide(&target.rules, &follow, grace, now);
        state.must_be_written()
    }

    /// Decides every target, to be written.
    pub(super) fn decide_all(&mut self, grace: Duration, now: Timestamp) -> Option<Decided> {
        let follow = self.follow.clone();
        let forced = follow.refusal.is_some() || follow.stop.is_some();
        if !forced
            && self
                .targets
                .values()
                .any(|state| state.remembered && !state.was_read)
        {
            return None;
        }
        let mut decided = Decided {
            targets: Vec::new(),
            before: BTreeMap::new(),
        };
        for target in &follow.compiled.targets {
            let state = self.targets.get_mut(&target.name)?;
            let decision = state.decide(&target.rules, &follow, grace, now);
            let handed = state.handed.replace((decision.clone(), state.memory.clone()));
            if let Some((before, _)) = handed {
                decided.before.insert(target.name.clone(), before);
            }
            decided.targets.push((decision, state.memory.clone()));
        }
        Some(decided)
    }

    /// Notes what became of the ConfigMaps at `now`.
    pub(super) fn set_outcome(&mut self, outcome: Outcome, now: Timestamp) {
        // One that only a person can mend does not hold the others back; but where none is written, nothing is in force.
        let all = || outcome.written.values();
        let waits = |written: &Written| matches!(written, Written::Pending { .. });
        if !all().any(waits) && all().any(|written| *written == Written::Published) {
            for state in self.targets.values_mut() {
                state.note_written(now);
                state.valid_until = outcome.valid_until;
            }
        }
        // What failed is still due: else a renewal that failed once would be made up for by nobody, and its document expire.
        let due = self.outcome.again_at.filter(|_| failed(&outcome));
        self.outcome = Outcome {
            again_at: [due, outcome.again_at].into_iter().flatten().min(),
            ..outcome
        };
    }

    /// Whether documents are to be renewed or deleted by now.
    pub(super) fn renewal_due(&self, now: Timestamp) -> bool {
        self.outcome.again_at.is_some_and(|at| at <= now)
    }

    /// The targets as they stand.
    pub(super) fn views(&self) -> Vec<TargetView> {
        self.view_with(|state| (state.decision.clone(), state.memory.clone()))
    }

    /// The targets as they were when documents were handed on last.
    pub(super) fn handed_views(&self) -> Vec<TargetView> {
        self.view_with(|state| match &state.handed {
            Some((decision, memory)) => (Some(decision.clone()), memory.clone()),
            None => (state.decision.clone(), state.memory.clone()),
        })
    }

    fn view_with(&self, of: impl Fn(&State) -> (Option<Decision>, Memory)) -> Vec<TargetView> {
        let targets = self.follow.compiled.targets.iter();
        let view = targets.filter_map(|target| {
            let state = self.targets.get(&target.name)?;
            let (decision, memory) = of(state);
            Some(TargetView {
                name: target.name.clone(),
                rules: target.rules.clone(),
                query: target.query.clone(),
                readings: state.readings.clone(),
                decision,
                memory,
            })
        });
        view.collect()
    }
}

/// Whether a ConfigMap is not as it shall be.
fn failed(outcome: &Outcome) -> bool {
    let mut written = outcome.written.values();
    written.any(|written| *written != Written::Published)
}

impl State {
    fn new(target: &Target, memory: Option<Memory>) -> Self {
        Self {
            readings: Readings {
                signals: vec![None; target.query.signals.len()],
                ..Readings::default()
            },
            remembered: memory.is_some(),
            published: memory.as_ref().map(|memory| memory.revision),
            published_at: None,
            valid_until: None,
            memory: memory.unwrap_or_default(),
            decision: None,
            windows: vec![target.rules.windows.window],
            counts: counts::State::new(&target.query),
            latency_at: None,
            signals_at: None,
            was_read: false,
            handed: None,
        }
    }

    /// This state under an edited target: what is still read alike is kept, the rest is due at once.
    fn follow(mut self, old: &Target, new: &Target, same_source: bool) -> Self {
        if same_source && old == new {
            return self;
        }
        let same_place = same_source && old.query.enforced == new.query.enforced;
        if !same_place || old.query.latency != new.query.latency {
            self.readings.latency = None;
        }
        self.readings.signals = new
            .query
            .signals
            .iter()
            .map(|signal| {
                let at = old
                    .query
                    .signals
                    .iter()
                    .position(|old| same_place && old == signal)?;
                self.readings.signals.get(at)?.clone()
            })
            .collect();
        if !same_place || !counts::alike(&old.query, &new.query) {
            self.readings.counts = None;
        }
        self.windows = vec![new.rules.windows.window];
        self.counts = counts::State::new(&new.query);
        (self.latency_at, self.signals_at) = (None, None);
        self
    }

    fn decide(&mut self, rules: &Rules, follow: &Follow, grace: Duration, now: Timestamp) -> Decision {
        let refusal = follow.refusal.as_ref();
        self.readings.stop = match refusal {
            Some(refusal) => Some(Stop {
                message: refusal.message.clone(),
            }),
            None => follow.stop.clone(),
        };
        if self.valid_until.is_some_and(|until| until <= now) {
            self.memory.went_off();
        }
        let (mut decision, memory) = if grace.is_zero() {
            decide(rules, &self.memory, &self.readings, now)
        } else {
            decide(&with_grace(rules, grace), &self.memory, &self.readings, now)
        };
        if let Some(refusal) = refusal {
            decision.reason = refusal.reason;
            decision.orders.reason = refusal.reason;
        }
        if let Some(waiting) = self
            .waiting()
            .filter(|waiting| raises(&waiting.orders, &decision.orders))
        {
            return waiting.clone();
        }
        self.memory = memory;
        self.windows.clone_from(&decision.windows_wanted);
        self.counts.want(&decision.counts_wanted);
        if decision.wants_wider
            && self
                .decision
                .as_ref()
                .is_none_or(|before| before.windows_wanted != decision.windows_wanted)
        {
            self.latency_at = None;
        }
        self.decision = Some(decision.clone());
        decision
    }

    /// The decision whose document is not written yet. Nothing is raised beyond it: a ramp that went on while the API
    /// server was away would end in one step from off to the full budget.
    fn waiting(&self) -> Option<&Decision> {
        self.decision
            .as_ref()
            .filter(|_| self.published != Some(self.memory.revision))
    }

    /// The documents that were handed on last are written.
    fn note_written(&mut self, now: Timestamp) {
        let Some((_, handed)) = &mut self.handed else {
            return;
        };
        if self.published == Some(handed.revision) {
            return;
        }
        self.published = Some(handed.revision);
        let before = self.published_at.replace(now);
        if handed.revision == self.memory.revision {
            self.memory.took_effect(before, now);
            handed.took_effect(before, now);
        }
    }

    /// The lane in which this must be written; `None` when what was handed on last still holds.
    fn must_be_written(&self) -> Option<Lane> {
        let decision = self.decision.as_ref()?;
        match &self.handed {
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

/// The rules of a target that bears with unknown readings for a little longer.
fn with_grace(rules: &Rules, grace: Duration) -> Rules {
    let mut rules = rules.clone();
    rules.switch.max_unknown = rules.switch.max_unknown.saturating_add(grace);
    rules.max_staleness = rules.max_staleness.saturating_add(grace);
    rules
}
