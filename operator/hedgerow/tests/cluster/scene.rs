//! What the tests share: one control plane, and the operator's view of a namespace.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use hedgerow::cluster::{
    Caches, Clients, Cluster, ClusterSettings, DesiredConfigMap, EndOfLife, LeaseSettings, NamespacedName,
    Owner, PolicyEntry, PolicyKey, PublishError, Published, Scope, WriteQueue, WriteRate,
};
use hedgerow::index::Index;
use hedgerow::metrics::Metrics;
use hedgerow::reconcile::Reconciler;
use hedgerow::settings::Settings;
use hedgerow_api::HedgePolicy;
use hedgerow_config::{Identity, Limits, NativeDocument, Validity};
use hedgerow_tests::{Namespace, eventually};
use hedgerow_tuner::{Hedging, Orders, Reason, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const INSTANCE: &str = "blue";
pub(crate) const CONFIG_MAP: &str = "kb-hedging";
pub(crate) const KEY: &str = "shard-read.json";
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// When the documents of these tests are written, unless they say otherwise.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// The control plane of this run, with our CRD.
pub(crate) async fn control_plane() -> &'static hedgerow_tests::Cluster {
    static CLUSTER: OnceCell<hedgerow_tests::Cluster> = OnceCell::const_new();
    CLUSTER
        .get_or_init(async || {
            let cluster = hedgerow_tests::Cluster::start().await.unwrap();
            println!("control plane: {}", cluster.folder().display());
            install_crd(&cluster).await;
            cluster
        })
        .await
}

async fn install_crd(cluster: &hedgerow_tests::Cluster) {
    let kubectl = cluster.kubectl().unwrap();
    kubectl.apply(&hedgerow_api::crd_yaml().unwrap()).await.unwrap();
    let crd = "crd/hedgepolicies.hedgerow.dev";
    kubectl
        .run(&["wait", "--for=condition=Established", crd])
        .await
        .unwrap();
    eventually("the API server serves policies", PATIENCE, async || {
        let kinds = kubectl
            .run(&["api-resources", "--api-group=hedgerow.dev"])
            .await?;
        ensure!(kinds.contains("hedgepolicies"), "it serves {kinds}");
        Ok(())
    })
    .await
    .unwrap();
}

/// A namespace of the shared control plane, for one test.
pub(crate) async fn namespace(name: &str) -> Namespace {
    control_plane().await.namespace(name).await.unwrap()
}

pub(crate) async fn clients(kubeconfig: &Path) -> Clients {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Clients::new(config.unwrap()).unwrap()
}

/// An operator's view of the cluster; its watches end with it.
pub(crate) struct View {
    cluster: Arc<Cluster>,
    pub(crate) release: CancellationToken,
    pub(crate) tasks: JoinSet<&'static str>,
}

impl Deref for View {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

pub(crate) fn settings(namespaces: &[&str], lease: Option<LeaseSettings>) -> ClusterSettings {
    ClusterSettings {
        scope: Scope::Namespaces(namespaces.iter().map(|&name| name.to_owned()).collect()),
        operator_namespace: "default".into(),
        instance: INSTANCE.into(),
        reporter: "hedgerow-0".into(),
        lease,
        nudge: None,
    }
}

impl View {
    /// An operator that works in `namespace` alone, without a lease, and knows all there is in it.
    pub(crate) async fn of(namespace: &Namespace) -> Self {
        Self::with(settings(&[namespace.name()], None)).await
    }

    pub(crate) async fn with(settings: ClusterSettings) -> Self {
        let view = Self::start(control_plane().await, settings).await;
        eventually("the caches are synced", PATIENCE, async || {
            ensure!(view.caches.synced(), "missing {:?}", view.caches.missing());
            Ok(())
        })
        .await
        .unwrap();
        view
    }

    pub(crate) async fn start(control_plane: &hedgerow_tests::Cluster, settings: ClusterSettings) -> Self {
        Self::by(clients(control_plane.admin().kubeconfig()).await, settings)
    }

    /// An operator that has the rights of these clients.
    pub(crate) fn by(clients: Clients, settings: ClusterSettings) -> Self {
        let cluster = Cluster::new(clients, settings, Caches::default(), Arc::new(|_, _| {}));
        let cluster = Arc::new(cluster);
        let release = CancellationToken::new();
        let tasks = cluster.spawn(release.clone());
        Self {
            cluster,
            release,
            tasks,
        }
    }

    /// What brings policies to what they shall be, with a source that any namespace may name: 2 targets each.
    pub(crate) fn reconciler(&self) -> Reconciler {
        let sources = "sources: [{ name: default, url: 'http://127.0.0.1:1', namespaces: ['*'], \
                       ceilings: { maxTargetsPerNamespace: 2 } }]";
        let (index, queue) = (Index::default(), WriteQueue::new(WriteRate::default()));
        Reconciler {
            cluster: Arc::clone(&self.cluster),
            sources: Settings::parse("operator.yaml", sources).unwrap().sources,
            propagation: Duration::from_secs(90),
            metrics: Metrics::new(index.clone(), queue.clone(), self.caches.clone()),
            index,
            queue,
            wake: Arc::default(),
        }
    }

    /// Publishes what [`desired`] says.
    pub(crate) async fn publish(&self, owner: &Owner, delay_ms: f64) -> Result<Published, PublishError> {
        self.publisher.publish(&desired(owner, delay_ms), NOW).await
    }

    /// Waits until `seen` holds.
    pub(crate) async fn sees(&self, what: &str, seen: impl Fn(&Self) -> bool) {
        let probe = async || {
            ensure!(seen(self), "not yet");
            Ok(())
        };
        eventually(what, PATIENCE, probe).await.unwrap();
    }

    /// A newer version of the policy than `known`, once this view has seen it.
    pub(crate) async fn sees_newer(&self, known: &PolicyEntry) -> Arc<PolicyEntry> {
        let newer = |seen: &Arc<PolicyEntry>| seen.resource_version != known.resource_version;
        let probe = async || self.policies.get(&known.key).filter(newer).context("not yet");
        eventually("a newer version of the policy", PATIENCE, probe)
            .await
            .unwrap()
    }

    /// The policy, once this view has seen it.
    pub(crate) async fn policy(&self, key: &PolicyKey) -> Arc<PolicyEntry> {
        eventually("the policy is seen", PATIENCE, async || {
            self.policies.get(key).with_context(|| format!("no {key}"))
        })
        .await
        .unwrap()
    }

    /// Waits until this view knows the ConfigMap as it is, and returns that.
    pub(crate) async fn caught_up(&self, namespace: &Namespace, config_map: &str) -> ConfigMap {
        let name = NamespacedName::new(namespace.name(), config_map);
        eventually("the ConfigMap is seen as it is", PATIENCE, async || {
            let live = namespace.api::<ConfigMap>().get(config_map).await?;
            let seen = self.outputs.get(&name).context("not seen")?;
            let version = live.metadata.resource_version.clone().unwrap_or_default();
            ensure!(
                seen.resource_version == version,
                "at {}, not {version}",
                seen.resource_version
            );
            Ok(live)
        })
        .await
        .unwrap()
    }
}

/// A namespace with the policy `kb`, and the view of an operator that has published nothing yet.
pub(crate) async fn stage(name: &str) -> (Namespace, Owner, View) {
    let namespace = namespace(name).await;
    let owner = create_policy(&namespace, "kb").await;
    let view = View::of(&namespace).await;
    (namespace, owner, view)
}

/// A namespace with the policy `kb`, and the view of an operator that has published a delay of 512 ms for it.
pub(crate) async fn published_stage(name: &str) -> (Namespace, Owner, View) {
    let (namespace, owner, view) = stage(name).await;
    view.publish(&owner, 512.0).await.unwrap();
    view.caught_up(&namespace, CONFIG_MAP).await;
    (namespace, owner, view)
}

/// A policy that publishes to [`CONFIG_MAP`].
pub(crate) fn policy(name: &str) -> Value {
    json!({
        "apiVersion": "hedgerow.dev/v1alpha1", "kind": "HedgePolicy", "metadata": { "name": name },
        "spec": {
            "targets": [{
                "name": "shard-read", "idempotent": true, "deadline": "1s",
                "latency": { "metric": "shard_read_duration_seconds", "measures": "LogicalCall" },
            }],
            "publish": [{ "configMap": CONFIG_MAP, "key": KEY, "targets": [{ "name": "shard-read" }] }],
        },
    })
}

/// Creates the policy, and returns it as the owner of ConfigMaps.
pub(crate) async fn create_policy(namespace: &Namespace, name: &str) -> Owner {
    namespace.apply(&policy(name).to_string()).await.unwrap();
    let created = namespace.api::<HedgePolicy>().get(name).await.unwrap();
    Owner {
        policy: PolicyKey::new(namespace.name(), name),
        uid: created.metadata.uid.unwrap(),
    }
}

/// A document that lets clients hedge, valid from `issued` for an hour, or for ever.
pub(crate) fn hedging(owner: &Owner, delay_ms: f64, issued: Timestamp, expiry: Option<Duration>) -> String {
    let identity = Identity {
        policy: owner.policy.to_string(),
        policy_uid: owner.uid.clone(),
        target: "shard-read".into(),
    };
    let orders = Orders {
        hedging: Some(Hedging {
            delay_ms,
            min_remaining_ms: 150.0,
            percent: 10.0,
            min_per_second: 0.0,
        }),
        reason: Reason::Tuned,
    };
    let limits = Limits {
        deadline: Some(Duration::from_secs(1)),
        max_attempts: 2,
        max_concurrent: 100,
    };
    NativeDocument::new(&identity, &orders, &limits, 1, Validity::new(issued, expiry)).to_json()
}

/// What the policy wants under [`CONFIG_MAP`]: one document, tuned to `delay_ms`, that expires.
pub(crate) fn desired(owner: &Owner, delay_ms: f64) -> DesiredConfigMap {
    DesiredConfigMap {
        name: NamespacedName::new(&owner.policy.namespace, CONFIG_MAP),
        owner: owner.clone(),
        end_of_life: EndOfLife::Collected,
        documents: BTreeMap::from([(KEY.to_owned(), hedging(owner, delay_ms, NOW, Some(HOUR)))]),
        forms: BTreeMap::new(),
        memory: BTreeMap::from([("shard-read".to_owned(), hedgerow_tuner::Memory::default())]),
        renew: false,
    }
}

/// What is remembered of a target whose clients hedge at full budget.
pub(crate) fn remembers_hedging() -> hedgerow_tuner::Memory {
    serde_json::from_value(json!({
        "written": NOW, "revision": 7,
        "orders": {
            "hedging": { "delayMs": 512.0, "minRemainingMs": 150.0, "percent": 10.0, "minPerSecond": 0.0 },
            "reason": "Tuned",
        },
        "phase": { "Full": { "since": NOW.minus(HOUR) } },
    }))
    .unwrap()
}

/// The document under a key of a ConfigMap.
pub(crate) fn document(config_map: &ConfigMap, key: &str) -> Option<NativeDocument> {
    let text = config_map.data.as_ref()?.get(key)?;
    Some(NativeDocument::parse(text.as_bytes()).unwrap())
}

/// The object as the API server has it, managed fields and all.
pub(crate) async fn bytes(namespace: &Namespace, config_map: &str) -> String {
    let arguments = [
        "get",
        "configmap",
        config_map,
        "-o",
        "json",
        "--show-managed-fields",
    ];
    namespace.kubectl(&arguments).await.unwrap()
}

/// Whether the server holds no ConfigMap of the name that the tests publish.
pub(crate) async fn is_absent(namespace: &Namespace) -> bool {
    let config_maps = namespace.api::<ConfigMap>();
    config_maps.get_opt(CONFIG_MAP).await.unwrap().is_none()
}
