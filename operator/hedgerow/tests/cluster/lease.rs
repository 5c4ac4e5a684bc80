//! Who leads, and when nobody may write.

use std::time::Duration;

use hedgerow::cluster::{LeaseSettings, NotLeading, PublishError, SchemaError, check_served_schema};
use hedgerow_tests::{Cluster, Namespace};
use k8s_openapi::api::coordination::v1::Lease;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::scene::{
    NOW, PATIENCE, View, clients, control_plane, create_policy, desired, namespace, settings,
};

async fn candidate(namespace: &Namespace, identity: &str) -> View {
    let mut settings = settings(
        &[namespace.name()],
        Some(LeaseSettings {
            name: "hedgerow".into(),
            identity: identity.into(),
        }),
    );
    settings.operator_namespace = namespace.name().to_owned();
    View::start(control_plane().await, settings).await
}

async fn until_acting(view: &View) {
    tokio::time::timeout(PATIENCE, view.acting().wait_for(|acting| *acting))
        .await
        .expect("it acts in time")
        .unwrap();
}

#[tokio::test]
async fn one_leads_and_another_follows_at_once_when_it_stops() {
    let namespace = namespace("lease").await;
    let owner = create_policy(&namespace, "kb").await;
    let mut first = candidate(&namespace, "first").await;
    until_acting(&first).await;
    let second = candidate(&namespace, "second").await;
    second
        .sees("the standby is ready", |view| view.caches.synced())
        .await;

    assert!(first.leadership().borrow().leads());
    assert!(!second.leadership().borrow().leads());
    assert_eq!(second.fence().check(), Err(NotLeading));
    let refused = second.publisher.publish(&desired(&owner, 512.0), NOW).await;
    assert_eq!(refused, Err(PublishError::NotLeading));
    first
        .publisher
        .publish(&desired(&owner, 512.0), NOW)
        .await
        .unwrap();

    first.release.cancel();
    assert_eq!(first.tasks.join_next().await.unwrap().unwrap(), "lease");
    assert_eq!(
        first.fence().check(),
        Err(NotLeading),
        "who gave it back does not write"
    );
    let freed = namespace.api::<Lease>().get("hedgerow").await.unwrap();
    let holder = freed.spec.unwrap().holder_identity;
    assert!(holder.is_none_or(|holder| holder != "first"));

    // Sooner than the 15 s after which a dead holder's lease may be taken.
    tokio::time::timeout(
        Duration::from_secs(10),
        second.acting().wait_for(|acting| *acting),
    )
    .await
    .expect("the other one follows at once")
    .unwrap();
    let seen = second.outputs.written_for(&owner.uid);
    assert_eq!(seen.len(), 1, "it knows what the leader before it wrote");
}

/// The Role that the chart ships names the Lease; so a configuration that names another is a mistake.
#[tokio::test]
async fn a_replica_that_may_not_use_its_lease_is_not_ready_and_says_what_to_do() {
    let namespace = namespace("lease-denied").await;
    let role = json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "hedgerow" } },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "hedgerow" },
            "rules": [
                { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"] },
                {
                    "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["hedgerow"],
                    "verbs": ["get", "update"],
                },
                { "apiGroups": ["", "hedgerow.dev"], "resources": ["configmaps", "hedgepolicies"], "verbs": ["list", "watch"] },
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "hedgerow" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hedgerow" },
            "subjects": [{ "kind": "ServiceAccount", "name": "hedgerow", "namespace": namespace.name() }],
        },
    ]});
    namespace.apply(&role.to_string()).await.unwrap();
    let admin = control_plane().await.admin();
    let kubeconfig = control_plane().await.folder().join("lease-denied.kubeconfig");
    let account = admin
        .of_service_account(namespace.name(), "hedgerow", kubeconfig)
        .await
        .unwrap();
    let replica = async |lease: &str| {
        let lease = LeaseSettings {
            name: lease.into(),
            identity: "only".into(),
        };
        let mut settings = settings(&[namespace.name()], Some(lease));
        settings.operator_namespace = namespace.name().to_owned();
        View::by(clients(account.kubeconfig()).await, settings)
    };

    let denied = replica("another-name").await;
    denied
        .sees("what to do", |view| {
            let missing = view.caches.missing();
            missing.len() == 1
                && missing[0].contains("another-name")
                && missing[0].contains("leaderElection.lease")
        })
        .await;
    assert!(!denied.caches.synced());

    let allowed = replica("hedgerow").await;
    allowed.sees("it is ready", |view| view.caches.synced()).await;
    until_acting(&allowed).await;
}

/// The API server stalls with its connections open, which no client notices by itself.
#[tokio::test]
async fn a_stalled_api_server_closes_the_fence_before_another_may_lead() {
    let control_plane = Cluster::start().await.unwrap();
    let lease = LeaseSettings {
        name: "hedgerow".into(),
        identity: "only".into(),
    };
    let view = View::start(&control_plane, settings(&[], Some(lease))).await;
    let missing = check_served_schema(view.reads()).await;
    assert!(matches!(missing, Err(SchemaError::NotServed)), "{missing:?}");
    let mut leadership = view.leadership();
    tokio::time::timeout(PATIENCE, leadership.wait_for(|now| now.leads()))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(view.fence().check(), Ok(()));

    let server = control_plane.pids()[0];
    let server = Pid::from_raw(i32::try_from(server).unwrap()).unwrap();
    kill_process(server, Signal::STOP).unwrap();
    let stalled = std::time::Instant::now();
    let lost = async {
        let lost = leadership.wait_for(|now| !now.leads());
        tokio::time::timeout(PATIENCE, lost).await.is_ok()
    };
    let closed = async {
        while view.fence().check().is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stalled.elapsed()
    };
    let (lost, closed) = tokio::join!(lost, closed);
    kill_process(server, Signal::CONT).unwrap();

    assert!(lost, "it says that it does not lead any longer");
    // 10 s after a renewal that was sent before the stall; a write that began just before ends 5 s later at most, which is
    // when another may take the lease.
    assert!(closed <= Duration::from_millis(10_100), "{closed:?}");
    tokio::time::timeout(PATIENCE, leadership.wait_for(|now| now.leads()))
        .await
        .unwrap()
        .unwrap();
}
