//! What the watches tell.

use hedgerow::cluster::{Scope, check_served_schema};
use hedgerow_api::names::OFF_CONFIG_MAP;
use hedgerow_tests::eventually;

use crate::scene::{PATIENCE, View, create_policy, namespace, settings};

#[tokio::test]
async fn a_stop_is_told_to_the_policies_that_it_stops() {
    let (stopped, other) = (namespace("stopped").await, namespace("not-stopped").await);
    let policy = create_policy(&stopped, "kb").await.policy;
    let elsewhere = create_policy(&other, "kb").await.policy;
    let view = View::with(settings(&[stopped.name(), other.name()], None)).await;
    view.changes.take().await;

    let create = [
        "create",
        "configmap",
        OFF_CONFIG_MAP,
        "--from-literal=reason=INC-7",
    ];
    stopped.kubectl(&create).await.unwrap();

    let changed = tokio::time::timeout(PATIENCE, view.changes.take()).await.unwrap();
    assert_eq!(changed, [policy.clone()].into());
    let stop = view.stops.stop_for(&policy, &Default::default()).unwrap();
    assert_eq!(
        stop.message,
        format!("ConfigMap {}/hedgerow-off: INC-7", stopped.name())
    );
    assert_eq!(view.stops.stop_for(&elsewhere, &Default::default()), None);

    stopped
        .kubectl(&["delete", "configmap", OFF_CONFIG_MAP])
        .await
        .unwrap();
    let changed = tokio::time::timeout(PATIENCE, view.changes.take()).await.unwrap();
    assert_eq!(changed, [policy.clone()].into());
    assert_eq!(view.stops.stop_for(&policy, &Default::default()), None);
}

#[tokio::test]
async fn an_operator_for_the_whole_cluster_sees_every_namespace() {
    let namespace = namespace("whole").await;
    let policy = create_policy(&namespace, "kb").await.policy;
    let mut settings = settings(&[], None);
    settings.scope = Scope::Cluster;
    let view = View::with(settings).await;
    assert!(view.policies.get(&policy).is_some());
}

#[tokio::test]
async fn an_operator_for_one_namespace_sees_no_other() {
    let (mine, other) = (namespace("mine").await, namespace("other").await);
    let policy = create_policy(&other, "kb").await.policy;
    let view = View::of(&mine).await;
    assert!(view.policies.get(&policy).is_none());
}

#[tokio::test]
async fn a_change_of_spec_or_annotation_is_told_and_a_status_is_not() {
    let namespace = namespace("told").await;
    let owner = create_policy(&namespace, "kb").await;
    let view = View::of(&namespace).await;
    view.changes.take().await;

    let entry = view.policy(&owner.policy).await;
    let status = hedgerow_api::HedgePolicyStatus {
        observed_generation: Some(1),
        ..Default::default()
    };
    view.status.write(&entry, &status).await.unwrap();
    eventually("the status is seen", PATIENCE, async || {
        let seen = view.policy(&owner.policy).await;
        anyhow::ensure!(seen.resource_version != entry.resource_version);
        Ok(())
    })
    .await
    .unwrap();
    namespace
        .kubectl(&["annotate", "hedgepolicy", "kb", "hedgerow.dev/off="])
        .await
        .unwrap();

    let changed = tokio::time::timeout(PATIENCE, view.changes.take()).await.unwrap();
    assert_eq!(changed, [owner.policy.clone()].into());
    let seen = view.policy(&owner.policy).await;
    assert!(
        view.stops.stop_for(&seen.key, &seen.annotations).is_some(),
        "the change told was the annotation"
    );
}

#[tokio::test]
async fn the_served_schema_has_what_this_binary_needs() {
    let namespace = namespace("schema").await;
    let view = View::of(&namespace).await;
    eventually("OpenAPI tells of the new kind", PATIENCE, async || {
        Ok(check_served_schema(view.reads()).await?)
    })
    .await
    .unwrap();
}
