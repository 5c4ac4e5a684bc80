//! Status and events.

use std::collections::BTreeSet;

use anyhow::ensure;
use hedgerow::cluster::{Notice, Severity};
use hedgerow_api::{HedgePolicy, HedgePolicyStatus, Summary};
use hedgerow_tests::eventually;
use k8s_openapi::api::events::v1::Event;

use crate::scene::{PATIENCE, create_policy, stage};

fn status(hedging: &str) -> HedgePolicyStatus {
    HedgePolicyStatus {
        observed_generation: Some(1),
        summary: Some(Summary {
            hedging: Some(hedging.into()),
            ..Summary::default()
        }),
        ..HedgePolicyStatus::default()
    }
}

#[tokio::test]
async fn a_status_is_written_once() {
    let (namespace, owner, view) = stage("status").await;
    let policy = view.policy(&owner.policy).await;

    assert!(view.status.write(&policy, &status("1/1")).await.unwrap());
    assert!(
        !view.status.write(&policy, &status("1/1")).await.unwrap(),
        "before the watch tells"
    );
    assert_eq!(view.status.current(&policy), status("1/1"));
    let seen = view.sees_newer(&policy).await;
    assert!(
        !view.status.write(&seen, &status("1/1")).await.unwrap(),
        "after it told"
    );

    assert!(view.status.write(&seen, &status("0/1")).await.unwrap());
    assert!(
        view.status
            .write(&seen, &HedgePolicyStatus::default())
            .await
            .unwrap()
    );
    let live = namespace.api::<HedgePolicy>().get("kb").await.unwrap();
    assert_eq!(
        live.status.unwrap_or_default().summary,
        None,
        "what is left out is removed"
    );
}

#[tokio::test]
async fn a_status_is_written_although_somebody_labels_the_policy_meanwhile() {
    let (namespace, owner, view) = stage("status-race").await;
    let stale = view.policy(&owner.policy).await;
    namespace
        .kubectl(&["label", "hedgepolicy", "kb", "team=search"])
        .await
        .unwrap();

    assert!(view.status.write(&stale, &status("1/1")).await.unwrap());

    let live = namespace.api::<HedgePolicy>().get("kb").await.unwrap();
    assert_eq!(live.status, Some(status("1/1")));
    assert_eq!(live.metadata.labels.unwrap()["team"], "search");
    assert_eq!(live.spec.targets.len(), 1);
}

#[tokio::test]
async fn the_status_of_a_policy_that_is_gone_is_no_error() {
    let (namespace, owner, view) = stage("status-gone").await;
    let policy = view.policy(&owner.policy).await;
    namespace.kubectl(&["delete", "hedgepolicy", "kb"]).await.unwrap();
    assert!(!view.status.write(&policy, &status("1/1")).await.unwrap());

    create_policy(&namespace, "kb").await;
    assert!(
        !view.status.write(&policy, &status("1/1")).await.unwrap(),
        "nor is it another's"
    );
}

#[tokio::test]
async fn events_are_told_with_their_numbers_each_time() {
    let (namespace, owner, view) = stage("events").await;
    for queue in [51, 77] {
        let notice = Notice {
            severity: Severity::Warning,
            reason: "Saturated",
            action: "Switch",
            note: format!("queue {queue} is above 50"),
        };
        view.events.about_policy(&owner.policy, &owner.uid, &notice);
    }

    eventually("both events are written", PATIENCE, async || {
        let events = namespace.api::<Event>().list(&Default::default()).await?;
        let notes = events.items.iter().filter_map(|event| event.note.as_deref());
        let notes: BTreeSet<_> = notes.collect();
        ensure!(
            notes == ["queue 51 is above 50", "queue 77 is above 50"].into(),
            "there are {notes:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    let described = namespace
        .kubectl(&["describe", "hedgepolicy", "kb"])
        .await
        .unwrap();
    assert!(described.contains("queue 77 is above 50"), "{described}");
}
