//! A restart changes nothing by itself.

use anyhow::ensure;
use hedgerow_tests::eventually;

use crate::policy::policy;
use crate::scene::{SOON, Scene};

#[tokio::test]
async fn neither_a_restart_nor_a_kill_changes_a_document() {
    let mut scene = Scene::start("restart").await;
    scene.apply(&policy("kb")).await;
    let before = scene.reason("Tuned").await;
    let known = scene.history().len();

    let status = scene.operator.stop().await.unwrap();
    assert!(status.success(), "after SIGTERM it ended with {status}");
    scene.operator.start().await.unwrap();
    evaluates(&scene).await;
    scene.operator.kill().unwrap();
    scene.operator.start().await.unwrap();
    evaluates(&scene).await;

    assert_eq!(scene.history().len(), known, "{:?}", scene.history());
    let after = scene.document().await.unwrap();
    assert_eq!(
        (&after["revision"], &after["delayMs"]),
        (&before["revision"], &before["delayMs"])
    );
}

/// Waits until the operator leads and has read the signals a few times.
async fn evaluates(scene: &Scene) {
    let before = scene.prometheus.queries_answered().await.unwrap();
    eventually("the operator evaluates", SOON, async || {
        let asked = scene.prometheus.queries_answered().await? - before;
        ensure!(asked > 20, "it asked Prometheus {asked} times");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn what_happened_while_it_was_down_is_acted_on_at_start() {
    let mut scene = Scene::start("absent").await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    scene.operator.kill().unwrap();
    scene.service.queue(80.0);
    scene.operator.start().await.unwrap();
    scene.reason("Saturated").await;
}
