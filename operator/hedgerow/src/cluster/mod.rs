//! Everything that talks to the Kubernetes API.
//!
//! - What is: [`Policies`], [`Outputs`] and [`Stops`] are filled by watches; whoever is concerned by a change is told
//!   through [`Cluster::changes`].
//! - What shall be: [`Publisher`], [`StatusWriter`], [`Nudger`] and [`Recorder`] write, each write behind the [`Fence`] of the lease.
//!   In which order is the matter of the [`WriteQueue`].
//! - Who may: [`Leadership`], and [`Cluster::acting`], which also waits for the caches.

mod bases;
mod caches;
mod changes;
mod claims;
mod client;
mod events;
mod fence;
mod follow;
mod lease;
mod name;
mod nudge;
mod outputs;
mod policies;
mod publish;
mod queue;
mod record;
mod schema;
mod scope;
mod status;
mod stops;
mod write;

use std::fmt::Debug;

use kube::Api;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::bases::{BaseError, BaseRef};
pub use self::caches::{Caches, Watched};
pub use self::changes::Changes;
pub use self::claims::{Claimant, winner};
pub use self::client::{Clients, WRITE_TIMEOUT};
pub use self::events::{Notice, Recorder, Severity};
pub use self::fence::{BootTime, Fence, NotLeading};
pub use self::lease::{Leadership, LeaseSettings};
pub use self::name::{NamespacedName, PolicyKey};
pub use self::nudge::{NudgeLimits, Nudger, PodLabels};
pub use self::outputs::Outputs;
pub use self::policies::{Policies, PolicyEntry};
pub use self::publish::{
    Change, DesiredConfigMap, DesiredForm, EndOfLife, Fault, Instead, PublishError, Published, Publisher,
    Retirement,
};
pub use self::queue::{Lane, Outcome, Work, WriteQueue, WriteRate, Writes};
pub use self::record::{OutputRecord, Owner};
pub use self::schema::{SchemaError, check_served_schema};
pub use self::scope::Scope;
pub use self::status::{StatusWriter, set_condition};
pub use self::stops::{Breadth, StopOrder, Stops};
pub use self::write::{OnWrite, WriteError, WriteKind};

use self::follow::{Cache, Source, follow};
use self::lease::Candidate;
use self::write::Writer;

/// What the operator is in its cluster.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Which namespaces it works in.
    pub scope: Scope,
    /// The namespace that it runs in: of the lease, and of the stop for everything.
    pub operator_namespace: String,
    /// The id of this install. ConfigMaps of another one are not touched.
    pub instance: String,
    /// This process by name, in events: the pod's name.
    pub reporter: String,
    /// The lease to compete for; `None` for a single replica that needs none.
    pub lease: Option<LeaseSettings>,
    /// How many pods may be nudged; `None`: none.
    pub nudge: Option<NudgeLimits>,
}

/// The cluster: what is in it, and the ways to change it.
pub struct Cluster {
    /// The policies.
    pub policies: Policies,
    /// The ConfigMaps that carry documents.
    pub outputs: Outputs,
    /// The stops that people ordered.
    pub stops: Stops,
    /// Policies that something changed for: their spec or annotations, a stop, one of their ConfigMaps, a rival. Also
    /// those that are gone. One task takes from it.
    pub changes: Changes<PolicyKey>,
    /// Writes ConfigMaps.
    pub publisher: Publisher,
    /// Writes status.
    pub status: StatusWriter,
    /// Writes events.
    pub events: Recorder,
    /// Annotates pods.
    pub nudger: Nudger,
    /// Whether the caches are complete: readiness.
    pub caches: Caches,
    clients: Clients,
    settings: ClusterSettings,
    fence: Fence,
    on_write: OnWrite,
    leadership: watch::Sender<Leadership>,
    acting: watch::Sender<bool>,
}

impl Cluster {
    /// The cluster that `clients` reach. Does nothing yet: see [`spawn`](Self::spawn). `caches` will tell how the watches
    /// go, and `on_write` is told of each write.
    pub fn new(clients: Clients, settings: ClusterSettings, caches: Caches, on_write: OnWrite) -> Self {
        let (fence, leadership) = match settings.lease {
            Some(_) => (Fence::closed(), Leadership::Standby),
            None => (Fence::open(), Leadership::Leading { term: 1 }),
        };
        let writer = Writer::new(fence.clone(), on_write.clone());
        let changes = Changes::default();
        let policies = Policies::new(changes.clone());
        let outputs = Outputs::new(&settings.instance, policies.clone(), changes.clone());
        let stops = Stops::new(&settings.operator_namespace, policies.clone(), changes.clone());
        let writes = &clients.writes;
        let nudger = Nudger::new(writes.clone(), writer.clone(), changes.clone(), settings.nudge);
        Self {
            publisher: Publisher::new(
                writes.clone(),
                writer.clone(),
                settings.instance.clone(),
                policies.clone(),
                outputs.clone(),
                nudger.clone(),
            ),
            status: StatusWriter::new(writes.clone(), writer.clone()),
            nudger,
            events: Recorder::new(writes.clone(), writer, settings.reporter.clone()),
            caches,
            policies,
            outputs,
            stops,
            changes,
            clients,
            settings,
            fence,
            on_write,
            leadership: watch::Sender::new(leadership),
            acting: watch::Sender::new(false),
        }
    }

    /// Whether this process leads.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Whether this process leads and its caches reached a list that was made after it won the lease. Only then is what
    /// it knows newer than the last write of the leader before it: act while this is true, and not otherwise.
    pub fn acting(&self) -> watch::Receiver<bool> {
        self.acting.subscribe()
    }

    /// The fence of the lease, for what is written elsewhere.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The client for reads.
    pub fn reads(&self) -> &kube::Client {
        &self.clients.reads
    }

    /// Starts the watches, the competition for the lease, and the writing of events. Each task returns its name when it ends: only the lease's does
    /// so as it should, after `release`; cancel that last, when nothing is being written any longer. Any other end, or a
    /// panic, is a fault, and the process should end too.
    pub fn spawn(&self, release: CancellationToken) -> JoinSet<&'static str> {
        let mut tasks = JoinSet::new();
        if let Some(lease) = &self.settings.lease {
            let candidate = Candidate::new(
                Api::namespaced(self.clients.writes.clone(), &self.settings.operator_namespace),
                lease.clone(),
                self.fence.clone(),
                self.on_write.clone(),
                self.leadership.clone(),
                self.caches.slot("Lease", Some(&self.settings.operator_namespace)),
            );
            tasks.spawn(async move {
                candidate.run(release).await;
                "lease"
            });
        }
        let reads = &self.clients.reads;
        let scope = &self.settings.scope;
        for namespace in scope.watches(None) {
            self.watch(
                &mut tasks,
                policies::source(reads, namespace.clone()),
                self.policies.clone(),
            );
            self.watch(
                &mut tasks,
                outputs::source(reads, namespace),
                self.outputs.clone(),
            );
        }
        for namespace in scope.watches(Some(&self.settings.operator_namespace)) {
            self.watch(&mut tasks, stops::source(reads, namespace), self.stops.clone());
        }
        let events = self.events.clone();
        tasks.spawn(async move {
            events.run().await;
            "events"
        });
        tasks.spawn(keep_acting(
            self.caches.clone(),
            self.leadership.subscribe(),
            self.acting.clone(),
        ));
        tasks
    }

    fn watch<C>(&self, tasks: &mut JoinSet<&'static str>, source: Source<C::Object>, cache: C)
    where
        C: Cache + 'static,
        C::Object: Clone + Debug + DeserializeOwned + Sync + 'static,
    {
        let slot = self.caches.slot(source.what, source.namespace.as_deref());
        let leadership = self.leadership.subscribe();
        let events = self.events.clone();
        let pod = NamespacedName::new(&self.settings.operator_namespace, &self.settings.reporter);
        let name = source.what;
        tasks.spawn(async move {
            let on_news = Box::new(move |notice: &Notice| events.about_operator(&pod, notice));
            follow(source, &cache, slot, leadership, on_news).await;
            name
        });
    }
}

/// Keeps [`Cluster::acting`] true to leadership and caches.
async fn keep_acting(
    caches: Caches,
    mut leadership: watch::Receiver<Leadership>,
    acting: watch::Sender<bool>,
) -> &'static str {
    let mut listed = caches.subscribe();
    loop {
        let may_act = caches.may_act(*leadership.borrow_and_update());
        acting.send_if_modified(|now| std::mem::replace(now, may_act) != may_act);
        let changed = tokio::select! {
            changed = leadership.changed() => changed,
            changed = listed.changed() => changed,
        };
        if changed.is_err() {
            return "acting";
        }
    }
}
