//! Pods that mount a document look at it at once when their clients are to hedge less.

use anyhow::{Result, ensure};
use hedgerow_tests::{AuditEvent, Namespace, eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::policy::{CONFIG_MAP, policy, with};
use crate::scene::{SOON, Scene, budgets};

const NUDGED_ANNOTATION: &str = "hedgerow.dev/nudged";

/// A pod, as an object: no node runs it.
pub(crate) async fn pod(namespace: &Namespace) {
    for object in [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } }),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "front", "labels": { "app": "front" } },
            "spec": { "containers": [{ "name": "main", "image": "localhost/main:1" }] },
        }),
    ] {
        namespace.apply(&object.to_string()).await.unwrap();
    }
}

fn nudging_policy() -> Value {
    let pods = json!({ "matchLabels": { "app": "front" } });
    with(policy("kb"), "/spec/publish/0/nudgePods", pods)
}

async fn nudged(namespace: &Namespace) -> Result<Option<String>> {
    let pod = namespace.api::<Pod>().get("front").await?;
    Ok(pod.annotations().get(NUDGED_ANNOTATION).cloned())
}

#[tokio::test]
async fn a_pod_is_annotated_when_hedging_goes_off_and_not_when_it_comes_back() {
    let scene = Scene::with_operator("nudge", |operator| operator.nudging()).await;
    pod(&scene.namespace).await;
    scene.apply(&nudging_policy()).await;
    scene.reason("Tuned").await;
    assert_eq!(
        nudged(&scene.namespace).await.unwrap(),
        None,
        "three moves up are none to hurry for"
    );

    let before = scene.audit.mark().unwrap();
    scene.service.queue(80.0);
    scene.reason("Saturated").await;
    let told = eventually("the pod is annotated", SOON, async || {
        let told = nudged(&scene.namespace).await?;
        ensure!(told.is_some(), "not yet");
        Ok(told)
    })
    .await
    .unwrap();

    // What was written may be seen before its audit event.
    let events = eventually("the nudge is in the audit log", SOON, async || {
        let events = scene.audit.writes_by(scene.operator.user(), before)?;
        let is_nudge = |event: &AuditEvent| event.object_ref.resource == "pods";
        ensure!(events.iter().any(is_nudge), "not yet");
        Ok(events)
    })
    .await
    .unwrap();
    let at = |resource: &str| {
        events
            .iter()
            .position(|event| event.object_ref.resource == resource)
            .unwrap()
    };
    assert!(at("configmaps") < at("pods"), "the document goes first");
    let nudges: Vec<_> = events
        .iter()
        .filter(|event| event.object_ref.resource == "pods")
        .collect();
    assert!(
        nudges
            .iter()
            .all(|event| event.object_ref.subresource == "status" && event.verb == "patch")
    );
    assert_eq!(nudges.len(), 1);

    scene.service.queue(3.0);
    scene.reason("Tuned").await;
    assert_eq!(nudged(&scene.namespace).await.unwrap(), told);
    let metrics = scene.operator.metrics().await.unwrap();
    assert!(
        metrics.contains("hedgerow_nudges_total{outcome=\"ok\"} 1\n"),
        "{metrics}"
    );
}

#[tokio::test]
async fn without_the_right_to_nudge_everything_else_works_and_people_are_told() {
    let scene = Scene::with_operator("unnudged", |operator| operator.set("nudge", json!(true))).await;
    pod(&scene.namespace).await;
    scene.apply(&nudging_policy()).await;
    scene.reason("Tuned").await;
    // Before it matters: nothing went off yet.
    let message = scene.condition("kb", "Published", "True", "NudgeForbidden").await;
    assert!(message.contains("nudge: true"), "{message}");
    assert_eq!(budgets(&scene.history()).last(), Some(&Some(10.0)));

    scene.service.queue(80.0);
    scene.reason("Saturated").await;
    scene.condition("kb", "Ready", "True", "Published").await;
    assert_eq!(nudged(&scene.namespace).await.unwrap(), None);
    let written = format!("ConfigMap {CONFIG_MAP}");
    assert!(
        !message.contains(&written),
        "nothing is wrong with the document: {message}"
    );
}
