//! In steady state nothing is written, and policies share queries.

use std::time::Duration;

use anyhow::ensure;
use hedgerow_tests::{Mark, eventually, steadily};
use serde_json::json;

use crate::policy::{policy, with};
use crate::scene::{SOON, Scene, document};

const INTERVAL: Duration = Duration::from_secs(5);

#[tokio::test]
async fn twenty_evaluations_of_noisy_readings_write_nothing() {
    let scene = Scene::start("quiet").await;
    scene.service.noise(0.2);
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    // Its history and conditions follow the document.
    scene.condition("kb", "HedgingDisabled", "False", "Hedging").await;
    let settled = settled(&scene).await;
    steadily("the operator writes nothing", INTERVAL * 20, async || {
        let writes = scene.writes(settled);
        ensure!(writes.is_empty(), "it wrote {writes:?}");
        Ok(())
    })
    .await
    .unwrap();
    assert!(
        scene.prometheus.queries_answered().await.unwrap() > 20,
        "it evaluates"
    );
}

/// A mark after which the operator has been silent for two intervals.
async fn settled(scene: &Scene) -> Mark {
    eventually(
        "the operator has written what there was to write",
        SOON,
        async || {
            let mark = scene.audit.mark()?;
            steadily("silence", INTERVAL * 2, async || {
                ensure!(scene.writes(mark).is_empty());
                Ok(())
            })
            .await?;
            Ok(mark)
        },
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn fifty_policies_on_one_metric_ask_as_often_as_one() {
    let scene = Scene::start("fifty").await;
    for number in 0..50 {
        let depth = [("index", format!("kb-{number}"))];
        let labels = [("index", depth[0].1.as_str())];
        scene
            .service
            .exposition
            .series("shard_queue_depth", &labels)
            .set(1.0);
        scene
            .service
            .exposition
            .histogram("shard_read_duration_seconds", &labels, &[0.1, 0.2]);
    }
    scene.apply(&numbered(0)).await;
    let with_one = queries_per_four_intervals(&scene, 1).await;
    for number in 1..50 {
        scene.apply(&numbered(number)).await;
    }
    let with_fifty = queries_per_four_intervals(&scene, 50).await;
    // Where the four intervals begin and end within a round is chance: one round more or less.
    assert!(with_one >= 8, "{with_one}");
    assert!(
        with_fifty.abs_diff(with_one) <= with_one / 4,
        "{with_one} queries with 1 policy, {with_fifty} with 50"
    );
}

async fn queries_per_four_intervals(scene: &Scene, policies: u32) -> u64 {
    eventually("every policy has its document", SOON, async || {
        for number in 0..policies {
            document(&scene.namespace, &format!("kb-{number}"), "a.json").await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    settled(scene).await;
    let before = scene.prometheus.queries_answered().await.unwrap();
    tokio::time::sleep(INTERVAL * 4).await;
    scene.prometheus.queries_answered().await.unwrap() - before
}

fn numbered(number: u32) -> serde_json::Value {
    let name = format!("kb-{number}");
    let policy = with(
        policy(&name),
        "/spec/targets/0/latency/matchLabels/index",
        json!(name),
    );
    let policy = with(
        policy,
        "/spec/targets/0/saturation/signals/0/matchLabels/index",
        json!(name),
    );
    with(
        policy,
        "/spec/publish/0",
        json!({ "configMap": name, "key": "a.json", "targets": [{ "name": "shard-read" }] }),
    )
}
