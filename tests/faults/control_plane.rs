//! The control plane itself goes away and comes back, also as it was before. It has one of its own.

use std::time::Duration;

use anyhow::Result;
use hedgerow_tests::Cluster;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::observer::{Observer, tell};
use crate::policy::{CONFIG_MAP, hasty as policy};
use crate::scene::Scene;
use crate::shared::install_crd;
use crate::stage::{now, says};

/// Names, as docs/faults.md has them.
pub(crate) const FAULTS: [&str; 3] = ["api-server-stopped", "etcd-stopped", "etcd-restored"];

const A_WHILE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_that_goes_and_comes_back_makes_hedging_no_less_safe() {
    let mut cluster = Cluster::start().await.unwrap();
    install_crd(&cluster).await;
    let namespace = cluster.namespace("gone").await.unwrap();
    let mut scene = Scene::set(&cluster, namespace, &[]).await;
    let pid = scene.operator.pid().unwrap();
    scene.apply(&policy("kb")).await;
    settled(&scene, "Tuned").await.unwrap();
    let observer = Observer::of(&scene.audit, &scene.namespace, CONFIG_MAP);
    let mut rows: Vec<(&str, Result<String>)> = Vec::new();

    for name in [FAULTS[0], FAULTS[1]] {
        let fault = now();
        if name == FAULTS[0] {
            cluster.kill_api_server().unwrap();
        } else {
            cluster.kill_etcd().unwrap();
        }
        scene.service.queue(80.0);
        tokio::time::sleep(A_WHILE).await;
        if name == FAULTS[0] {
            cluster.start_api_server().await.unwrap();
        } else {
            cluster.start_etcd().unwrap();
        }
        let off = settled(&scene, "Saturated").await;
        let good = now();
        scene.service.queue(3.0);
        let tuned = settled(&scene, "Tuned").await;
        rows.push((
            name,
            off.and(tuned).and_then(|()| observer.row(name, fault, good)),
        ));
    }
    rows.push((FAULTS[2], restored(&mut cluster, &mut scene, &observer).await));
    tell(rows);
    assert_eq!(scene.operator.pid().unwrap(), pid, "it needed no restart");
}

/// etcd is taken back to when hedging was on, behind what the operator has seen since.
async fn restored(cluster: &mut Cluster, scene: &mut Scene, observer: &Observer) -> Result<String> {
    cluster.kill_api_server()?;
    cluster.kill_etcd()?;
    cluster.copy_store(true)?;
    cluster.start_etcd()?;
    cluster.start_api_server().await?;
    settled(scene, "Tuned").await?;

    let fault = now();
    scene.service.queue(80.0);
    settled(scene, "Saturated").await?;
    // Versions run ahead of the copy.
    let maps = scene.namespace.api::<ConfigMap>();
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "other" } });
    scene.apply(&other).await;
    for round in 0..2000 {
        let edit = json!({ "data": { "round": round.to_string() } });
        maps.patch("other", &PatchParams::default(), &Patch::Merge(&edit))
            .await?;
    }
    cluster.kill_api_server()?;
    cluster.kill_etcd()?;
    cluster.copy_store(false)?;
    cluster.start_etcd()?;
    cluster.start_api_server().await?;
    // The store says that hedging is on: nobody published that, and it must not stay.
    settled(scene, "Saturated").await?;

    // What people say now is heard, though its version is behind what was seen before.
    let stop = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "hedgerow-off" } });
    scene.apply(&stop).await;
    settled(scene, "Stopped").await?;
    scene.service.queue(3.0);
    let good = now();
    scene
        .namespace
        .kubectl(&["delete", "configmap", "hedgerow-off"])
        .await?;
    settled(scene, "Tuned").await?;
    observer.row(FAULTS[2], fault, good)
}

async fn settled(scene: &Scene, reason: &str) -> Result<()> {
    let said = says(&scene.namespace, CONFIG_MAP, &[reason]).await;
    said.map(drop)
        .map_err(|error| error.context(scene.operator.log_tail()))
}
