//! What is known of each policy that is followed: what was read, what was decided, what was handed on to be written.
//!
//! It lives in memory. What must outlive a restart is in the annotations of the ConfigMaps and is recalled from there, so
//! that a restart changes nothing by itself: a target that is remembered waits for its first reading before anything is
//! decided about it.

mod change;
mod counts;
mod entry;
mod outage;
mod reads;
mod state;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hedgerow_api::HedgePolicySpec;
use hedgerow_signals::{ReadingKind, TargetQuery, TargetReadings};
use hedgerow_tuner::{Decision, Memory, Readings, Rules, Stop, Timestamp, Unknown};

use crate::cluster::{Fault, Lane, PolicyKey};
use crate::compile::Compiled;
use crate::status::{Refusal, Written};

use entry::Entry;
use outage::Outage;

/// What is known of each policy that is followed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Index {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    policies: BTreeMap<PolicyKey, Entry>,
    /// By source, whether it fails for all its targets.
    outages: BTreeMap<String, Outage>,
}

/// A policy as it shall be followed.
#[derive(Clone, Debug)]
pub struct Follow {
    /// Its UID: another policy of the same name starts anew.
    pub uid: String,
    /// What it says.
    pub spec: Arc<HedgePolicySpec>,
    /// The same, ready to be read and decided.
    pub compiled: Arc<Compiled>,
    /// Why it is off whatever is read: its source is not available.
    pub refusal: Option<Refusal>,
    /// A person stopped it.
    pub stop: Option<Stop>,
}

/// A target of a policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetKey {
    /// The policy.
    pub policy: PolicyKey,
    /// The target's name.
    pub target: String,
}

/// A target that is due to be read.
#[derive(Clone, Debug)]
pub struct Due {
    /// Which.
    pub key: TargetKey,
    /// Where it is read.
    pub source: String,
    /// The kind of reading.
    pub kind: ReadingKind,
    /// What of one kind is due of it; empty when only time has passed.
    pub query: TargetQuery,
    /// Since when it is due; `None` for a target that was not read before.
    pub at: Option<Timestamp>,
}

/// A target as it stands.
#[derive(Clone, Debug)]
pub struct TargetView {
    /// Its name.
    pub name: String,
    /// What it is decided by.
    pub rules: Rules,
    /// What is read of it.
    pub query: TargetQuery,
    /// What was read last.
    pub readings: Readings,
    /// What was decided last; `None` before the first time.
    pub decision: Option<Decision>,
    /// What is remembered.
    pub memory: Memory,
}

/// What became of the ConfigMaps of a policy, and when to look at them again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By ConfigMap.
    pub written: BTreeMap<String, Written>,
    /// Those that the policy names no longer and that could not be ended, by name.
    pub retiring: BTreeMap<String, Written>,
    /// What is not as it should be of a document, by ConfigMap and key.
    pub faults: BTreeMap<(String, String), Fault>,
    /// The documents that are held off, by ConfigMap and key, until the ramps of their targets have begun anew.
    pub joining: BTreeSet<(String, String)>,
    /// When documents are to be renewed or deleted.
    pub again_at: Option<Timestamp>,
    /// When the first of the documents that are there expires, or has.
    pub valid_until: Option<Timestamp>,
}

/// What there is to write for a policy.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The targets with their new decisions, in the order of the policy.
    pub targets: Vec<(Decision, Memory)>,
    /// What was decided when documents were handed on last, by target.
    pub before: BTreeMap<String, Decision>,
}

/// The switches of a source that fails for all its targets open spread over this.
const SPREAD: Duration = Duration::from_secs(10);

impl Index {
    /// Follows a policy from now on as `follow` says. `recall` tells what each ConfigMap remembers of a target from before.
    pub fn follow(&self, key: &PolicyKey, follow: Follow, recall: impl Fn(&str) -> Vec<(String, Memory)>) {
        let mut inner = self.inner();
        let before = inner
            .policies
            .remove(key)
            .filter(|entry| entry.follow.uid == follow.uid);
        inner
            .policies
            .insert(key.clone(), Entry::new(follow, before, recall));
    }

    /// Follows a policy no longer.
    pub fn forget(&self, key: &PolicyKey) {
        self.inner().policies.remove(key);
    }

    /// Forgets everything, for a process that no longer leads.
    pub fn clear(&self) {
        *self.inner() = Inner::default();
    }

    /// The targets of `source` of which a reading of that kind is due, and when the next will be.
    pub fn due(
        &self,
        source: &str,
        kind: ReadingKind,
        phase: Duration,
        now: Timestamp,
    ) -> (Vec<Due>, Option<Timestamp>) {
        let mut inner = self.inner();
        let mut due = Vec::new();
        let mut next: Option<Timestamp> = None;
        for (key, entry) in &mut inner.policies {
            if entry.follow.compiled.source != source || entry.follow.refusal.is_some() {
                continue;
            }
            for (target, query, at) in entry.due(kind, phase, now) {
                let key = TargetKey {
                    policy: key.clone(),
                    target,
                };
                due.push(Due {
                    key,
                    source: source.to_owned(),
                    kind,
                    query,
                    at,
                });
            }
            next = [next, entry.next_due(kind)].into_iter().flatten().min();
        }
        (due, next)
    }

    /// Takes in what was read and decides. The lane in which the policy must be written, if it must.
    pub fn take(&self, due: &Due, readings: TargetReadings, now: Timestamp) -> Option<Lane> {
        let mut inner = self.inner();
        let grace = inner.grace(&due.key.policy);
        inner
            .policies
            .get_mut(&due.key.policy)
            // Of another source nobody asked.
            .filter(|entry| entry.follow.compiled.source == due.source)?
            .take(due, readings, grace, now)
    }

    /// Decides every target of a policy now, to be written. `None` while a target that is remembered from before a restart
    /// waits for its first readings and nothing turns hedging off, and for a policy that is not followed.
    pub fn decide(&self, key: &PolicyKey, now: Timestamp) -> Option<Decided> {
        let mut inner = self.inner();
        let grace = inner.grace(key);
        inner.policies.get_mut(key)?.decide_all(grace, now)
    }

    /// The policy as it is followed.
    pub fn followed(&self, key: &PolicyKey) -> Option<Follow> {
        self.inner().policies.get(key).map(|entry| entry.follow.clone())
    }

    /// What was decided when documents were handed on last, and what became of them.
    pub fn handed(&self, key: &PolicyKey) -> Option<(Vec<TargetView>, Outcome)> {
        let inner = self.inner();
        let entry = inner.policies.get(key)?;
        Some((entry.handed_views(), entry.outcome.clone()))
    }

    /// Notes what became of the ConfigMaps of a policy at `now`.
    pub fn set_outcome(&self, key: &PolicyKey, outcome: Outcome, now: Timestamp) {
        if let Some(entry) = self.inner().policies.get_mut(key) {
            entry.set_outcome(outcome, now);
        }
    }

    /// The policies whose documents are to be renewed or deleted by now.
    pub fn renewals(&self, now: Timestamp) -> Vec<PolicyKey> {
        let inner = self.inner();
        let due = inner.policies.iter().filter(|(_, entry)| entry.renewal_due(now));
        due.map(|(key, _)| key.clone()).collect()
    }

    /// Every policy with the moment at which the next of its documents is to be renewed or deleted.
    pub fn renewal_times(&self) -> Vec<(PolicyKey, Timestamp)> {
        let inner = self.inner();
        let due = inner.policies.iter();
        due.filter_map(|(key, entry)| Some((key.clone(), entry.outcome.again_at?)))
            .collect()
    }

    /// Whether documents of this policy are to be renewed or deleted by now.
    pub fn renewal_due(&self, key: &PolicyKey, now: Timestamp) -> bool {
        self.inner()
            .policies
            .get(key)
            .is_some_and(|entry| entry.renewal_due(now))
    }

    /// Notes whether a source fails for all its targets. The policies that people are to be told this of, if it is news:
    /// a source that falters for a moment is none.
    pub fn set_failing(&self, source: &str, failing: Option<Unknown>, now: Timestamp) -> BTreeSet<PolicyKey> {
        let mut inner = self.inner();
        let outage = inner.outages.entry(source.to_owned()).or_default();
        if !outage.note(failing, now) {
            return BTreeSet::new();
        }
        let concerned = inner
            .policies
            .iter()
            .filter(|(_, entry)| entry.follow.compiled.source == source);
        concerned.map(|(key, _)| key.clone()).collect()
    }

    /// Why the source fails for all its targets, as people are told.
    pub fn failing(&self, source: &str) -> Option<Unknown> {
        self.inner().outages.get(source)?.told().cloned()
    }

    /// Every policy with its targets as they stand.
    pub fn views(&self) -> Vec<(PolicyKey, Vec<TargetView>)> {
        let inner = self.inner();
        inner
            .policies
            .iter()
            .map(|(key, entry)| (key.clone(), entry.views()))
            .collect()
    }

    /// One policy's targets as they stand.
    pub fn view(&self, key: &PolicyKey) -> Option<Vec<TargetView>> {
        self.inner().policies.get(key).map(Entry::views)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// How much longer a policy bears with unknown readings while its source fails for all: so their switches open spread
    /// over some time, and not all in one moment.
    fn grace(&self, key: &PolicyKey) -> Duration {
        let source = self.policies.get(key).map(|entry| &entry.follow.compiled.source);
        let outage = source.and_then(|source| self.outages.get(source));
        if outage.is_some_and(Outage::fails) {
            SPREAD.mul_f64(hedgerow_config::fraction_of(key))
        } else {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests;
