//! A restart changes nothing by itself.

use std::time::Duration;

use anyhow::ensure;
use hedgerow_tests::{Condition, OperatorOptions, eventually, http_client};

use crate::policy::policy;
use crate::scene::{SOON, Scene};
use crate::shared;

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

#[tokio::test]
async fn an_api_server_that_does_not_answer_at_start_is_waited_for() {
    let (cluster, home) = (shared::cluster().await, shared::namespace("waits").await);
    let link = cluster.link().await.unwrap();
    // Whether there is a Prometheus is another matter.
    let options = OperatorOptions::new(cluster, &home, &[&home]).source("http://127.0.0.1:1");
    let mut operator = options.through(&link).start().await.unwrap();
    operator.kill().unwrap();
    link.set(Condition::Stalled);
    let readyz = format!("http://{}/readyz", operator.metrics_address());
    let http = http_client(Duration::from_secs(5)).unwrap();
    let waits = async {
        eventually("it is unready and says what it waits for", SOON, async || {
            let answer = http.get(&readyz).send().await?;
            let (status, text) = (answer.status(), answer.text().await?);
            ensure!(
                status == 503 && text.contains("did not answer within 5 s"),
                "{status}: {text}"
            );
            Ok(())
        })
        .await
        .unwrap();
        link.set(Condition::Whole);
    };
    let (started, ()) = tokio::join!(operator.start(), waits);
    started.unwrap();
    assert!(operator.stop().await.unwrap().success());
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
