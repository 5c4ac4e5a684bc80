//! The leader does not reach the API server any longer.

use std::time::Duration;

use anyhow::{Result, ensure};
use hedgerow_tests::{Condition, Mark, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{LAST_WRITE, Replicas, TAKEOVER, policy, received};
use crate::policy::{KEY, with};
use crate::scene::{SOON, document};

#[tokio::test]
async fn a_leader_behind_a_stalled_network_writes_over_nothing_newer() {
    let replicas = Replicas::start("stalled").await;
    let others = ["a", "b", "c", "d"];
    for name in others {
        let other = with(policy(name), "/spec/publish/0/configMap", json!(name));
        replicas.scene.apply(&other).await;
    }
    says(&replicas, &others, "Tuned").await;
    let mark = replicas.scene.audit.mark().unwrap();
    // Over a new connection nothing is sent before it is secured, and one that is idle is soon closed: so it has much to write.
    tokio::select! {
        () = edits(&replicas, &others) => {}
        written = is_busy(&replicas, mark) => written.unwrap(),
    }
    replicas.link.set(Condition::Stalled);
    let stalled = Timestamp::now();
    // The leader begins to write that, and the network keeps it.
    replicas.scene.service.queue(80.0);
    let taken = replicas.takeover(mark).await;
    let after = taken.duration_since(stalled);
    println!("taken over {after:#} after the stall");
    assert!(after <= TAKEOVER, "{after:#}");
    replicas.is_switched_off_by_the_new_leader(mark).await;
    says(&replicas, &others, "CoolingDown").await;

    let whole = Timestamp::now();
    replicas.link.set(Condition::Whole);
    replicas.former_leader_steps_down().await;
    let late = replicas.late_writes_of_former_leader(mark, taken);
    println!("delivered late: {}", late.len());
    // How many it kept is chance: what a connection held when it stalled, and what still was sent over an open one.
    for write in &late {
        // An event tells what was so when it was sent, and is none the worse for being late.
        let event = write.object_ref.resource == "events";
        assert!(event || !write.succeeded(), "{write:#?}");
        let later = received(write).unwrap().duration_since(whole);
        assert!(later < LAST_WRITE, "begun after the stall: {write:#?}");
    }
    says(&replicas, &others, "CoolingDown").await;
}

#[tokio::test]
async fn a_leader_whose_connections_break_writes_nothing_when_they_hold_again() {
    let replicas = Replicas::start("broken").await;
    let (before, mark) = (replicas.content().await, replicas.scene.audit.mark().unwrap());
    replicas.link.set(Condition::Cut);
    let cut = Timestamp::now();
    let taken = replicas.takeover(mark).await;
    let after = taken.duration_since(cut);
    println!("taken over {after:#} after the cut");
    assert!(after <= TAKEOVER, "{after:#}");
    replicas.carries_on(mark, &before).await;
    replicas.is_switched_off_by_the_new_leader(mark).await;

    replicas.link.set(Condition::Whole);
    replicas.former_leader_steps_down().await;
    let late = replicas.late_writes_of_former_leader(mark, taken);
    assert!(late.is_empty(), "{late:#?}");
}

/// Somebody edits all these documents, over and over.
async fn edits(replicas: &Replicas, config_maps: &[&str]) {
    let maps = replicas.scene.namespace.api::<ConfigMap>();
    for round in 0.. {
        let edit = json!({ "data": { KEY: round.to_string() } });
        for map in config_maps {
            let edit = Patch::Merge(&edit);
            maps.patch(map, &PatchParams::default(), &edit).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until the leader puts back one edit after the other.
async fn is_busy(replicas: &Replicas, since: Mark) -> Result<()> {
    eventually("it puts back what is edited", SOON, async || {
        let writes = replicas.writes_of(&replicas.scene.operator, since)?;
        let put_back = writes
            .iter()
            .filter(|write| write.object_ref.resource == "configmaps");
        ensure!(put_back.count() > 20, "not often yet");
        Ok(())
    })
    .await
}

async fn says(replicas: &Replicas, config_maps: &[&str], reason: &str) {
    eventually(&format!("all documents say {reason}"), SOON, async || {
        for map in config_maps {
            let document = document(&replicas.scene.namespace, map, KEY).await?;
            ensure!(document["reason"] == reason, "{map} says {document}");
        }
        Ok(())
    })
    .await
    .unwrap();
}
