//! In steady state nothing is written, and policies share queries.

use std::time::Duration;

use anyhow::ensure;
use hedgerow_tests::{Mark, eventually, steadily};
use serde_json::json;

use crate::policy::{policy, with};
use crate::scene::{SOON, Scene, document};

const INTERVAL: Duration = Duration::from_secs(5);

/// A reading that is not known, as on a busy machine, is written down, and is another matter: only evaluations count while all is
/// read.
#[tokio::test]
async fn twenty_evaluations_of_noisy_readings_write_nothing() {
    let scene = Scene::start("quiet").await;
    scene.service.noise(0.2);
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    // Its history and conditions follow the document.
    scene.condition("kb", "HedgingDisabled", "False", "Hedging").await;
    let mut evaluated = 0.0;
    while evaluated < 20.0 {
        let calm = calm(&scene).await;
        let before = evaluations(&scene).await;
        let mut here = before;
        while evaluated + here - before < 20.0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let writes = scene.writes(calm.mark);
            // After the writes: a reading that is the reason of one is counted by now.
            if unknown(&scene).await > calm.unknown {
                break;
            }
            assert!(writes.is_empty(), "it wrote {writes:?}");
            here = evaluations(&scene).await;
        }
        evaluated += here - before;
    }
}

/// A moment in which all is read and written.
struct Calm {
    mark: Mark,
    unknown: f64,
}

async fn calm(scene: &Scene) -> Calm {
    eventually("all is read and written", SOON * 3, async || {
        let unknown_before = unknown(scene).await;
        let mark = settled(scene).await;
        ensure!(unknown(scene).await <= unknown_before, "it could not read all");
        Ok(Calm {
            mark,
            unknown: unknown_before,
        })
    })
    .await
    .unwrap()
}

/// How many readings were not a number so far.
async fn unknown(scene: &Scene) -> f64 {
    let outcome = |line: &str| !line.contains("outcome=\"Fresh\"");
    total(scene, "hedgerow_source_readings_total{", outcome).await
}

/// How often latency was read so far.
async fn evaluations(scene: &Scene) -> f64 {
    let of_latency = |line: &str| line.contains("kind=\"latency\"");
    total(scene, "hedgerow_source_read_duration_seconds_count{", of_latency).await
}

/// How many saturation signals were read so far, of all policies together; each has one.
async fn signals_read(scene: &Scene) -> f64 {
    let of_saturation = |line: &str| line.contains("kind=\"saturation\"");
    total(scene, "hedgerow_source_readings_total{", of_saturation).await
}

/// The sum of what the operator exports in such lines.
async fn total(scene: &Scene, series: &str, counts: impl Fn(&str) -> bool) -> f64 {
    let told = eventually("its metrics", SOON, async || scene.operator.metrics().await);
    let metrics = told.await.unwrap();
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with(series) && counts(line));
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
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
    let with_one = queries_per_round(&scene, 1).await;
    for number in 1..50 {
        scene.apply(&numbered(number)).await;
    }
    let with_fifty = queries_per_round(&scene, 50).await;
    // Where the rounds begin and end is chance, so that a few queries more or less are.
    assert!(with_one > 0.0, "it asks");
    assert!(
        (with_fifty / with_one - 1.0).abs() <= 0.25,
        "for each time that all are decided, {with_one} queries with 1 policy, {with_fifty} with 50"
    );
}

/// Queries for each time that every policy's signals are read, over twenty times: the machine may be as slow as it likes.
async fn queries_per_round(scene: &Scene, policies: u32) -> f64 {
    eventually("every policy has its document", SOON, async || {
        for number in 0..policies {
            document(&scene.namespace, &format!("kb-{number}"), "a.json").await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    settled(scene).await;
    let now = async || {
        let asked = scene.prometheus.queries_answered().await.unwrap();
        let rounds = signals_read(scene).await / f64::from(policies);
        (f64::from(u32::try_from(asked).unwrap()), rounds)
    };
    let (asked, rounds) = now().await;
    let (asked_later, rounds_later) = eventually("twenty rounds are over", SOON * 3, async || {
        let (asked, later) = now().await;
        ensure!(later >= rounds + 20.0, "{later} of them, {rounds} before");
        Ok((asked, later))
    })
    .await
    .unwrap();
    (asked_later - asked) / (rounds_later - rounds)
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
