//! What is somebody else's stays somebody else's.

use anyhow::bail;
use hedgerow::cluster::{Change, NamespacedName, PublishError};
use hedgerow_api::HedgePolicy;
use hedgerow_api::names::{INSTANCE_ANNOTATION, POLICY_ANNOTATION, POLICY_UID_ANNOTATION};
use hedgerow_tests::{Namespace, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::scene::{CONFIG_MAP, NOW, PATIENCE, View, bytes, create_policy, desired, namespace};

fn is_name_conflict<T: std::fmt::Debug>(result: &Result<T, PublishError>, words: &str) -> bool {
    match result {
        Err(error @ PublishError::NameConflict { .. }) => error.to_string().contains(words),
        _ => false,
    }
}

#[tokio::test]
async fn a_strangers_config_map_is_left_byte_for_byte() {
    let namespace = namespace("stranger").await;
    let owner = create_policy(&namespace, "kb").await;
    let create = [
        "create",
        "configmap",
        CONFIG_MAP,
        "--from-literal=shard-read.json={}",
    ];
    namespace.kubectl(&create).await.unwrap();
    let before = bytes(&namespace, CONFIG_MAP).await;
    let view = View::of(&namespace).await;

    let result = view.publish(&owner, 512.0).await;

    assert!(
        is_name_conflict(&result, "was not created by Hedgerow"),
        "{result:?}"
    );
    assert_eq!(bytes(&namespace, CONFIG_MAP).await, before);
}

#[tokio::test]
async fn a_stranger_that_creates_at_the_same_moment_is_left_byte_for_byte() {
    let namespace = namespace("race").await;
    let owner = create_policy(&namespace, "kb").await;
    let mut theirs = 0;
    for round in 0..10 {
        let view = View::of(&namespace).await;
        let stranger = namespace.api::<ConfigMap>();
        let config_map: ConfigMap = serde_json::from_value(json!({
            "metadata": { "name": CONFIG_MAP }, "data": { "shard-read.json": round.to_string() },
        }))
        .unwrap();
        let (create, wanted) = (Default::default(), desired(&owner, 512.0));
        let (created, published) = tokio::join!(
            stranger.create(&create, &config_map),
            view.publisher.publish(&wanted, NOW)
        );
        match created {
            Ok(created) => {
                theirs += 1;
                assert!(
                    is_name_conflict(&published, "was not created by Hedgerow"),
                    "{published:?}"
                );
                let live = stranger.get(CONFIG_MAP).await.unwrap();
                assert_eq!(live, created);
            }
            Err(_) => assert_eq!(published.unwrap().change, Change::Created),
        }
        stranger.delete(CONFIG_MAP, &Default::default()).await.unwrap();
    }
    println!("the stranger came first {theirs} times of 10");
}

/// The write that follows rests on what is remembered: nobody tells it of the deletion and the new ConfigMap.
#[tokio::test]
async fn a_config_map_that_a_stranger_puts_in_the_place_of_ours_is_left_byte_for_byte() {
    let namespace = namespace("replaced").await;
    let owner = create_policy(&namespace, "kb").await;
    for round in 0..5 {
        let mut view = View::of(&namespace).await;
        view.publish(&owner, 512.0).await.unwrap();
        view.caught_up(&namespace, CONFIG_MAP).await;
        view.tasks.shutdown().await;

        let stranger = namespace.api::<ConfigMap>();
        stranger.delete(CONFIG_MAP, &Default::default()).await.unwrap();
        let config_map: ConfigMap =
            serde_json::from_value(json!({ "metadata": { "name": CONFIG_MAP } })).unwrap();
        let created = stranger.create(&Default::default(), &config_map).await.unwrap();
        let result = view.publish(&owner, f64::from(round) + 1.0).await;

        assert!(
            is_name_conflict(&result, "was not created by Hedgerow"),
            "{result:?}"
        );
        assert_eq!(stranger.get(CONFIG_MAP).await.unwrap(), created);
        stranger.delete(CONFIG_MAP, &Default::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_config_map_of_another_install_is_left_byte_for_byte() {
    let namespace = namespace("install").await;
    let owner = create_policy(&namespace, "kb").await;
    let theirs = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": CONFIG_MAP, "annotations": {
            INSTANCE_ANNOTATION: "green", POLICY_ANNOTATION: owner.policy.to_string(), POLICY_UID_ANNOTATION: owner.uid,
        } },
    });
    namespace.apply(&theirs.to_string()).await.unwrap();
    let before = bytes(&namespace, CONFIG_MAP).await;
    let view = View::of(&namespace).await;

    let result = view.publish(&owner, 512.0).await;

    assert!(is_name_conflict(&result, "install \"green\""), "{result:?}");
    assert_eq!(bytes(&namespace, CONFIG_MAP).await, before);
}

#[tokio::test]
async fn a_config_map_that_something_else_controls_is_left_byte_for_byte() {
    let namespace = namespace("controlled").await;
    let owner = create_policy(&namespace, "kb").await;
    let theirs = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": CONFIG_MAP,
            "annotations": {
                INSTANCE_ANNOTATION: "blue", POLICY_ANNOTATION: owner.policy.to_string(), POLICY_UID_ANNOTATION: owner.uid,
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "front", "uid": "no-such-uid", "controller": true,
            }],
        },
    });
    namespace.apply(&theirs.to_string()).await.unwrap();
    let before = bytes(&namespace, CONFIG_MAP).await;
    let view = View::of(&namespace).await;

    let result = view.publish(&owner, 512.0).await;

    assert!(
        is_name_conflict(&result, "controlled by Deployment front"),
        "{result:?}"
    );
    assert_eq!(bytes(&namespace, CONFIG_MAP).await, before);
}

async fn created(namespace: &Namespace, policy: &str) -> Option<Time> {
    let policy = namespace.api::<HedgePolicy>().get(policy).await.unwrap();
    policy.metadata.creation_timestamp
}

#[tokio::test]
async fn the_older_policy_writes_and_the_younger_takes_over_when_it_is_gone() {
    let namespace = namespace("claims").await;
    let older = create_policy(&namespace, "z-older").await;
    let younger = eventually("a policy that is younger by a second", PATIENCE, async || {
        let younger = create_policy(&namespace, "a-younger").await;
        let (older, created) = (
            created(&namespace, "z-older").await,
            created(&namespace, "a-younger").await,
        );
        if older == created {
            // Of the same second the first by name would win.
            namespace.kubectl(&["delete", "hedgepolicy", "a-younger"]).await?;
            bail!("created in the same second");
        }
        Ok(younger)
    })
    .await
    .unwrap();
    let view = View::of(&namespace).await;
    view.publish(&older, 512.0).await.unwrap();
    let before = view.caught_up(&namespace, CONFIG_MAP).await;

    let name = NamespacedName::new(namespace.name(), CONFIG_MAP);
    let result = view.publish(&younger, 300.0).await;
    let conflicted = PublishError::Conflicted {
        name,
        winner: older.policy.clone(),
    };
    assert_eq!(result, Err(conflicted));
    assert_eq!(
        namespace.api::<ConfigMap>().get(CONFIG_MAP).await.unwrap(),
        before
    );

    view.changes.take().await;
    namespace
        .kubectl(&["delete", "hedgepolicy", "z-older"])
        .await
        .unwrap();
    eventually("the younger policy is told", PATIENCE, async || {
        anyhow::ensure!(view.changes.take().await.contains(&younger.policy));
        Ok(())
    })
    .await
    .unwrap();
    let published = view.publish(&younger, 300.0).await.unwrap();

    assert_eq!(published.change, Change::TakenOver);
    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    assert_eq!(live.metadata.uid, before.metadata.uid, "taken over in place");
    let references = live.metadata.owner_references.unwrap();
    assert_eq!(
        references
            .iter()
            .map(|owner| owner.name.as_str())
            .collect::<Vec<_>>(),
        ["a-younger"]
    );
    assert_eq!(
        live.metadata.annotations.unwrap()[POLICY_UID_ANNOTATION],
        younger.uid
    );
}

#[tokio::test]
async fn a_policy_that_is_created_anew_under_its_name_takes_over() {
    let namespace = namespace("anew").await;
    let first = create_policy(&namespace, "kb").await;
    let view = View::of(&namespace).await;
    view.publish(&first, 512.0).await.unwrap();
    view.caught_up(&namespace, CONFIG_MAP).await;
    namespace.kubectl(&["delete", "hedgepolicy", "kb"]).await.unwrap();
    let second = create_policy(&namespace, "kb").await;
    view.sees("the new policy is seen", |view| {
        let seen = view.policies.get(&second.policy);
        seen.is_some_and(|policy| policy.uid == second.uid)
    })
    .await;

    assert_eq!(view.publish(&first, 400.0).await, Err(PublishError::PolicyGone));
    let published = view.publish(&second, 512.0).await.unwrap();
    assert_eq!(published.change, Change::TakenOver);
}
