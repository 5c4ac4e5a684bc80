//! What runs while this process leads: samplers, the pump of changes, the clock of renewals, and the writers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_signals::{ReadingKind, Source};
use rand::RngExt;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use super::identity::Identity;
use super::unexpected;
use crate::cluster::{Cluster, Lane, NamespacedName, Notice, Severity, WriteQueue, Writes};
use crate::heartbeat::{self, Heartbeats};
use crate::index::Index;
use crate::metrics::Metrics;
use crate::reconcile::Reconciler;
use crate::sampler::{OnSourceState, Sampler};
use crate::settings::Settings;
use crate::telemetry::TRACES;
use crate::words;

/// Policies are written by so many tasks at once. A write takes some milliseconds, and the queue limits the rate; there are
/// more than that needs because a write that is not answered takes seconds.
const WRITERS: usize = 12;
/// And so many are there for what switches clients off alone, whatever the others wait for.
const SAFE_WRITERS: usize = 4;
/// So many outputs are nudged for at once; one whose pods are not answered for must not keep the others waiting.
const NUDGERS: usize = 4;
/// How often it is looked for documents to renew.
const RENEWAL_PERIOD: Duration = Duration::from_secs(1);

const WATCHES_ENDED: &str = "the watches ended";

/// What a term of leadership needs.
pub(super) struct Term<'a> {
    pub(super) settings: &'a Settings,
    pub(super) identity: &'a Identity,
    pub(super) cluster: Arc<Cluster>,
    pub(super) sources: Vec<Arc<Source>>,
    pub(super) index: Index,
    pub(super) queue: WriteQueue,
    pub(super) metrics: Metrics,
    pub(super) heartbeats: Heartbeats,
}

impl Term<'_> {
    /// Leads whenever this process may, until `stop`; then what is being written is written, and no more.
    pub(super) async fn lead(&self, stop: &CancellationToken) -> Result<(), String> {
        let mut acting = self.cluster.acting();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                acts = acting.wait_for(|acting| *acting) => drop(acts.map_err(|_| WATCHES_ENDED)?),
            }
            self.metrics.leads(true);
            let over = stop.child_token();
            let (mut tasks, mut writers) = self.start(&over);
            let ended = tokio::select! {
                () = stop.cancelled() => Ok(()),
                lost = acting.wait_for(|acting| !*acting) => lost.map(drop).map_err(|_| WATCHES_ENDED.to_owned()),
                Some(ended) = tasks.join_next() => Err(unexpected(ended)),
                Some(ended) = writers.join_next() => Err(unexpected(ended)),
            };
            over.cancel();
            tasks.shutdown().await;
            while writers.join_next().await.is_some() {}
            self.metrics.leads(false);
            self.queue.clear();
            self.index.clear();
            self.cluster.nudger.clear();
            ended?;
        }
    }

    /// Starts everything. The first set may be cut off at any moment, the second ends by itself after `over`.
    fn start(&self, over: &CancellationToken) -> (JoinSet<&'static str>, JoinSet<&'static str>) {
        let wake = Arc::new(Notify::new());
        let mut tasks = JoinSet::new();
        let on_state = self.tell_operator();
        for (source, kind) in self
            .sources
            .iter()
            .flat_map(|source| ReadingKind::ALL.map(|kind| (source, kind)))
        {
            let sampler = Sampler {
                source: Arc::clone(source),
                kind,
                phase: Duration::from_millis(rand::rng().random_range(0..60_000)),
                index: self.index.clone(),
                queue: self.queue.clone(),
                wake: Arc::clone(&wake),
                metrics: self.metrics.clone(),
                heartbeat: self
                    .heartbeats
                    .of(format!("sampler {} {}", source.name(), kind.as_str())),
                on_state: Arc::clone(&on_state),
            };
            tasks.spawn(async move {
                sampler.run().await;
                "sampler"
            });
        }
        tasks.spawn(renew(self.index.clone(), self.queue.clone()));
        for _ in 0..NUDGERS {
            let nudger = self.cluster.nudger.clone();
            tasks.spawn(async move {
                nudger.run().await;
                "nudger"
            });
        }

        let reconciler = Arc::new(Reconciler {
            cluster: Arc::clone(&self.cluster),
            sources: self.settings.sources.clone(),
            propagation: self.settings.propagation,
            index: self.index.clone(),
            queue: self.queue.clone(),
            wake,
            metrics: self.metrics.clone(),
        });
        tasks.spawn(pump(Arc::clone(&reconciler), self.queue.clone()));
        let mut writers = JoinSet::new();
        let posts = [(Writes::All, WRITERS), (Writes::Safe, SAFE_WRITERS)];
        let posts = posts
            .into_iter()
            .flat_map(|(writes, number)| std::iter::repeat_n(writes, number));
        for (number, writes) in posts.enumerate() {
            let (reconciler, queue, over) = (Arc::clone(&reconciler), self.queue.clone(), over.clone());
            let heartbeat = self.heartbeats.of(format!("writer {number}"));
            writers.spawn(heartbeat.accompany(async move {
                write(&reconciler, &queue, writes, &over).await;
                "writer"
            }));
        }
        (tasks, writers)
    }

    /// Events about a source go to the operator's pod.
    fn tell_operator(&self) -> OnSourceState {
        let pod = NamespacedName::new(&self.identity.namespace, &self.identity.pod);
        let cluster = Arc::clone(&self.cluster);
        Arc::new(move |source, failing| {
            let notice = match failing {
                Some(why) => Notice {
                    severity: Severity::Warning,
                    reason: "SourceFailing",
                    action: "Read",
                    note: format!("source {source} fails for all its targets: {why}"),
                },
                None => Notice {
                    severity: Severity::Normal,
                    reason: "SourceAnswers",
                    action: "Read",
                    note: format!("source {source} answers again"),
                },
            };
            cluster.events.about_operator(&pod, &notice);
        })
    }
}

/// Hands every policy that something changed for to the queue; at first every policy there is, and what gone ones left.
async fn pump(reconciler: Arc<Reconciler>, queue: WriteQueue) -> &'static str {
    let cluster = &reconciler.cluster;
    let orphans = cluster.outputs.orphans();
    let owners = orphans
        .iter()
        .filter_map(|record| Some(record.owner.as_ref()?.policy.clone()));
    let mut changed: BTreeSet<_> = cluster.policies.keys().into_iter().chain(owners).collect();
    loop {
        for policy in changed {
            let lane = reconciler.lane(&policy);
            queue.push(policy, lane);
        }
        changed = cluster.changes.take().await;
    }
}

/// Hands every policy whose documents are to be renewed to the queue.
async fn renew(index: Index, queue: WriteQueue) -> &'static str {
    let mut tick = interval(RENEWAL_PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        for policy in index.renewals(words::now()) {
            queue.push(policy, Lane::Rest);
        }
    }
}

/// Takes work from the queue until `over`; what is begun is finished.
async fn write(reconciler: &Reconciler, queue: &WriteQueue, writes: Writes, over: &CancellationToken) {
    const IDLE: Duration = Duration::from_secs(10);
    loop {
        heartbeat::beat();
        let work = tokio::select! {
            biased;
            () = over.cancelled() => return,
            work = timeout(IDLE, queue.pop(writes)) => work,
        };
        if let Ok(work) = work {
            let span =
                info_span!(target: TRACES, "reconcile", policy = %work.policy, lane = work.lane.as_str());
            let outcome = reconciler.reconcile(&work).instrument(span).await;
            queue.finish(&work, outcome);
        }
    }
}
