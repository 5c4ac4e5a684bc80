//! The operator may do what it needs, and no more: each right that the chart grants is used by something that it does, and
//! nothing that it does is refused.

mod granted;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hedgerow_api::HedgePolicy;
use hedgerow_tests::{AuditEvent, Cluster, Namespace, OperatorOptions, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use self::granted::{denied, granted, unused};
use crate::formats::{agreed, base, envoy, publishing};
use crate::nudge::pod;
use crate::policy::{CONFIG_MAP, with};
use crate::scene::{SOON, Scene};
use crate::service::Service;
use crate::shared;

/// The second output of [`everything`], which it names no longer later on.
const SECOND: &str = "kb-second";

/// A policy that uses everything there is: native documents, one over a base, pods to be nudged.
fn everything() -> Value {
    let second = json!({ "configMap": SECOND, "key": "a.json", "targets": [{ "name": "shard-read" }] });
    let policy = publishing(&[envoy(), second]);
    let policy = with(
        policy,
        "/spec/publish/0/nudgePods",
        json!({ "matchLabels": { "app": "front" } }),
    );
    with(policy, "/spec/targets/0/saturation/maxUnknown", json!("10s"))
}

#[tokio::test]
async fn of_a_namespaced_install_each_is_needed_and_none_is_missing() {
    let cluster = shared::cluster().await;
    let namespace = shared::namespace("rights").await;
    each_right_is_needed(cluster, &namespace, &[&namespace]).await;
}

/// On a control plane of its own, since the operator of a whole cluster would follow the policies of all other tests.
#[tokio::test]
async fn of_an_install_for_the_cluster_each_is_needed_and_none_is_missing() {
    let cluster = Cluster::start().await.unwrap();
    shared::install_crd(&cluster).await;
    let namespace = cluster.namespace("rights").await.unwrap();
    each_right_is_needed(&cluster, &namespace, &[]).await;
}

async fn each_right_is_needed(cluster: &Cluster, namespace: &Namespace, watched: &[&Namespace]) {
    let begun = cluster.audit().mark().unwrap();
    let home = cluster.namespace("rights-operator").await.unwrap();
    let service = Service::start().await;
    let prometheus = service.scraped().await;
    let install = OperatorOptions::new(cluster, &home, watched).source(&prometheus.url());
    let operator = install.nudging().start().await.unwrap();
    let mut scene = Scene {
        audit: cluster.audit(),
        begun,
        namespace: namespace.clone(),
        service,
        prometheus,
        operator,
    };
    let account = scene.operator.user().rsplit(':').next().unwrap().to_owned();
    let rights = granted(cluster, home.name(), &account).await.unwrap();
    assert!(rights.len() > 10, "{rights:?}");

    do_everything(&mut scene).await;
    eventually("each right is used", SOON, async || {
        let unused = unused(&rights, &requests(&scene)?);
        ensure!(unused.is_empty(), "granted, and not used: {unused:#?}");
        Ok(())
    })
    .await
    .unwrap();
    let denied = denied(&requests(&scene).unwrap());
    assert!(denied.is_empty(), "asked for, and not granted: {denied:#?}");
}

/// All that the operator has asked the API server for.
fn requests(scene: &Scene) -> Result<Vec<AuditEvent>> {
    scene.audit.by(scene.operator.user(), scene.begun)
}

async fn do_everything(scene: &mut Scene) {
    // Bases, formats, events, statuses, the lease: as soon as there is a policy.
    scene
        .namespace
        .apply(&base("1s", &agreed()).to_string())
        .await
        .unwrap();
    pod(&scene.namespace).await;
    scene.apply(&everything()).await;
    scene.reason("Tuned").await;
    // Off under saturation: pods are nudged. A stop by a person: ordered in its namespace, and lifted.
    scene.service.queue(80.0);
    scene.reason("Saturated").await;
    let stop = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "hedgerow-off" } });
    scene.apply(&stop).await;
    scene.reason("Stopped").await;
    scene
        .namespace
        .kubectl(&["delete", "configmap", "hedgerow-off"])
        .await
        .unwrap();
    scene.service.queue(3.0);
    scene.reason("Tuned").await;
    statuses_are_written_over_newer_policies(scene).await;
    an_output_is_ended(scene).await;
    // An event on the operator's own pod.
    scene.prometheus.stop().await.unwrap();
    scene.reason("SaturationUnknown").await;
}

/// Somebody keeps changing the policy while its status is written, until one of the writes met a newer version.
async fn statuses_are_written_over_newer_policies(scene: &Scene) {
    let policies = scene.namespace.api::<HedgePolicy>();
    let mut round = 0;
    let edits = async {
        loop {
            round += 1;
            let labels = json!({ "metadata": { "labels": { "edited": round.to_string() } } });
            policies
                .patch("kb", &PatchParams::default(), &Patch::Merge(&labels))
                .await
                .unwrap();
        }
    };
    let conflicted = eventually("a status is written over a newer policy", SOON, async || {
        for depth in [80.0, 3.0] {
            scene.service.queue(depth);
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        let got = requests(scene)?;
        let mut got = got.iter().filter(|event| event.verb == "get");
        got.find(|event| event.object_ref.resource == "hedgepolicies")
            .context("not yet")?;
        Ok(())
    });
    tokio::select! {
        () = edits => {}
        conflicted = conflicted => conflicted.unwrap(),
    }
    scene.reason("Tuned").await;
}

/// An output that its policy no longer names is deleted when its off documents have expired, or hold nothing any more.
async fn an_output_is_ended(scene: &mut Scene) {
    scene.operator.kill().unwrap();
    scene.apply(&without_second()).await;
    let maps = scene.namespace.api::<ConfigMap>();
    let empty = json!({ "data": null });
    maps.patch(SECOND, &PatchParams::default(), &Patch::Merge(&empty))
        .await
        .unwrap();
    scene.operator.start().await.unwrap();
    eventually("what is left of an output is deleted", SOON, async || {
        ensure!(maps.get_opt(SECOND).await?.is_none(), "it is there");
        Ok(())
    })
    .await
    .unwrap();
    assert!(maps.get_opt(CONFIG_MAP).await.unwrap().is_some());
}

fn without_second() -> Value {
    let mut policy = everything();
    let outputs = policy["spec"]["publish"].as_array_mut().expect("a list");
    outputs.retain(|output| output["configMap"] != SECOND);
    policy
}
