//! Makes mounted documents change at once where that matters.
//!
//! Kubelet looks at the ConfigMaps of a pod about once a minute, and whenever something about the pod changes. So pods whose
//! clients are told to hedge less are annotated, and nothing restarts. It is done through the subresource `pods/status`,
//! which cannot change what a pod runs: the right to patch pods would be the right to run anything in them.
//!
//! It is a help and no more. A document is written first and never waits for it; a nudge that is lost costs a minute, which
//! is what every client has to bear with anyway.

mod errand;
mod pods;
mod rights;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kube::Client;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tracing::{debug, info, warn};

use self::errand::{Errand, Job};
use self::waiting::Waiting;
use super::changes::Changes;
use super::name::{NamespacedName, PolicyKey};
use super::queue::{Bucket, WriteRate};
use super::write::{WriteError, WriteKind, Writer};

/// Pods of one output are annotated so many at once, and then it is another's turn.
const AT_ONCE: usize = 8;
/// A right that is missing is asked for so often, since nobody tells when it is granted.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// The labels of pods.
pub type PodLabels = BTreeMap<String, String>;

/// How much nudging the API server is to bear.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NudgeLimits {
    /// Pods of one output; those beyond are counted and follow within the minute.
    pub pods: usize,
    /// Pods of all outputs; policies share it in turns.
    pub rate: WriteRate,
}

impl Default for NudgeLimits {
    fn default() -> Self {
        Self {
            pods: 1000,
            rate: WriteRate {
                per_second: 100.0,
                burst: 100.0,
            },
        }
    }
}

/// Pods that are to look at what was just written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nudge {
    /// Who asks.
    pub policy: PolicyKey,
    /// What was written; the pods are in its namespace.
    pub config_map: NamespacedName,
    /// Its version.
    pub version: String,
    /// The labels of the pods; never empty, since that would be all pods.
    pub pods: PodLabels,
}

/// Annotates pods. Cheap to clone.
#[derive(Clone)]
pub struct Nudger {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    writer: Writer,
    changes: Changes<PolicyKey>,
    /// `None`: the administrator has not allowed it.
    limits: Option<NudgeLimits>,
    waiting: Waiting,
    /// Held while one waits for a token: so they get it in the order in which they came.
    bucket: tokio::sync::Mutex<Bucket>,
    known: Mutex<Known>,
}

/// What is known of the policies that ask for it.
#[derive(Default)]
struct Known {
    /// The pods that read a ConfigMap, and whose it is; also of one that its policy names no longer, until it has ended.
    readers: BTreeMap<NamespacedName, (PolicyKey, Vec<PodLabels>)>,
    /// The policies of which it was asked whether their pods may be nudged.
    asked: BTreeSet<PolicyKey>,
    /// Those whose pods cannot be nudged for want of a right, and what to do.
    forbidden: BTreeMap<PolicyKey, String>,
}

impl Nudger {
    pub(super) fn new(
        client: Client,
        writer: Writer,
        changes: Changes<PolicyKey>,
        limits: Option<NudgeLimits>,
    ) -> Self {
        let rate = limits.unwrap_or_default().rate;
        Self {
            inner: Arc::new(Inner {
                client,
                writer,
                changes,
                limits,
                waiting: Waiting::default(),
                bucket: tokio::sync::Mutex::new(Bucket::new(rate, Instant::now().into_std())),
                known: Mutex::default(),
            }),
        }
    }

    /// Notes which pods read the ConfigMaps of a policy: those that it names now. What it names no longer stays noted until
    /// [`ended`](Self::ended), for its clients are told to stop. A policy that names pods for the first time has it asked
    /// whether they may be nudged.
    pub fn note_readers(&self, policy: &PolicyKey, readers: BTreeMap<NamespacedName, Vec<PodLabels>>) {
        if self.inner.limits.is_none() {
            return;
        }
        let mut known = self.known();
        let mut names_some = false;
        for (config_map, mut pods) in readers {
            // All pods of a namespace would be too many to mean.
            pods.retain(|labels| !labels.is_empty());
            if pods.is_empty() {
                known.readers.remove(&config_map);
            } else {
                names_some = true;
                known.readers.insert(config_map, (policy.clone(), pods));
            }
        }
        let ask = names_some && known.asked.insert(policy.clone());
        if !names_some {
            known.asked.remove(policy);
            known.forbidden.remove(policy);
        }
        drop(known);
        if ask {
            self.inner.waiting.push_question(policy);
        }
    }

    /// By this version of a ConfigMap its clients hedge less or later than before: its readers are to look at it. Does not
    /// wait. What still waits for the same pods is replaced.
    pub fn is_safer(&self, config_map: &NamespacedName, version: &str) {
        let readers = self.known().readers.get(config_map).cloned();
        let Some((policy, readers)) = readers else {
            return;
        };
        for pods in readers {
            self.inner.waiting.push(Nudge {
                policy: policy.clone(),
                config_map: config_map.clone(),
                version: version.to_owned(),
                pods,
            });
        }
    }

    /// Why the pods of a policy that asks for it are not nudged, and what to do; `None` as far as is known.
    pub fn refusal(&self, policy: &PolicyKey) -> Option<String> {
        if self.inner.limits.is_none() {
            return Some("this operator does not nudge pods: its configuration needs nudge: true".to_owned());
        }
        self.known().forbidden.get(policy).cloned()
    }

    /// Forgets what waits and what is known, for a process that no longer leads.
    pub fn clear(&self) {
        self.inner.waiting.clear();
        *self.known() = Known::default();
    }

    /// Forgets who reads a ConfigMap that has ended.
    pub fn ended(&self, config_map: &NamespacedName) {
        self.known().readers.remove(config_map);
    }

    /// Forgets a policy that is gone, and whose ConfigMaps have ended.
    pub fn forget(&self, policy: &PolicyKey) {
        let mut known = self.known();
        known.readers.retain(|_, (of, _)| of != policy);
        known.asked.remove(policy);
        known.forbidden.remove(policy);
    }

    /// Does what is asked for, a portion at a time, for ever. Several may run; each may be cut off at any moment.
    pub async fn run(&self) {
        let mut ask_again = interval_at(Instant::now() + ASK_AGAIN, ASK_AGAIN);
        ask_again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let errand = tokio::select! {
                errand = self.inner.waiting.pop() => errand,
                _ = ask_again.tick() => {
                    for policy in self.known().forbidden.keys() {
                        self.inner.waiting.push_question(policy);
                    }
                    continue;
                }
            };
            match errand {
                Errand::MayNudge(policy) => self.ask(&policy).await,
                Errand::Nudge(job) => self.nudge(job).await,
            }
        }
    }

    /// Nudges some of the pods of an output, and has the rest wait for their turn.
    async fn nudge(&self, mut job: Job) {
        let policy = job.nudge.policy.clone();
        match self.portion(&mut job).await {
            Ok(true) => {
                let Job {
                    nudge,
                    done,
                    total,
                    skipped,
                    ..
                } = job;
                info!(config_map = %nudge.config_map, done, of = total, skipped, "pods nudged");
                self.note(&policy, None);
            }
            Ok(false) => self.inner.waiting.put_back(job),
            Err(why) => {
                warn!(config_map = %job.nudge.config_map, error = %why, "pods not nudged");
                self.note(&policy, why.is_forbidden().then(|| why.to_string()));
            }
        }
    }

    /// Nudges the next pods of an output. Whether they were the last.
    async fn portion(&self, job: &mut Job) -> Result<bool, WriteError> {
        let Inner {
            client,
            writer,
            limits,
            ..
        } = &*self.inner;
        let nudge = &job.nudge;
        let left = match &mut job.left {
            Some(left) => left,
            None => {
                let mut pods = pods::list(client, nudge).await?;
                let most = limits.unwrap_or_default().pods;
                job.skipped = pods.len().saturating_sub(most);
                pods.truncate(most);
                job.total = pods.len();
                writer.skipped(WriteKind::Nudge, job.skipped);
                job.left.insert(pods.into())
            }
        };
        let portion: Vec<_> = left.drain(..left.len().min(AT_ONCE)).collect();
        let mut answers = stream::iter(portion)
            .map(async |pod| {
                self.wait_for_token().await;
                pods::annotate(client, writer, nudge, &pod).await
            })
            .buffer_unordered(AT_ONCE);
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(()) => job.done += 1,
                // A right that is missing is missing for all, and so is the lease.
                Err(why) if why.is_forbidden() || matches!(why, WriteError::NotLeading(_)) => {
                    return Err(why);
                }
                Err(why) => debug!(config_map = %nudge.config_map, error = %why, "a pod was not nudged"),
            }
        }
        Ok(left.is_empty())
    }

    async fn wait_for_token(&self) {
        let mut bucket = self.inner.bucket.lock().await;
        while let Err(at) = bucket.take(Instant::now().into_std()) {
            sleep_until(Instant::from_std(at)).await;
        }
    }

    /// Asks whether the pods of a policy may be nudged.
    async fn ask(&self, policy: &PolicyKey) {
        match rights::missing(&self.inner.client, &policy.namespace).await {
            Ok(missing) => self.note(policy, missing),
            // Then it is found when pods are nudged.
            Err(why) => debug!(%policy, error = %why, "not known whether pods may be nudged"),
        }
    }

    /// Keeps what people are to be told, and has the policy looked at when that is news.
    fn note(&self, policy: &PolicyKey, refused: Option<String>) {
        let told = refused.map(|why| {
            format!("{why}; grant it (`nudge: true` in the values of the chart), or remove nudgePods: documents are written all the same")
        });
        let mut known = self.known();
        let news = match told {
            Some(told) => known.forbidden.insert(policy.clone(), told).is_none(),
            None => known.forbidden.remove(policy).is_some(),
        };
        drop(known);
        if news {
            self.inner.changes.mark([policy.clone()]);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.inner.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
