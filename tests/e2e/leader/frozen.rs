//! The leader does nothing for longer than its lease lasts, and goes on as if no time had passed.

use std::time::Duration;

use anyhow::ensure;
use hedgerow_tests::{Condition, eventually};

use super::{Replicas, TAKEOVER};
use crate::scene::SOON;

#[tokio::test]
async fn a_leader_that_was_frozen_writes_nothing_when_it_goes_on() {
    let replicas = Replicas::start("frozen").await;
    let (before, mark) = (replicas.content().await, replicas.scene.audit.mark().unwrap());
    replicas.scene.operator.pause().unwrap();
    let frozen = replicas.begins();
    let taken = replicas.takeover(mark).await;
    let after = replicas.ran(&frozen, taken);
    println!("taken over {after:#} after the freeze");
    assert!(after <= TAKEOVER, "{after:#}");
    replicas.carries_on(mark, &before).await;
    replicas.is_switched_off_by_the_new_leader(mark).await;

    // To the former leader hedging is on, the document is one that somebody has edited, and signals are good: it would put
    // it back. It learns late that it leads no more, since the way is slow.
    replicas.link.set(Condition::Slow(Duration::from_millis(500)));
    replicas.scene.operator.resume().unwrap();
    replicas.former_leader_steps_down().await;
    // Nothing was being written when it was frozen, so there is nothing that it may finish.
    let late = replicas.late_writes_of_former_leader(mark, taken);
    assert!(late.is_empty(), "{late:#?}");
}

#[tokio::test]
async fn what_a_frozen_leader_decides_when_it_goes_on_is_not_sent() {
    let replicas = Replicas::start("decides").await;
    let mark = replicas.scene.audit.mark().unwrap();
    replicas.scene.operator.pause().unwrap();
    // Nothing of what happens meanwhile waits to be read by it.
    replicas.link.set(Condition::Stalled);
    let taken = replicas.takeover(mark).await;
    replicas.is_switched_off_by_the_new_leader(mark).await;

    // It reads the signals before it can learn anything from the API server, and decides at once: off.
    replicas.scene.service.queue(80.0);
    eventually("Prometheus knows", SOON, async || {
        let depths = replicas.scene.prometheus.query("shard_queue_depth > 50").await?;
        ensure!(!depths.is_empty(), "not yet");
        Ok(())
    })
    .await
    .unwrap();
    replicas.link.set(Condition::Slow(Duration::from_millis(500)));
    replicas.scene.operator.resume().unwrap();
    replicas.former_leader_steps_down().await;
    let late = replicas.late_writes_of_former_leader(mark, taken);
    assert!(late.is_empty(), "{late:#?}");
}
