//! What is not known is not zero.

use anyhow::ensure;
use hedgerow_tests::{eventually, steadily};
use serde_json::{Value, json};
use std::time::Duration;

use crate::policy::{hasty, policy, with};
use crate::scene::{SOON, Scene};

fn with_signal(policy: Value, signal: Value) -> Value {
    with(policy, "/spec/targets/0/saturation/signals", json!([signal]))
}

/// A counter that does not exist before the first rejection, and a witness for that.
fn rejected(witness: &str) -> Value {
    json!({
        "name": "rejected", "rateOf": "shard_rejected_total", "matchLabels": { "index": "kb" },
        "window": "30s", "offAbove": "0.1", "atLeast": 1,
        "zeroWhenAbsent": { "witness": { "metric": "up", "matchLabels": { "job": witness } } },
    })
}

async fn never_hedges(scene: &Scene, why: &str) {
    let message = scene.condition("kb", "SignalsAvailable", "False", why).await;
    assert!(!message.is_empty());
    steadily("it does not hedge", Duration::from_secs(20), async || {
        let document = scene.document().await?;
        ensure!(document["enabled"] == false, "{document}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_alert_without_a_rule_is_unknown() {
    let scene = Scene::with_alerts("no-rule", &[("OtherAlert", "vector(1)")]).await;
    let incident = json!({ "name": "incident", "alert": "KbIndexDown" });
    scene.apply(&with_signal(hasty("kb"), incident)).await;
    never_hedges(&scene, "AlertNotFound").await;
}

#[tokio::test]
async fn an_alert_that_does_not_fire_lets_hedging_be_and_one_that_fires_stops_it() {
    let scene = Scene::with_alerts("alert", &[("KbIndexDown", "max(shard_queue_depth) > 50")]).await;
    let incident = json!({ "name": "incident", "alert": "KbIndexDown" });
    scene.apply(&with_signal(policy("kb"), incident)).await;
    scene.reason("Tuned").await;
    scene.service.queue(80.0);
    scene.reason("Saturated").await;
    scene.service.queue(3.0);
    scene.reason("Tuned").await;
}

#[tokio::test]
async fn an_absent_counter_is_zero_while_its_witness_is_up() {
    let scene = Scene::start("witness-up").await;
    scene.apply(&with_signal(policy("kb"), rejected("kb"))).await;
    scene.reason("Tuned").await;
    scene.service.rejected().set(0.0);
    // Had its first sample the rejections, it would not have risen.
    eventually("the counter is scraped at 0", SOON, async || {
        let scraped = scene.prometheus.query("shard_rejected_total").await?;
        ensure!(!scraped.is_empty(), "not yet");
        Ok(())
    })
    .await
    .unwrap();
    scene.service.rejected().add(1000.0);
    scene.reason("Saturated").await;
}

#[tokio::test]
async fn an_absent_counter_is_unknown_while_its_witness_is_down() {
    let scene = Scene::start("witness-down").await;
    // Scraped by nobody: `up` of the job is fresh, and 0.
    scene.apply(&with_signal(hasty("kb"), rejected("dead"))).await;
    never_hedges(&scene, "MetricNotFound").await;
}

#[tokio::test]
async fn a_source_that_nobody_declared_turns_hedging_off_and_is_named() {
    let scene = Scene::start("no-source").await;
    scene
        .apply(&with(policy("kb"), "/spec/source", json!("elsewhere")))
        .await;
    let message = scene
        .condition("kb", "Accepted", "False", "SourceNotAvailable")
        .await;
    assert!(
        message.contains("spec.source") && message.contains("elsewhere"),
        "{message}"
    );
    assert_eq!(scene.reason("SourceNotAvailable").await["enabled"], false);
}
