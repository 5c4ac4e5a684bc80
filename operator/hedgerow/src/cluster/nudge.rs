//! Makes mounted documents change at once where that matters.
//!
//! Kubelet looks at the ConfigMaps of a pod about once a minute, and whenever something about the pod changes. So pods whose
//! clients are told to hedge less are annotated, and nothing restarts. It is done through the subresource `pods/status`,
//! which cannot change what a pod runs: the right to patch pods would be the right to run anything in them.
//!
//! It is a help and no more. A document is written first and never waits for it; a nudge that is lost costs a minute, which
//! is what every client has to bear with anyway.

mod waiting;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{StreamExt as _, stream};
use hedgerow_api::names::{FIELD_MANAGER, NUDGED_ANNOTATION};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use self::waiting::Waiting;
use super::changes::Changes;
use super::name::{NamespacedName, PolicyKey};
use super::queue::{Bucket, WriteRate};
use super::write::{WriteError, WriteKind, Writer, bounded};

/// Pods of one output are annotated so many at once.
const AT_ONCE: usize = 8;
/// Pods are listed so many at once.
const PAGE: u32 = 500;
/// Those that have ended read no file any more.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// How much nudging the API server is to bear.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NudgeLimits {
    /// Pods of one output; those beyond are counted and follow within the minute.
    pub pods: usize,
    /// Pods of all outputs.
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
pub struct Nudge {
    /// Who asks.
    pub policy: PolicyKey,
    /// What was written; the pods are in its namespace.
    pub config_map: NamespacedName,
    /// Its version.
    pub version: String,
    /// The labels of the pods; never empty, since that would be all pods.
    pub pods: BTreeMap<String, String>,
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
    bucket: Mutex<Bucket>,
    /// The policies whose pods could not be nudged for want of a right, and what to do.
    forbidden: Mutex<BTreeMap<PolicyKey, String>>,
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
                bucket: Mutex::new(Bucket::new(rate, Instant::now().into_std())),
                forbidden: Mutex::default(),
            }),
        }
    }

    /// Asks for it, and does not wait. What still waits for the same pods is replaced.
    pub fn ask(&self, nudge: Nudge) {
        if self.inner.limits.is_some() && !nudge.pods.is_empty() {
            self.inner.waiting.push(nudge);
        }
    }

    /// Why the pods of a policy that asks for it are not nudged, and what to do; `None` as far as is known.
    pub fn refusal(&self, policy: &PolicyKey) -> Option<String> {
        if self.inner.limits.is_none() {
            return Some("this operator does not nudge pods: its configuration needs nudge: true".to_owned());
        }
        self.forbidden().get(policy).cloned()
    }

    /// Forgets what waits, for a process that no longer leads.
    pub fn clear(&self) {
        self.inner.waiting.clear();
        self.forbidden().clear();
    }

    /// Forgets a policy that is gone.
    pub fn forget(&self, policy: &PolicyKey) {
        self.forbidden().remove(policy);
    }

    /// Nudges what is asked for, one output after the other, for ever. Several may run; each may be cut off at any moment.
    pub async fn run(&self) {
        loop {
            let nudge = self.inner.waiting.pop().await;
            let refused = self.nudge(&nudge).await.err();
            if let Some(why) = &refused {
                warn!(config_map = %nudge.config_map, error = %why, "pods not nudged");
            }
            self.note(&nudge.policy, refused.filter(WriteError::is_forbidden));
        }
    }

    /// Nudges the pods of one output.
    async fn nudge(&self, nudge: &Nudge) -> Result<(), WriteError> {
        let mut pods = self.pods(nudge).await?;
        let most = self.inner.limits.unwrap_or_default().pods;
        let skipped = pods.len().saturating_sub(most);
        pods.truncate(most);
        self.inner.writer.skipped(WriteKind::Nudge, skipped);

        let total = pods.len();
        let mut answers = stream::iter(pods)
            .map(async |pod| self.annotate(nudge, &pod).await)
            .buffer_unordered(AT_ONCE);
        let mut done = 0;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(()) => done += 1,
                // A right that is missing is missing for all, and so is the lease.
                Err(why) if why.is_forbidden() || matches!(why, WriteError::NotLeading(_)) => {
                    return Err(why);
                }
                Err(why) => debug!(config_map = %nudge.config_map, error = %why, "a pod was not nudged"),
            }
        }
        info!(config_map = %nudge.config_map, done, of = total, skipped, "pods nudged");
        Ok(())
    }

    /// The pods of an output that have not ended.
    async fn pods(&self, nudge: &Nudge) -> Result<Vec<PartialObjectMeta<Pod>>, WriteError> {
        let api: Api<Pod> = Api::namespaced(self.inner.client.clone(), &nudge.config_map.namespace);
        let labels: Vec<_> = nudge
            .pods
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut params = ListParams::default()
            .labels(&labels.join(","))
            .fields(NOT_ENDED)
            .limit(PAGE);
        let mut pods = Vec::new();
        loop {
            let page = bounded(api.list_metadata(&params)).await?;
            pods.extend(page.items);
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
                return Ok(pods);
            }
        }
    }

    async fn annotate(&self, nudge: &Nudge, pod: &PartialObjectMeta<Pod>) -> Result<(), WriteError> {
        self.wait_for_turn().await;
        let api: Api<PartialObjectMeta<Pod>> =
            Api::namespaced(self.inner.client.clone(), &nudge.config_map.namespace);
        // A value that differs each time, or nothing would change. With the UID, since another pod may have the name by now.
        let value = format!("{}@{}", nudge.config_map.name, nudge.version);
        let patch = json!({
            "metadata": { "uid": pod.metadata.uid, "annotations": { NUDGED_ANNOTATION: value } },
        });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let name = pod.name_any();
        let patch = Patch::Merge(&patch);
        let request = api.patch_subresource("status", &name, &params, &patch);
        self.inner.writer.write(WriteKind::Nudge, request).await.map(drop)
    }

    async fn wait_for_turn(&self) {
        loop {
            let now = Instant::now().into_std();
            let turn = self
                .inner
                .bucket
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(now);
            match turn {
                Ok(()) => return,
                Err(at) => sleep_until(Instant::from_std(at)).await,
            }
        }
    }

    /// Keeps what people are to be told, and has the policy looked at when that is news.
    fn note(&self, policy: &PolicyKey, refused: Option<WriteError>) {
        let told = refused.map(|why| {
            format!("{why}; grant it (`nudge: true` in the values of the chart), or remove nudgePods: documents are written all the same")
        });
        let mut forbidden = self.forbidden();
        let news = match told {
            Some(told) => forbidden.insert(policy.clone(), told).is_none(),
            None => forbidden.remove(policy).is_some(),
        };
        drop(forbidden);
        if news {
            self.inner.changes.mark([policy.clone()]);
        }
    }

    fn forbidden(&self) -> MutexGuard<'_, BTreeMap<PolicyKey, String>> {
        self.inner
            .forbidden
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
