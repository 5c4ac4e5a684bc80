//! One policy in the index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hedgerow_api::HedgePolicySpec;
use hedgerow_signals::{ReadingKind, TargetQuery, TargetReadings};
use hedgerow_tuner::{Decision, Memory, Timestamp};

use super::reads::asked_alike;
use super::state::State;
use super::{Decided, Due, Follow, Outcome, TargetView};
use crate::cluster::{Instead, Lane};
use crate::status::Written;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) follow: Follow,
    pub(super) outcome: Outcome,
    targets: BTreeMap<String, State>,
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
                state
                    .told
                    .note_joined(!outputs(&follow.spec).is_subset(&outputs(&old.spec)));
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
        let mut due = Vec::new();
        for target in &compiled.targets {
            let Some(state) = self.targets.get_mut(&target.name) else {
                continue;
            };
            if let Some((query, at)) = state.reads.ask(target, kind, (period, phase), now) {
                due.push((target.name.clone(), query, at));
            }
        }
        due
    }

    /// When a reading of that kind is due next.
    pub(super) fn next_due(&self, kind: ReadingKind) -> Option<Timestamp> {
        self.targets
            .values()
            .filter_map(|state| state.reads.next_due(kind))
            .min()
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
        if !asked_alike(&target.query, query) {
            // The policy was edited while the question was out.
            return None;
        }
        state.reads.take(due.kind, query, read);
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
            let handed = state
                .told
                .handed
                .replace((decision.clone(), state.memory.clone()));
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
                state
                    .told
                    .note_written(&mut state.memory, outcome.valid_until, now);
            }
        }
        for (name, state) in &mut self.targets {
            let outputs = outputs(&self.follow.spec, name);
            let written = outputs
                .into_iter()
                .filter(|(config_map, _)| outcome.written.get(*config_map) == Some(&Written::Published));
            for (config_map, key) in written {
                let output = (config_map.to_owned(), key.to_owned());
                let fault = outcome.faults.get(&output);
                if fault.is_none_or(|fault| fault.instead == Instead::OldBase) {
                    state.told.note_config_map(config_map);
                }
                // Noted once: the ramp begins anew with the next decision, and the document is held off no longer.
                let joins = outcome.joining.contains(&output) && !self.outcome.joining.contains(&output);
                state.told.note_joined(joins);
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
        self.view_with(|state| match &state.told.handed {
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
                readings: state.reads.readings.clone(),
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
