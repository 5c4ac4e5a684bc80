//! Prometheus is gone: hedging goes off once, and comes back through the ramp.

use std::time::{Duration, Instant};

use anyhow::ensure;
use hedgerow_tests::eventually;
use serde_json::Value;

use crate::policy::{hasty, with, without};
use crate::scene::{SOON, Scene, budgets};

/// Takes Prometheus away until hedging is off, and gives it back until hedging is tuned. Returns what was published, and
/// how long after the outage began it was seen to be off.
async fn through_an_outage(scene: &mut Scene, policy: &Value, reason: &str) -> (Vec<Value>, Duration) {
    scene.apply(policy).await;
    scene.reason("Tuned").await;
    let known = scene.history().len();
    let asked = scene.prometheus.queries_answered().await.unwrap();
    eventually("it reads once more", SOON, async || {
        ensure!(scene.prometheus.queries_answered().await? > asked, "not yet");
        Ok(())
    })
    .await
    .unwrap();
    // Before it is stopped: while it ends, nothing may be read any more.
    let begun = Instant::now();
    scene.prometheus.stop().await.unwrap();
    scene.reason_within(reason, SOON * 2).await;
    let after = begun.elapsed();
    scene.prometheus.start().await.unwrap();
    scene.reason("Tuned").await;
    (scene.history().split_off(known), after)
}

/// A policy whose latency stays known through the whole outage, however long Prometheus takes to come back: what goes
/// off is told by the signals alone.
fn known_for_long() -> Value {
    with(hasty("kb"), "/spec/maxStaleness", "10m".into())
}

/// Off once, and back through the ramp.
const OFF_AND_BACK: [Option<f64>; 4] = [None, Some(2.5), Some(5.0), Some(10.0)];

#[tokio::test]
async fn with_signals_hedging_goes_off_after_max_unknown() {
    let mut scene = Scene::start("blind").await;
    let (history, after) = through_an_outage(&mut scene, &known_for_long(), "SaturationUnknown").await;
    assert_eq!(budgets(&history), OFF_AND_BACK, "{history:?}");
    // maxUnknown is 10 s since the last fresh reading, which is at most a few seconds older than the outage.
    assert!(
        after > Duration::from_secs(5),
        "it went off {after:?} after the outage began"
    );
}

#[tokio::test]
async fn without_signals_hedging_goes_off_after_max_staleness() {
    let mut scene = Scene::start("deaf").await;
    let policy = without(hasty("kb"), "/spec/targets/0/saturation/signals");
    let (history, after) = through_an_outage(&mut scene, &policy, "LatencyUnknown").await;
    assert_eq!(budgets(&history), OFF_AND_BACK, "{history:?}");
    assert!(
        after > Duration::from_secs(20),
        "it went off {after:?} after the outage began"
    );
}

#[tokio::test]
async fn a_prometheus_that_hangs_is_one_that_is_gone() {
    let scene = Scene::start("hang").await;
    scene.apply(&known_for_long()).await;
    scene.reason("Tuned").await;
    let known = scene.history().len();
    scene.prometheus.pause().unwrap();
    scene.reason("SaturationUnknown").await;
    scene.prometheus.resume().unwrap();
    scene.reason("Tuned").await;
    assert_eq!(budgets(&scene.history()[known..]), OFF_AND_BACK);
}
