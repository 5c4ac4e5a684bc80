//! Whose ConfigMaps are whose.

use anyhow::{Result, ensure};
use hedgerow_tests::{Namespace, eventually, steadily};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use std::time::Duration;

use crate::policy::{CONFIG_MAP, KEY, policy, with};
use crate::scene::{SOON, Scene, document};

/// Several evaluations long.
const A_WHILE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_deleted_policy_takes_its_config_maps_along() {
    let scene = Scene::start("gone").await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    scene.namespace.kubectl(&["delete", "hp", "kb"]).await.unwrap();
    eventually(
        "the garbage collector has removed the ConfigMap",
        SOON,
        async || {
            let map = scene.namespace.api::<ConfigMap>().get_opt(CONFIG_MAP).await?;
            ensure!(map.is_none(), "it is still there");
            Ok(())
        },
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn an_edit_by_hand_is_put_back() {
    let scene = Scene::start("edited").await;
    scene.apply(&policy("kb")).await;
    let before = scene.reason("Tuned").await;
    let edit = json!({ "data": { KEY: "{}" } });
    let maps = scene.namespace.api::<ConfigMap>();
    maps.patch(CONFIG_MAP, &PatchParams::default(), &Patch::Merge(&edit))
        .await
        .unwrap();
    let after = scene.reason("Tuned").await;
    assert_eq!(after["delayMs"], before["delayMs"]);
    let events = scene
        .namespace
        .kubectl(&["get", "events.events.k8s.io", "-o", "json"])
        .await
        .unwrap();
    assert!(events.contains(CONFIG_MAP), "an event tells of it: {events}");
}

#[tokio::test]
async fn a_deleted_config_map_is_written_again() {
    let scene = Scene::start("deleted").await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    scene
        .namespace
        .api::<ConfigMap>()
        .delete(CONFIG_MAP, &DeleteParams::default())
        .await
        .unwrap();
    // Its memory is lost with it: it may begin anew, but not stay away.
    scene.reason("Tuned").await;
}

#[tokio::test]
async fn a_strangers_config_map_is_left_as_it_is() {
    let scene = Scene::start("stranger").await;
    let before = create(&scene.namespace, CONFIG_MAP).await.unwrap();
    scene.apply(&policy("kb")).await;
    let message = scene.condition("kb", "Ready", "False", "NameConflict").await;
    assert!(message.contains(CONFIG_MAP), "{message}");
    stay(&scene.namespace, &[before]).await;
}

#[tokio::test]
async fn a_strangers_config_map_that_comes_at_the_same_time_is_left_as_it_is() {
    let scene = Scene::start("race").await;
    let mut strangers = Vec::new();
    for number in 0..20 {
        let name = format!("race-{number}");
        let policy = with(policy(&name), "/spec/publish/0/configMap", json!(name));
        let (created, ()) = tokio::join!(create(&scene.namespace, &name), scene.apply(&policy));
        // Where the operator was first, the person's creation was refused and there is nothing to protect.
        strangers.extend(created.ok());
    }
    // And where the operator was first, a person replaces what it wrote.
    let replaced = "race-20";
    scene
        .apply(&with(
            policy(replaced),
            "/spec/publish/0/configMap",
            json!(replaced),
        ))
        .await;
    eventually("the operator has written it", SOON, async || {
        document(&scene.namespace, replaced, KEY).await
    })
    .await
    .unwrap();
    let maps = scene.namespace.api::<ConfigMap>();
    let replacement = eventually("a person was quicker than the operator", SOON, async || {
        maps.delete(replaced, &DeleteParams::default()).await?;
        create(&scene.namespace, replaced).await
    })
    .await
    .unwrap();
    strangers.push(replacement);

    assert!(strangers.len() > 1, "no creation of 20 was first");
    stay(&scene.namespace, &strangers).await;
}

#[tokio::test]
async fn of_two_policies_on_one_config_map_the_older_has_it() {
    let scene = Scene::start("claims").await;
    scene.apply(&policy("older")).await;
    scene.reason("Tuned").await;
    scene.apply(&policy("a-younger")).await;
    let message = scene
        .condition("a-younger", "Accepted", "False", "Conflicted")
        .await;
    assert!(message.contains("older"), "{message}");
    let owner = scene.document().await.unwrap()["policy"].clone();
    assert_eq!(owner, format!("{}/older", scene.namespace.name()));

    scene.namespace.kubectl(&["delete", "hp", "older"]).await.unwrap();
    eventually("the younger takes over", SOON, async || {
        let document = scene.document().await?;
        ensure!(
            document["policy"] == format!("{}/a-younger", scene.namespace.name()),
            "{document}"
        );
        Ok(())
    })
    .await
    .unwrap();
}

async fn create(namespace: &Namespace, name: &str) -> Result<ConfigMap> {
    let map: ConfigMap =
        serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "mine": "x" } }))?;
    Ok(namespace
        .api::<ConfigMap>()
        .create(&PostParams::default(), &map)
        .await?)
}

/// Everything of them, `resourceVersion` included.
async fn stay(namespace: &Namespace, before: &[ConfigMap]) {
    let maps = namespace.api::<ConfigMap>();
    steadily(
        "the strangers' ConfigMaps are as they were",
        A_WHILE,
        async || {
            let now = maps.list(&ListParams::default()).await?.items;
            for before in before {
                let live = now.iter().find(|live| live.name_any() == before.name_any());
                ensure!(live == Some(before), "it is {live:?}, was {before:?}");
            }
            Ok(())
        },
    )
    .await
    .unwrap();
}
