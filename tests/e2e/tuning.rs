//! The main path: a policy in, a tuned document out, and off in an incident.

use anyhow::ensure;
use hedgerow_tests::{eventually, repository};

use crate::policy::{policy, with};
use crate::scene::{SOON, Scene, budgets};
use crate::service::{MEDIAN, P95};

#[tokio::test]
async fn a_policy_is_warmed_up_ramped_and_tuned() {
    let scene = Scene::start("tuning").await;
    scene.apply(&policy("kb")).await;
    let document = scene.reason("Tuned").await;

    let delay = document["delayMs"].as_f64().unwrap() / 1e3;
    assert!(
        (delay / P95 - 1.0).abs() < 0.1,
        "the delay is {delay} s, the true p95 {P95} s"
    );
    let remaining = document["minRemainingMs"].as_f64().unwrap() / 1e3;
    assert!(
        (remaining / MEDIAN - 1.0).abs() < 0.1,
        "it keeps {remaining} s, the true median is {MEDIAN} s"
    );

    let history = scene.history();
    let reasons: Vec<_> = history
        .iter()
        .map(|document| document["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["WarmingUp", "Ramping", "Ramping", "Tuned"]);
    assert_eq!(budgets(&history), [None, Some(2.5), Some(5.0), Some(10.0)]);
    let revisions: Vec<_> = history
        .iter()
        .map(|document| document["revision"].as_u64().unwrap())
        .collect();
    assert_eq!(revisions, [1, 2, 3, 4]);

    let schema = std::fs::read_to_string(repository().join("crds/native-document.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    for document in history {
        let errors: Vec<_> = schema
            .iter_errors(&document)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?} in {document}");
    }
}

#[tokio::test]
async fn a_slower_service_gets_a_longer_delay() {
    let scene = Scene::start("drift").await;
    scene.apply(&policy("kb")).await;
    let before = scene.reason("Tuned").await["delayMs"].as_f64().unwrap();
    scene.service.slowness(1.4);
    eventually("the delay follows the latency", SOON * 2, async || {
        let document = scene.document().await?;
        ensure!(document["enabled"] == true, "hedging went off: {document}");
        let after = document["delayMs"].as_f64().unwrap_or_default();
        ensure!(after > 1.25 * before, "it is {after}, was {before}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_saturated_service_is_not_hedged_until_it_recovers() {
    let scene = Scene::start("incident").await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;

    scene.service.queue(80.0);
    let off = scene.reason("Saturated").await;
    assert_eq!(off["enabled"], false);
    assert!(
        off.get("delayMs").is_none() && off.get("budget").is_none(),
        "{off}"
    );
    scene
        .condition("kb", "HedgingDisabled", "True", "Saturated")
        .await;
    // Being off under saturation is how it works, no failure.
    scene.condition("kb", "Ready", "True", "Published").await;
    let status = scene.policy("kb").await.unwrap()["status"].clone();
    let message = status["targets"][0]["message"].as_str().unwrap();
    assert!(message.contains("queue 80"), "{message}");

    let known = scene.history().len();
    scene.service.queue(3.0);
    // The largest value of two scrapes counts, and the interval of a young series is measured as longer than it is.
    scene.reason_within("Tuned", SOON * 3).await;
    assert_eq!(
        budgets(&scene.history()[known..]),
        [None, Some(2.5), Some(5.0), Some(10.0)]
    );
}

#[tokio::test]
async fn observing_decides_and_tells_clients_off() {
    let scene = Scene::start("observe").await;
    scene
        .apply(&with(policy("kb"), "/spec/mode", "Observe".into()))
        .await;
    let document = scene.reason("Observing").await;
    assert_eq!(document["enabled"], false);
    eventually("status tells the delay that it would use", SOON, async || {
        let delay = scene.policy("kb").await?["status"]["targets"][0]["delay"].clone();
        ensure!(
            delay["recommended"].is_string() && delay["applied"].is_null(),
            "{delay}"
        );
        Ok(())
    })
    .await
    .unwrap();
}
