//! Nothing that goes wrong turns hedging on, or turns it up in one step.

use anyhow::ensure;
use hedgerow_tests::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::policy::{CONFIG_MAP, KEY, policy, target, with};
use crate::scene::{SOON, Scene, budgets, document};

/// Off, and back through the ramp.
const THROUGH_THE_RAMP: [Option<f64>; 4] = [None, Some(2.5), Some(5.0), Some(10.0)];

#[tokio::test]
async fn a_kill_in_the_midst_of_a_ramp_neither_skips_nor_repeats_a_step() {
    let mut scene = Scene::start("mid-ramp").await;
    let policy = with(policy("kb"), "/spec/targets/0/saturation/rampStep", json!("8s"));
    scene.apply(&policy).await;
    scene.reason("Ramping").await;
    scene.operator.kill().unwrap();
    scene.operator.start().await.unwrap();
    scene.reason("Tuned").await;
    assert_eq!(budgets(&scene.history()), THROUGH_THE_RAMP);
}

#[tokio::test]
async fn lost_memory_means_off_and_through_the_ramp() {
    let mut scene = Scene::start("amnesia").await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    scene.operator.kill().unwrap();
    let known = scene.history().len();
    let nothing = json!({ "metadata": { "annotations": { "hedgerow.dev/memory": null } } });
    let maps = scene.namespace.api::<ConfigMap>();
    maps.patch(CONFIG_MAP, &PatchParams::default(), &Patch::Merge(&nothing))
        .await
        .unwrap();
    scene.operator.start().await.unwrap();
    eventually("it began anew", SOON, async || {
        let history = scene.history();
        ensure!(budgets(&history[known..]) == THROUGH_THE_RAMP, "{history:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_target_that_comes_back_to_its_policy_comes_back_through_the_ramp() {
    let scene = Scene::start("comes-back").await;
    let other = json!({ "configMap": "other", "key": KEY, "targets": [{ "name": "other" }] });
    let alone = with(policy("kb"), "/spec/targets/0", target("other"));
    let alone = with(alone, "/spec/publish/0", other.clone());
    let mut both = policy("kb");
    both["spec"]["targets"]
        .as_array_mut()
        .unwrap()
        .push(target("other"));
    both["spec"]["publish"].as_array_mut().unwrap().push(other);

    scene.apply(&both).await;
    scene.reason("Tuned").await;
    let known = scene.history().len();
    scene.apply(&alone).await;
    scene.reason("Stopped").await;
    scene.apply(&both).await;
    scene.reason("Tuned").await;
    assert_eq!(budgets(&scene.history()[known..]), THROUGH_THE_RAMP);
}

/// Its clients are told of nothing but the steps, though those of the other document had the whole budget before.
#[tokio::test]
async fn clients_of_a_config_map_that_comes_late_come_on_through_the_ramp() {
    let scene = Scene::start("comes-late").await;
    let stranger = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "late" } });
    scene.apply(&stranger).await;
    let mut both = policy("kb");
    let late = json!({ "configMap": "late", "key": KEY, "targets": [{ "name": "shard-read" }] });
    both["spec"]["publish"].as_array_mut().unwrap().push(late);
    scene.apply(&both).await;
    // What cannot be written is tried less and less often, up to once a minute, and steps up are taken then.
    scene.reason_within("Tuned", SOON * 4).await;
    scene
        .namespace
        .kubectl(&["delete", "configmap", "late"])
        .await
        .unwrap();
    eventually("it came on", SOON * 4, async || {
        let budgets = budgets(&scene.history_of("late"));
        ensure!(budgets == THROUGH_THE_RAMP, "{budgets:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn documents_for_ever_go_off_when_another_policy_of_the_same_name_is_there() {
    let mut scene = Scene::start("namesake").await;
    let first = with(policy("kb"), "/spec/expiry", json!("never"));
    scene.apply(&first).await;
    scene.reason("Tuned").await;
    scene.operator.kill().unwrap();
    scene.namespace.kubectl(&["delete", "hp", "kb"]).await.unwrap();
    scene
        .apply(&with(first, "/spec/publish/0/configMap", json!("other")))
        .await;
    scene.operator.start().await.unwrap();
    eventually("the new one is published", SOON, async || {
        let new = document(&scene.namespace, "other", KEY).await?;
        ensure!(new["reason"] == "Tuned", "it says {new}");
        Ok(())
    })
    .await
    .unwrap();
    let old = scene.reason("Stopped").await;
    assert_eq!(old["enabled"], false);
}
