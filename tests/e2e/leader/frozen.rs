//! The leader does nothing for longer than its lease lasts, and goes on as if no time had passed.

use std::time::Duration;

use hedgerow_tests::Condition;
use k8s_openapi::jiff::Timestamp;

use super::{Replicas, TAKEOVER};

#[tokio::test]
async fn a_leader_that_was_frozen_writes_nothing_when_it_goes_on() {
    let replicas = Replicas::start("frozen").await;
    let (before, mark) = (replicas.content().await, replicas.scene.audit.mark().unwrap());
    replicas.scene.operator.pause().unwrap();
    let frozen = Timestamp::now();
    let taken = replicas.takeover(mark).await;
    let after = taken.duration_since(frozen);
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
