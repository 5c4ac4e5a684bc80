//! What the running operator tells Prometheus, held against the page that tells of it and against promtool.

use std::collections::BTreeSet;
use std::fs::File;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use hedgerow_tests::{
    MetricFamilies, Part, Prometheus, PrometheusOptions, documented_metrics, eventually, exported_metrics,
    part, repository, scratch,
};

use crate::policy::policy;
use crate::scene::{SOON, Scene};

fn documented() -> MetricFamilies {
    let page = std::fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    documented_metrics(&page, "The operator").unwrap()
}

#[tokio::test]
async fn the_running_operator_exports_what_is_documented_and_a_deleted_policy_leaves_nothing() {
    let scene = Scene::start("metrics").await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    scene.condition("kb", "Published", "True", "Published").await;

    let exported = exported_metrics(&scene.operator.open_metrics().await.unwrap()).unwrap();
    let documented = documented();
    assert_eq!(
        exported.keys().collect::<BTreeSet<_>>(),
        documented.keys().collect::<BTreeSet<_>>()
    );
    for (name, family) in &exported {
        let told = &documented[name];
        assert_eq!(
            (&family.kind, &family.unit, &family.help),
            (&told.kind, &told.unit, &told.help),
            "{name}"
        );
        let labels: BTreeSet<_> = family.labels.keys().collect();
        // No series, no labels.
        assert!(
            labels.is_empty() || labels == told.labels.keys().collect(),
            "{name}: {labels:?}"
        );
    }
    promtool_finds_nothing(&scene.operator.metrics().await.unwrap());
    prometheus_takes_it(&scene).await;

    scene.namespace.kubectl(&["delete", "hp", "kb"]).await.unwrap();
    eventually("its series are gone", SOON, async || {
        let metrics = scene.operator.metrics().await?;
        let left = metrics.lines().find(|line| line.contains("policy=\"kb\""));
        ensure!(left.is_none(), "there is {left:?}");
        Ok(())
    })
    .await
    .unwrap();
}

/// `promtool check metrics`, as docs/metrics.md shows it.
fn promtool_finds_nothing(metrics: &str) {
    let file = scratch("metrics").unwrap().join("metrics.txt");
    std::fs::write(&file, metrics).unwrap();
    let checked = Command::new(part(Part::Promtool).unwrap())
        .args(["check", "metrics"])
        .stdin(Stdio::from(File::open(&file).unwrap()))
        .output()
        .unwrap();
    let said = [checked.stdout, checked.stderr].concat();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// A Prometheus that scrapes the operator as docs/metrics.md says, and evaluates the alerts of the chart.
async fn prometheus_takes_it(scene: &Scene) {
    let prometheus: Prometheus = PrometheusOptions::new()
        .job("hedgerow", scene.operator.metrics_address())
        .honor_labels()
        .rules(repository().join("charts/hedgerow/files/alerts.yaml"))
        .start()
        .await
        .unwrap();
    let namespace = scene.namespace.name();
    eventually(
        "the delay is there under the policy's namespace",
        SOON,
        async || {
            let delay = format!("hedgerow_target_delay_seconds{{namespace=\"{namespace}\", policy=\"kb\"}}");
            let (_, seconds) = prometheus.query(&delay).await?.pop().context("no series")?;
            ensure!(seconds > 0.0, "it is {seconds}");
            Ok(())
        },
    )
    .await
    .unwrap();
    scene.service.queue(80.0);
    scene.reason("Saturated").await;
    eventually(
        "the alert for a switch that is open has begun to wait",
        SOON,
        async || {
            let alerts = prometheus.query("ALERTS").await?;
            let names: Vec<_> = alerts
                .iter()
                .map(|(alert, _)| alert["alertname"].to_string())
                .collect();
            ensure!(names == ["\"HedgerowSwitchOpenLong\""], "there are {alerts:?}");
            Ok(())
        },
    )
    .await
    .unwrap();
}
