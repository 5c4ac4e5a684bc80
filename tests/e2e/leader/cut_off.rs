//! The leader does not reach the API server any longer.

use anyhow::ensure;
use hedgerow_tests::{Condition, eventually};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{Replicas, TAKEOVER, policy, received};
use crate::policy::{KEY, with};
use crate::scene::{SOON, document};

#[tokio::test]
async fn what_a_stalled_network_delivers_late_goes_over_nothing_newer() {
    let replicas = Replicas::start("stalled").await;
    // Written at once, so that the leader has open connections: over a new one nothing is sent before it is secured.
    let others = ["a", "b", "c", "d"];
    for name in others {
        let other = with(policy(name), "/spec/publish/0/configMap", json!(name));
        replicas.scene.apply(&other).await;
    }
    says(&replicas, &others, "Tuned").await;
    let mark = replicas.scene.audit.mark().unwrap();
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
    assert!(
        late.iter().any(|write| write.object_ref.resource == "configmaps"),
        "nothing was kept: {late:#?}"
    );
    for write in &late {
        assert_eq!(write.code(), 409, "{write:#?}");
        let later = received(write).unwrap().duration_since(whole);
        assert!(later.as_secs() < 2, "begun after the stall: {write:#?}");
    }
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
