//! One policy, brought to what it shall be: level-based and idempotent. A document goes before its status.

mod notices;
mod nudge;
mod publish;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join, join_all};
use hedgerow_api::Mode;
use hedgerow_tuner::{Decision, Timestamp};
use tokio::sync::Notify;
use tracing::{error, info};

use crate::cluster::{
    Cluster, Lane, Outcome, OutputRecord, Owner, PolicyEntry, PolicyKey, PublishError, Work, WriteQueue,
};
use crate::documents;
use crate::index::{Decided, Follow, Index};
use crate::metrics::Metrics;
use crate::settings::Sources;
use crate::status::{DecidedTarget, Facts, Refusal, status};
use crate::words;

use validate::{Verdict, validate};

/// Brings policies to what they shall be.
pub struct Reconciler {
    /// What is, and the ways to change it.
    pub cluster: Arc<Cluster>,
    /// The sources that policies may name.
    pub sources: Sources,
    /// How long a document takes to reach its clients.
    pub propagation: Duration,
    /// What is known of each policy.
    pub index: Index,
    /// Where the rest of the work goes when documents are written.
    pub queue: WriteQueue,
    /// Wakes samplers, since a policy may have something due.
    pub wake: Arc<Notify>,
    /// Where changes and failures are counted.
    pub metrics: Metrics,
}

impl Reconciler {
    /// Does one piece of work.
    pub async fn reconcile(&self, work: &Work) -> Outcome {
        let key = &work.policy;
        let now = words::now();
        let Some(entry) = self.cluster.policies.get(key) else {
            return self.forget(key, now).await;
        };
        self.note_readers(&entry);
        let refusal = match self.validate(&entry) {
            Verdict::Follow(follow) => {
                let refusal = follow.refusal.clone();
                self.follow(key, *follow);
                refusal
            }
            Verdict::Invalid(refusal) => {
                self.refuse(&entry, &refusal);
                Some(refusal)
            }
        };
        let Some(follow) = self.index.followed(key) else {
            return self.write_off(&entry, refusal.as_ref(), now).await;
        };
        let renew = self.index.renewal_due(key, now);
        if work.lane != Lane::Rest || renew {
            let Some(decided) = self.index.decide(key, now) else {
                // Remembered from before a restart: nothing is decided before its first reading, which is on its way.
                return Outcome::Done;
            };
            self.tell_changes(key, &follow, &decided);
            let joining = self.index.handed(key).unwrap_or_default().1.joining;
            let desired = documents::desired(key, &follow, &decided.targets, &joining, renew, now);
            let (published, released) = join(
                self.publish(&entry, &desired, now),
                self.release_orphans(key, now),
            )
            .await;
            let outcome = worse(published, released);
            if outcome == Outcome::Retry {
                // People are told now: until it is tried again nothing else is done for this policy.
                let _ = self.tell(&entry, refusal.as_ref(), now).await;
                return outcome;
            }
            if work.lane != Lane::Rest {
                self.queue.push(key.clone(), Lane::Rest);
                return outcome;
            }
        }
        self.tell(&entry, refusal.as_ref(), now).await
    }

    /// The lane for a policy that something changed for: first whatever switches clients off that may hedge. What is off
    /// already may wait, and is not written without a limit when somebody fights over it.
    pub fn lane(&self, key: &PolicyKey) -> Lane {
        let on = self.cluster.outputs.letting_hedge(key);
        if on.is_empty() {
            return Lane::Document;
        }
        let policy = self.cluster.policies.get(key);
        let stays_on = |entry: Arc<PolicyEntry>| {
            let follows = match self.validate(&entry) {
                Verdict::Follow(follow) => {
                    follow.refusal.is_none() && follow.stop.is_none() && follow.spec.mode == Mode::Enforce
                }
                Verdict::Invalid(_) => false,
            };
            let is_named = |record: &Arc<OutputRecord>| entry.claims.contains(&record.name.name);
            follows && on.iter().all(is_named)
        };
        if policy.is_some_and(stays_on) {
            Lane::Document
        } else {
            Lane::Safe
        }
    }

    /// What the policy asks for, if it can be followed.
    fn validate(&self, entry: &PolicyEntry) -> Verdict {
        let policies = &self.cluster.policies;
        let older = policies
            .keys_in(&entry.key.namespace)
            .into_iter()
            .filter_map(|key| policies.get(&key))
            .filter(|other| other.is_older_than(entry));
        let stop = self.cluster.stops.stop_for(&entry.key, &entry.annotations);
        validate(entry, older, &self.sources, self.propagation, stop)
    }

    fn follow(&self, key: &PolicyKey, follow: Follow) {
        let uid = follow.uid.clone();
        self.index
            .follow(key, follow, |target| self.cluster.outputs.memories(&uid, target));
        self.wake.notify_waiters();
    }

    /// Turns off what was followed until now, under the spec that was valid. What never was followed is not from now on.
    fn refuse(&self, entry: &PolicyEntry, refusal: &Refusal) {
        match self
            .index
            .followed(&entry.key)
            .filter(|follow| follow.uid == entry.uid)
        {
            Some(follow) => self.follow(
                &entry.key,
                Follow {
                    refusal: Some(refusal.clone()),
                    ..follow
                },
            ),
            None => self.index.forget(&entry.key),
        }
    }

    /// The policy is gone: garbage collection removes its ConfigMaps, and those that it does not are released.
    async fn forget(&self, key: &PolicyKey, now: Timestamp) -> Outcome {
        if let Some(follow) = self.index.followed(key) {
            self.cluster.publisher.forget(&follow.uid);
            info!(policy = %key, "policy is gone");
        }
        self.index.forget(key);
        self.cluster.status.forget(key);
        self.metrics.forget(key);
        let released = self.release_orphans(key, now).await;
        if released != Outcome::Retry {
            self.cluster.nudger.forget(key);
        }
        released
    }

    /// Releases what a policy of this name has left that is gone, though another of its name be there: except for what that
    /// one takes over, if it can be followed.
    async fn release_orphans(&self, key: &PolicyKey, now: Timestamp) -> Outcome {
        let publisher = &self.cluster.publisher;
        let release = async |orphan: &OutputRecord| match &orphan.owner {
            Some(owner) => publisher.release(&orphan.name, owner, now).await.map(drop),
            None => Ok(()),
        };
        let follows = self.index.followed(key).is_some();
        let mut orphans = self.cluster.outputs.orphans();
        orphans.retain(|orphan| {
            let heir = self.cluster.policies.winner(&orphan.name);
            let is_its_own = orphan.owner.as_ref().is_some_and(|owner| owner.policy == *key);
            is_its_own && !(follows && heir.is_some_and(|heir| heir.policy == *key))
        });
        let released = join_all(orphans.iter().map(|orphan| release(orphan))).await;
        self.all_off(&orphans, released)
    }

    /// A policy that is not valid and was not followed before, after a restart say: its documents are switched off as they
    /// stand.
    async fn write_off(&self, entry: &PolicyEntry, refusal: Option<&Refusal>, now: Timestamp) -> Outcome {
        let Some(refusal) = refusal else {
            return Outcome::Done;
        };
        let owner = Owner {
            policy: entry.key.clone(),
            uid: entry.uid.clone(),
        };
        let publisher = &self.cluster.publisher;
        let records = self.cluster.outputs.written_for(&entry.uid);
        let off = records
            .iter()
            .map(|record| publisher.write_off(&record.name, &owner, refusal.reason, now));
        let off = join_all(off).await;
        for (record, result) in records.iter().zip(&off) {
            if let Ok(published) = result {
                self.tell_change(entry, &record.name, &published.change);
            }
        }
        let written = self.all_off(&records, off);
        let written = worse(written, self.release_orphans(&entry.key, now).await);
        worse(written, self.tell(entry, Some(refusal), now).await)
    }

    /// Whether every output was switched off.
    fn all_off<T>(&self, outputs: &[Arc<OutputRecord>], results: Vec<Result<T, PublishError>>) -> Outcome {
        let mut outcome = Outcome::Done;
        for (output, result) in outputs.iter().zip(results) {
            if let Err(why) = result {
                self.metrics.publish_failed(why.reason());
                error!(config_map = %output.name, error = %why, "not switched off");
                outcome = Outcome::Retry;
            }
        }
        outcome
    }

    /// One line of log for each target of which people are told something else, and a count where clients are: also of another
    /// limit, which is another revision.
    fn tell_changes(&self, key: &PolicyKey, follow: &Follow, decided: &Decided) {
        for (target, (decision, _)) in follow.compiled.targets.iter().zip(&decided.targets) {
            let before = decided.before.get(&target.name);
            match before.map(|before| news(before, decision)) {
                Some(News::None) => continue,
                Some(News::ForClients) => self.metrics.changed(decision.orders.reason),
                Some(News::ForPeople) | None => {}
            }
            let hedging = decision.orders.hedging;
            info!(
                policy = %key,
                target = target.name,
                revision = decision.revision,
                enabled = hedging.is_some(),
                delay_ms = hedging.map(|hedging| hedging.delay_ms),
                percent = hedging.map(|hedging| hedging.percent),
                was = before.map(|before| before.reason.as_str()),
                reason = %decision.reason,
                message = %decision.message,
                "decided"
            );
        }
    }

    /// Writes the status, and the events that follow from how it differs.
    async fn tell(&self, entry: &PolicyEntry, refusal: Option<&Refusal>, now: Timestamp) -> Outcome {
        let (views, outcome) = self.index.handed(&entry.key).unwrap_or_default();
        let decided = views.iter().filter_map(|view| {
            Some(DecidedTarget {
                name: &view.name,
                rules: &view.rules,
                decision: view.decision.as_ref()?,
            })
        });
        let targets: Vec<_> = decided.collect();
        if targets.len() < views.len() {
            return Outcome::Done;
        }
        let source = self
            .index
            .followed(&entry.key)
            .map(|follow| follow.compiled.source.clone());
        let failing = source.and_then(|source| self.index.failing(&source));
        let before = self.cluster.status.current(entry);
        let after = status(&Facts {
            generation: entry.generation,
            spec: entry.policy.as_ref().ok().map(|policy| &policy.spec),
            refusal,
            targets,
            written: &outcome.written,
            faults: &outcome.faults,
            not_nudged: self.not_nudged(entry),
            source_failing: failing.as_ref(),
            before: &before,
            now,
        });
        self.metrics.told(&entry.key, &after);
        match self.cluster.status.write(entry, &after).await {
            Ok(false) => Outcome::Done,
            Ok(true) => {
                for notice in notices::notices(&before, &after) {
                    self.cluster.events.about_policy(&entry.key, &entry.uid, &notice);
                }
                Outcome::Done
            }
            // The same again would be refused again. It is tried when there is something else to tell.
            Err(why) if why.is_invalid() => {
                if self.cluster.status.is_first_refusal(entry) {
                    error!(policy = %entry.key, error = %why, "status refused");
                    let notice = notices::status_refused(&why);
                    self.cluster.events.about_policy(&entry.key, &entry.uid, &notice);
                }
                Outcome::Done
            }
            Err(why) => {
                error!(policy = %entry.key, error = %why, "status not written");
                Outcome::Retry
            }
        }
    }
}

/// To whom a decision is news.
#[derive(Debug, PartialEq, Eq)]
enum News {
    None,
    /// The reason is another, and clients are told the same.
    ForPeople,
    ForClients,
}

/// Orders and limits together are what clients are told; a change of either is a revision.
fn news(before: &Decision, after: &Decision) -> News {
    if before.orders != after.orders || before.revision != after.revision {
        News::ForClients
    } else if before.reason != after.reason {
        News::ForPeople
    } else {
        News::None
    }
}

/// What is to be done after two parts of a piece of work.
fn worse(one: Outcome, other: Outcome) -> Outcome {
    if one == Outcome::Retry { one } else { other }
}

#[cfg(test)]
mod tests {
    use hedgerow_tuner::Reason;

    use super::*;
    use crate::fixtures::{at, index, policy, read, sample};

    #[test]
    fn another_limit_is_news_for_clients_and_another_reason_for_people() {
        let index = index();
        sample(&index, at(0), |now| read(now, 3.0));
        let before = index.view(&policy()).unwrap().remove(0).decision.unwrap();
        assert_eq!(news(&before, &before), News::None);
        let limit = Decision {
            revision: before.revision + 1,
            ..before.clone()
        };
        assert_eq!(news(&before, &limit), News::ForClients);
        let mut off = before.clone();
        off.orders.hedging = None;
        off.orders.reason = Reason::Saturated;
        assert_eq!(news(&before, &off), News::ForClients);
        let held = Decision {
            reason: Reason::Held,
            ..before.clone()
        };
        assert_eq!(news(&before, &held), News::ForPeople);
    }
}
