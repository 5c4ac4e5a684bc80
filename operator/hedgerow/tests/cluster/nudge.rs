//! Pods that are to look at a safer document at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use hedgerow::cluster::{
    Caches, Change, Cluster, ClusterSettings, NamespacedName, NudgeLimits, PodLabels, PolicyKey,
    PublishError, WriteKind,
};
use hedgerow_api::names::NUDGED_ANNOTATION;
use hedgerow_tests::{Credentials, Helm, HelmVersion, Namespace, eventually, scratch};
use hedgerow_tuner::{Memory, Reason};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::sync::mpsc;

use crate::scene::{
    CONFIG_MAP, KEY, NOW, PATIENCE, View, clients, control_plane, create_policy, desired, document,
    namespace, remembers_hedging, settings, stage,
};

/// An account with the rights that the chart grants for this, in one namespace, and with no others.
async fn account(namespace: &Namespace) -> Credentials {
    let values = json!({
        "image": { "repository": "localhost/hedgerow" }, "nudge": true, "watchNamespaces": [namespace.name()],
        "sources": [{ "name": "default", "url": "http://localhost", "namespaces": ["*"] }],
    });
    let helm = Helm::new(HelmVersion::V4).unwrap();
    let shipped = helm.objects("hedgerow", namespace.name(), &values).await.unwrap();
    let role = shipped
        .iter()
        .find(|object| object["kind"] == "Role" && object["metadata"]["name"] == "hedgerow-nudge")
        .unwrap();
    namespace.apply(&role.to_string()).await.unwrap();
    let (home, binding) = (namespace.name(), "nudger");
    for object in [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": binding } }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": binding },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hedgerow-nudge" },
            "subjects": [{ "kind": "ServiceAccount", "name": binding, "namespace": home }],
        }),
    ] {
        namespace.apply(&object.to_string()).await.unwrap();
    }
    let kubeconfig = scratch("nudger").unwrap().join("kubeconfig");
    let admin = control_plane().await.admin();
    admin.of_service_account(home, binding, kubeconfig).await.unwrap()
}

/// Pods, as objects: there is no node here that would run them.
async fn pods(namespace: &Namespace, names: &[&str], app: &str) {
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
    namespace.apply(&account.to_string()).await.unwrap();
    for name in names {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": app } },
            "spec": { "containers": [{ "name": "main", "image": "localhost/main:1" }] },
        });
        namespace.apply(&pod.to_string()).await.unwrap();
    }
}

/// What each pod that was nudged was told.
async fn nudged(namespace: &Namespace) -> BTreeMap<String, String> {
    let pods = namespace.api::<Pod>().list(&Default::default()).await.unwrap();
    let told = |pod: &Pod| pod.annotations().get(NUDGED_ANNOTATION).cloned();
    pods.iter()
        .filter_map(|pod| Some((pod.name_any(), told(pod)?)))
        .collect()
}

fn policy(namespace: &Namespace) -> PolicyKey {
    PolicyKey::new(namespace.name(), "kb")
}

fn app(name: &str) -> PodLabels {
    [("app".to_owned(), name.to_owned())].into()
}

/// An operator with these rights, which nudges as long as it is kept, and what becomes of each pod.
struct Nudging {
    cluster: Arc<Cluster>,
    outcomes: mpsc::UnboundedReceiver<&'static str>,
    task: tokio::task::JoinHandle<()>,
}

impl Nudging {
    async fn start(namespace: &Namespace, credentials: &Credentials, limits: Option<NudgeLimits>) -> Self {
        let (told, outcomes) = mpsc::unbounded_channel();
        let settings = ClusterSettings {
            nudge: limits,
            ..settings(&[namespace.name()], None)
        };
        let on_write = Arc::new(move |kind, outcome| {
            if kind == WriteKind::Nudge {
                let _ = told.send(outcome);
            }
        });
        let cluster = Cluster::new(
            clients(credentials.kubeconfig()).await,
            settings,
            Caches::default(),
            on_write,
        );
        let nudger = cluster.nudger.clone();
        Self {
            cluster: Arc::new(cluster),
            outcomes,
            task: tokio::spawn(async move { nudger.run().await }),
        }
    }

    /// The policy names the pods of the app `front` for its ConfigMap, and those of `other` for the one of that name.
    fn note_readers(&self, namespace: &Namespace) {
        let output = |name: &str| NamespacedName::new(namespace.name(), name);
        let readers = [
            (output(CONFIG_MAP), vec![app("front")]),
            (output("other"), vec![app("other")]),
        ];
        self.cluster
            .nudger
            .note_readers(&policy(namespace), readers.into());
    }

    fn is_safer(&self, namespace: &Namespace, config_map: &str, version: &str) {
        let name = NamespacedName::new(namespace.name(), config_map);
        self.cluster.nudger.is_safer(&name, version);
    }

    async fn outcome(&mut self) -> &'static str {
        let next = tokio::time::timeout(PATIENCE, self.outcomes.recv()).await;
        next.unwrap().unwrap()
    }
}

impl Drop for Nudging {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn the_right_to_nudge_a_pod_is_no_right_to_change_what_it_runs() {
    let namespace = namespace("nudge-right").await;
    let credentials = account(&namespace).await;
    pods(&namespace, &["front"], "front").await;
    let theirs: Api<Pod> = Api::namespaced(credentials.client().await.unwrap(), namespace.name());
    let before = theirs.get("front").await;
    assert!(before.is_err(), "not even to read one: {before:?}");
    let before = namespace.api::<Pod>().get("front").await.unwrap();

    let mischief = json!({
        "metadata": { "annotations": { "hedgerow.dev/nudged": "kb@1" }, "ownerReferences": [] },
        "spec": {
            "containers": [{ "name": "main", "image": "localhost/evil:1", "command": ["evil"] }],
            "serviceAccountName": "admin", "activeDeadlineSeconds": 1,
        },
    });
    let params = PatchParams::default();
    for patch in [Patch::Merge(&mischief), Patch::Strategic(&mischief)] {
        // Taken or not, nothing of it comes through but the annotation.
        let _ = theirs.patch_status("front", &params, &patch).await;
        let after = namespace.api::<Pod>().get("front").await.unwrap();
        assert_eq!(after.spec, before.spec);
    }
    assert_eq!(nudged(&namespace).await["front"], "kb@1");

    let denied = theirs.patch("front", &params, &Patch::Merge(&mischief)).await;
    assert!(matches!(denied, Err(kube::Error::Api(status)) if status.code == 403));
}

#[tokio::test]
async fn the_pods_that_are_named_are_annotated_and_no_others() {
    let namespace = namespace("nudge").await;
    let credentials = account(&namespace).await;
    pods(&namespace, &["front-1", "front-2", "front-ended"], "front").await;
    pods(&namespace, &["other"], "other").await;
    let ended = r#"{"status": {"phase": "Succeeded"}}"#;
    let arguments = [
        "patch",
        "pod",
        "front-ended",
        "--subresource=status",
        "--type=merge",
        "-p",
        ended,
    ];
    namespace.kubectl(&arguments).await.unwrap();

    let mut nudging = Nudging::start(&namespace, &credentials, Some(NudgeLimits::default())).await;
    nudging.note_readers(&namespace);
    nudging.is_safer(&namespace, CONFIG_MAP, "7");
    nudging.is_safer(&namespace, "other", "8");

    for _ in 0..3 {
        assert_eq!(nudging.outcome().await, "ok");
    }
    let ours = format!("{CONFIG_MAP}@7");
    let expected = [
        ("front-1", ours.as_str()),
        ("front-2", ours.as_str()),
        ("other", "other@8"),
    ]
    .map(|(name, told)| (name.to_owned(), told.to_owned()));
    assert_eq!(nudged(&namespace).await, expected.into());
    assert_eq!(nudging.cluster.nudger.refusal(&policy(&namespace)), None);
}

#[tokio::test]
async fn pods_beyond_the_limit_are_counted_and_left() {
    let namespace = namespace("nudge-limit").await;
    let credentials = account(&namespace).await;
    pods(&namespace, &["front-1", "front-2", "front-3"], "front").await;
    pods(&namespace, &["other"], "other").await;
    let limits = NudgeLimits {
        pods: 2,
        ..NudgeLimits::default()
    };
    let mut nudging = Nudging::start(&namespace, &credentials, Some(limits)).await;
    nudging.note_readers(&namespace);
    nudging.is_safer(&namespace, CONFIG_MAP, "7");
    nudging.is_safer(&namespace, "other", "8");
    let mut outcomes = Vec::new();
    for _ in 0..4 {
        outcomes.push(nudging.outcome().await);
    }
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["ok", "ok", "ok", "skipped"]);
    let nudged = nudged(&namespace).await;
    assert!(nudged.len() == 3 && nudged.contains_key("other"), "{nudged:?}");
}

#[tokio::test]
async fn a_right_that_is_missing_is_told_until_it_is_granted() {
    let namespace = namespace("nudge-denied").await;
    pods(&namespace, &["front"], "front").await;
    let kubeconfig = scratch("nobody").unwrap().join("kubeconfig");
    let admin = control_plane().await.admin();
    let nobody = admin
        .of_service_account(namespace.name(), "default", kubeconfig)
        .await
        .unwrap();
    let nudging = Nudging::start(&namespace, &nobody, Some(NudgeLimits::default())).await;
    let (cluster, policy) = (&nudging.cluster, policy(&namespace));
    // Nothing is nudged yet: it is asked.
    nudging.note_readers(&namespace);
    let changed = tokio::time::timeout(PATIENCE, cluster.changes.take())
        .await
        .unwrap();
    assert!(changed.contains(&policy), "people are told: {changed:?}");
    let why = cluster.nudger.refusal(&policy).unwrap();
    assert!(why.contains("nudge: true") && why.contains("pods"), "{why}");
    assert!(nudged(&namespace).await.is_empty());

    let role = ["create", "rolebinding", "nudge", "--clusterrole=cluster-admin"];
    let account = format!("--serviceaccount={}:default", namespace.name());
    namespace
        .kubectl(&[&role[..], &[account.as_str()]].concat())
        .await
        .unwrap();
    eventually("what is granted is seen", PATIENCE, async || {
        nudging.is_safer(&namespace, CONFIG_MAP, "8");
        let changed = tokio::time::timeout(Duration::from_secs(2), cluster.changes.take()).await?;
        ensure!(changed.contains(&policy), "{changed:?}");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(cluster.nudger.refusal(&policy), None);
    assert_eq!(nudged(&namespace).await.len(), 1);
}

#[tokio::test]
async fn nobody_is_nudged_by_an_operator_that_was_not_told_to() {
    let namespace = namespace("nudge-unasked").await;
    let credentials = account(&namespace).await;
    pods(&namespace, &["front"], "front").await;
    let mut nudging = Nudging::start(&namespace, &credentials, None).await;
    nudging.note_readers(&namespace);
    nudging.is_safer(&namespace, CONFIG_MAP, "7");
    let why = nudging.cluster.nudger.refusal(&policy(&namespace)).unwrap();
    assert!(why.contains("nudge: true"), "{why}");
    nudging.task.abort();
    assert!(nudging.outcomes.try_recv().is_err());
    assert!(nudged(&namespace).await.is_empty());
}

#[tokio::test]
async fn publishing_tells_whether_clients_hedge_less_now() {
    let (namespace, owner, view) = stage("safer").await;
    let mut on = desired(&owner, 512.0);
    on.memory = [("shard-read".to_owned(), remembers_hedging())].into();
    let created = view.publisher.publish(&on, NOW).await.unwrap();
    assert!(!created.safer, "who was not hedged cannot be safer");
    let live = view.caught_up(&namespace, CONFIG_MAP).await;

    let mut off = on.clone();
    let mut memory: Memory = remembers_hedging();
    memory.went_off();
    off.memory = [("shard-read".to_owned(), memory)].into();
    let mut text = document(&live, KEY).unwrap();
    text.hedging = None;
    off.documents.insert(KEY.to_owned(), text.to_json());
    let switched = view.publisher.publish(&off, NOW).await.unwrap();
    assert!(switched.safer);
    view.caught_up(&namespace, CONFIG_MAP).await;

    let again = view.publisher.publish(&off, NOW).await.unwrap();
    assert!(!again.safer, "nothing was written");
    let back = view.publisher.publish(&on, NOW).await.unwrap();
    assert!(!back.safer && back.change == Change::Updated);
}

#[tokio::test]
async fn by_whatever_way_hedging_goes_off_the_pods_are_nudged() {
    let namespace = namespace("nudge-ways").await;
    let owner = create_policy(&namespace, "kb").await;
    pods(&namespace, &["front"], "front").await;
    let view = View::with(ClusterSettings {
        nudge: Some(NudgeLimits::default()),
        ..settings(&[namespace.name()], None)
    })
    .await;
    let nudger = view.nudger.clone();
    let worker = tokio::spawn(async move { nudger.run().await });
    let mut on = desired(&owner, 512.0);
    on.memory = [("shard-read".to_owned(), remembers_hedging())].into();
    view.nudger
        .note_readers(&owner.policy, [(on.name.clone(), vec![app("front")])].into());
    let mut crowded = on.clone();
    crowded.documents.insert("large".to_owned(), "x".repeat(1 << 20));

    let mut told = None;
    for way in ["write off", "no room", "retire", "release"] {
        // At first as at the beginning of a ramp: nobody comes to the whole budget in one step.
        for on in [&desired(&owner, 512.0), &on] {
            view.publisher.publish(on, NOW).await.unwrap();
            let live = view.caught_up(&namespace, CONFIG_MAP).await;
            assert!(document(&live, KEY).unwrap().hedging.is_some());
        }
        let publisher = &view.publisher;
        match way {
            "write off" => drop(
                publisher
                    .write_off(&on.name, &owner, Reason::Invalid, NOW)
                    .await
                    .unwrap(),
            ),
            "no room" => {
                let refused = publisher.publish(&crowded, NOW).await.unwrap_err();
                assert!(matches!(refused, PublishError::TooLarge { .. }), "{refused}");
            }
            "retire" => drop(publisher.retire(&on.name, &owner, NOW).await.unwrap()),
            _ => drop(publisher.release(&on.name, &owner, NOW).await.unwrap()),
        }
        let live = view.caught_up(&namespace, CONFIG_MAP).await;
        assert_eq!(document(&live, KEY).unwrap().hedging, None, "{way}");
        told = eventually(way, PATIENCE, async || {
            let now = nudged(&namespace).await.remove("front");
            ensure!(now.is_some() && now != told, "it is told {now:?}");
            Ok(now)
        })
        .await
        .unwrap();
    }
    worker.abort();
}
