//! The leader does not reach the API server any longer.

use anyhow::ensure;
use hedgerow_tests::{Condition, eventually};
use serde_json::json;

use super::{LAST_WRITE, Replicas, TAKEOVER, policy, received};
use crate::policy::{KEY, with};
use crate::scene::{SOON, document};

/// Bytes that the write of a document has at least, with its header; reads, a handshake and the renewal of the lease have fewer.
const A_DOCUMENT: usize = 2300;

#[tokio::test]
async fn a_leader_behind_a_stalled_network_writes_over_nothing_newer() {
    let replicas = Replicas::start("stalled").await;
    let others = ["a", "b", "c", "d"];
    for name in others {
        let other = with(policy(name), "/spec/publish/0/configMap", json!(name));
        replicas.scene.apply(&other).await;
    }
    says(&replicas, &others, "Tuned").await;
    replicas.is_quiet().await;
    let mark = replicas.scene.audit.mark().unwrap();
    // The first that is written of this is a document, and the network keeps it.
    replicas.link.set(Condition::StalledBy(A_DOCUMENT));
    replicas.scene.service.queue(80.0);
    eventually("the leader begins to write", SOON, async || {
        ensure!(replicas.link.condition() == Condition::Stalled, "not yet");
        Ok(())
    })
    .await
    .unwrap();
    let stalled = replicas.begins();
    let taken = replicas.takeover(mark).await;
    let after = replicas.ran(&stalled, taken);
    println!("taken over {after:#} after the stall");
    assert!(after <= TAKEOVER, "{after:#}");
    replicas.is_switched_off_by_the_new_leader(mark).await;
    says(&replicas, &others, "CoolingDown").await;

    let whole = replicas.begins();
    replicas.link.set(Condition::Whole);
    replicas.former_leader_steps_down().await;
    let late = replicas.late_writes_of_former_leader(mark, taken);
    println!("delivered late: {}", late.len());
    // How many it kept is chance: what a connection held when it stalled, and what still was sent over an open one.
    for write in &late {
        // An event tells what was so when it was sent, and is none the worse for being late.
        let event = write.object_ref.resource == "events";
        assert!(event || !write.succeeded(), "{write:#?}");
        let later = replicas.ran(&whole, received(write).unwrap());
        assert!(later < LAST_WRITE, "begun after the stall: {write:#?}");
    }
    says(&replicas, &others, "CoolingDown").await;
}

#[tokio::test]
async fn a_leader_whose_connections_break_writes_nothing_when_they_hold_again() {
    let replicas = Replicas::start("broken").await;
    let (before, mark) = (replicas.content().await, replicas.scene.audit.mark().unwrap());
    replicas.link.set(Condition::Cut);
    let cut = replicas.begins();
    let taken = replicas.takeover(mark).await;
    let after = replicas.ran(&cut, taken);
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
