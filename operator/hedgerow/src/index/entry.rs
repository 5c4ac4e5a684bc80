//! One policy in the index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hedgerow_api::HedgePolicySpec;
use hedgerow_signals::{LatencyQuery, ReadingKind, TargetQuery, TargetReadings};
use hedgerow_tuner::{Decision, Memory, Readings, Reason, Rules, Stop, Timestamp, decide};

use super::change::{diagnosed_otherwise, lane, raises};
use super::{Decided, Due, Follow, Outcome, TargetView, counts};
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
    /// When each kind of reading is due; at once where nothing is said.
    due_at: BTreeMap<ReadingKind, Timestamp>,
    /// The kinds of reading that were taken since the target was remembered or seen first.
    was_read: BTreeSet<ReadingKind>,
    /// Whether it is remembered from before this process followed it.
    remembered: bool,
    /// The ConfigMaps whose clients were told of it while the budget was no higher than now.
    told_in: BTreeSet<String>,
    /// Clients joined to whom it was not told before.
    joined: bool,
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
    pub(super) fn new(
        follow: Follow,
        before: Option<Self>,
        recall: impl Fn(&str) -> Vec<(String, Memory)>,
    ) -> Self {
        let (mut known, outcome, old_follow) = match before {
            Some(before) => (before.targets, before.outcome, Some(before.follow)),
            None => (BTreeMap::new(), Outcome::default(), None),
        };
        let compiled = old_follow.as_ref().map(|old| &old.compiled);
        let same_source = compiled.is_some_and(|compiled| compiled.source == follow.compiled.source);
        let targets = follow.compiled.targets.iter().map(|target| {
            let old = compiled.and_then(|old| old.targets.iter().find(|old| old.name == target.name));
            let mut state = match (known.remove(&target.name), old) {
                (Some(state), Some(old)) => state.follow(old, target, same_source),
                _ => State::new(target, recall(&target.name)),
            };
            if let Some(old) = &old_follow {
                let outputs = |spec| outputs(spec, &target.name);
                state.joined |= !outputs(&follow.spec).is_subset(&outputs(&old.spec));
            }
            (target.name.clone(), state)
        });
        let targets = targets.collect();
        Self {
            follow,
            outcome,
            targets,
        }
    }

    /// The targets of which a reading of that kind is due. What is due counts as asked for.
    pub(super) fn due(
        &mut self,
        kind: ReadingKind,
        phase: Duration,
        now: Timestamp,
    ) -> Vec<(String, TargetQuery, Option<Timestamp>)> {
        let compiled = Arc::clone(&self.follow.compiled);
        let period = match kind {
            ReadingKind::Latency => compiled.interval,
            ReadingKind::Saturation => compiled.saturation_interval,
        };
        // What lies more than a period ahead was planned before the clock was set back.
        let is_due = |at: Option<Timestamp>| at.is_none_or(|at| at <= now || at > now.plus(period));
        let mut due = Vec::new();
        for target in &compiled.targets {
            let Some(state) = self.targets.get_mut(&target.name) else {
                continue;
            };
            let at = state.due_at.get(&kind).copied();
            if !is_due(at) {
                continue;
            }
            state.due_at.insert(kind, schedule::next(now, period, phase));
            let mut query = target.query.only(kind);
            if let Some(latency) = &mut query.latency {
                latency.windows.clone_from(&state.windows);
            }
            state.counts.ask(&mut query);
            due.push((target.name.clone(), query, at));
        }
        due
    }

    /// When a reading of that kind is due next.
    pub(super) fn next_due(&self, kind: ReadingKind) -> Option<Timestamp> {
        let due_at = self.targets.values().filter_map(|state| state.due_at.get(&kind));
        due_at.min().copied()
    }

    /// Takes in what was read of a target that was due, and decides.
    pub(super) fn take(
        &mut self,
        due: &Due,
        read: TargetReadings,
        grace: Duration,
        now: Timestamp,
    ) -> Option<Lane> {
        let (name, query) = (&due.key.target, &due.query);
        let follow = self.follow.clone();
        let target = follow
            .compiled
            .targets
            .iter()
            .find(|target| target.name == *name)?;
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
        state.was_read.insert(due.kind);
        state.note_circumstances(&follow, now);
        let considered = state.consider(&target.rules, grace, now);
        if state.must_wait(target, &considered.0) {
            return None;
        }
        state.adopt(target, considered);
        state.must_be_written()
    }

    /// Decides every target, to be written.
    pub(super) fn decide_all(&mut self, grace: Duration, now: Timestamp) -> Option<Decided> {
        let follow = self.follow.clone();
        let mut considered = Vec::new();
        let (mut one_waits, mut one_goes_off) = (false, false);
        for target in &follow.compiled.targets {
            let state = self.targets.get_mut(&target.name)?;
            state.note_circumstances(&follow, now);
            let of_target = state.consider(&target.rules, grace, now);
            let waits = state.must_wait(target, &of_target.0);
            one_waits |= waits;
            one_goes_off |= state.is_going_off() || (!waits && state.turns_off(&of_target.0));
            considered.push(of_target);
        }
        // A ConfigMap is written with all its keys, so one target that must go off takes the others as they stand.
        if one_waits && !one_goes_off {
            return None;
        }
        let mut decided = Decided {
            targets: Vec::new(),
            before: BTreeMap::new(),
        };
        for (target, considered) in follow.compiled.targets.iter().zip(considered) {
            let state = self.targets.get_mut(&target.name)?;
            let decision = state.adopt(target, considered);
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
        for (name, state) in &mut self.targets {
            let outputs = outputs(&self.follow.spec, name);
            let written = outputs
                .into_iter()
                .filter(|(config_map, _)| outcome.written.get(*config_map) == Some(&Written::Published));
            for (config_map, key) in written {
                state.note_told_in(config_map);
                let output = (config_map.to_owned(), key.to_owned());
                // Noted once: the ramp begins anew with the next decision, and the document is held off no longer.
                state.joined |= outcome.joining.contains(&output) && !self.outcome.joining.contains(&output);
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

/// The ConfigMaps and keys that tell of a target.
fn outputs<'a>(spec: &'a HedgePolicySpec, target: &str) -> BTreeSet<(&'a str, &'a str)> {
    let publish = spec.publish.iter();
    publish
        .filter(|output| output.targets.iter().any(|named| *named.name == *target))
        .map(|output| (&*output.config_map, &*output.key))
        .collect()
}

/// Whether a ConfigMap is not as it shall be.
fn failed(outcome: &Outcome) -> bool {
    let mut written = outcome.written.values();
    written.any(|written| *written != Written::Published)
}

impl State {
    /// A target that was not followed until now; `recalled` is what each ConfigMap remembers of it from before.
    fn new(target: &Target, recalled: Vec<(String, Memory)>) -> Self {
        let hedged = recalled.iter().filter(|(_, memory)| memory.lets_hedge());
        let told_in = hedged.map(|(config_map, _)| config_map.clone()).collect();
        let memories = recalled.into_iter().map(|(_, memory)| memory);
        let memory = memories.max_by_key(|memory| memory.written);
        Self {
            readings: Readings {
                signals: vec![None; target.query.signals.len()],
                ..Readings::default()
            },
            remembered: memory.is_some(),
            told_in,
            joined: false,
            published: memory.as_ref().map(|memory| memory.revision),
            published_at: None,
            valid_until: None,
            memory: memory.unwrap_or_default(),
            decision: None,
            windows: vec![target.rules.windows.window],
            counts: counts::State::new(&target.query),
            due_at: BTreeMap::new(),
            was_read: BTreeSet::new(),
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
        self.due_at.clear();
        self
    }

    /// Notes what happened to the target's clients, whatever is decided then: a person or a refusal stops it, its documents
    /// expired, others joined.
    fn note_circumstances(&mut self, follow: &Follow, now: Timestamp) {
        let refused = follow.refusal.as_ref().map(|refusal| Stop {
            reason: refusal.reason,
            message: refusal.message.clone(),
        });
        // A person goes before what the operator finds wrong.
        self.readings.stop = follow.stop.clone().or(refused);
        if self.valid_until.is_some_and(|until| until <= now) {
            self.memory.went_off();
        }
        if std::mem::take(&mut self.joined) {
            self.memory.others_joined(now);
        }
    }

    /// What would be decided now, and remembered of it.
    fn consider(&self, rules: &Rules, grace: Duration, now: Timestamp) -> (Decision, Memory) {
        if grace.is_zero() {
            decide(rules, &self.memory, &self.readings, now)
        } else {
            decide(&with_grace(rules, grace), &self.memory, &self.readings, now)
        }
    }

    /// Whether nothing is decided yet: the target is remembered from before a restart, which changes nothing by itself, and a
    /// reading is still to come. What turns hedging off whatever that reading will say waits for none.
    fn must_wait(&self, target: &Target, decision: &Decision) -> bool {
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
        let is_missing = |kind| target.query.asks(kind) && !self.was_read.contains(&kind);
        self.remembered && ReadingKind::ALL.into_iter().any(is_missing)
    }

    /// Whether clients that hedge are told to stop.
    fn turns_off(&self, decision: &Decision) -> bool {
        self.memory.lets_hedge() && decision.orders.hedging.is_none()
    }

    /// Whether clients were to be told to stop, and that is not written yet.
    fn is_going_off(&self) -> bool {
        let off = |decision: &Decision| decision.orders.hedging.is_none();
        self.published.is_some() && self.waiting().is_some_and(off)
    }

    /// Takes over what was [considered](Self::consider), and tells what holds now.
    fn adopt(&mut self, target: &Target, (decision, memory): (Decision, Memory)) -> Decision {
        self.windows.clone_from(&decision.windows_wanted);
        self.counts.want(&decision.counts_wanted);
        if decision.wants_wider
            && self
                .decision
                .as_ref()
                .is_none_or(|before| before.windows_wanted != decision.windows_wanted)
        {
            self.due_at.remove(&ReadingKind::Latency);
        }
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

    /// Notes that a ConfigMap tells of the target as it stands. Had its clients not been told before (another ConfigMap of
    /// that name stood in the way, or it was named while no operator ran), they join those of the others now.
    fn note_told_in(&mut self, config_map: &str) {
        if !self.told_in.contains(config_map) {
            self.told_in.insert(config_map.to_owned());
            self.joined = true;
        }
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

/// What `newest` says is read and would be done, while clients are told no more than the document that `waiting` is for.
fn held_back(waiting: &Decision, newest: Decision) -> Decision {
    Decision {
        revision: waiting.revision,
        orders: waiting.orders.clone(),
        switch: waiting.switch,
        message: format!(
            "{}; clients are told once their documents are written",
            newest.message
        ),
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
