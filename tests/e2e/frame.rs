//! The frame itself: what the other tests stand on.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use hedgerow_tests::{Cluster, Exposition, Hopeless, Mark, PrometheusOptions, eventually, processes_alive};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;

use crate::shared;

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_dropped_cluster_leaves_no_process() {
    let cluster = Cluster::start().await.unwrap().with_controllers().unwrap();
    let pids = cluster.pids();
    assert_eq!(processes_alive(&pids), pids);
    assert_eq!(pids.len(), 3);
    drop(cluster);
    assert!(processes_alive(&pids).is_empty());
}

/// Not a test by itself: what [`a_killed_test_run_leaves_no_process`] runs and kills.
#[tokio::test]
#[ignore = "runs until it is killed"]
async fn hold_a_cluster_until_killed() {
    let cluster = Cluster::start().await.unwrap();
    let pids: Vec<_> = cluster.pids().iter().map(u32::to_string).collect();
    println!("\npids: {}", pids.join(" "));
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_test_run_leaves_no_process() {
    let mut run = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "frame::hold_a_cluster_until_killed",
            "--nocapture",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(run.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let said = lines
        .into_iter()
        .find_map(|line| Some(line.strip_prefix("pids: ")?.to_owned()))
        .unwrap();
    let pids: Vec<u32> = said.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(processes_alive(&pids), pids);
    run.kill().unwrap();
    run.wait().unwrap();
    eventually("the cluster of a killed run is gone", SOON, async || {
        let left = processes_alive(&pids);
        ensure!(left.is_empty(), "pids {left:?} are there");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn two_namespaces_of_one_name_are_two() {
    let (one, other) = (shared::namespace("twin").await, shared::namespace("twin").await);
    assert_ne!(one.name(), other.name());
    one.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
        .await
        .unwrap();
    assert!(other.api::<ConfigMap>().get_opt("a").await.unwrap().is_none());
    assert!(one.api::<ConfigMap>().get_opt("a").await.unwrap().is_some());
}

#[tokio::test]
async fn the_audit_log_tells_who_wrote_what() {
    let namespace = shared::namespace("audit").await;
    let audit = shared::cluster().await.audit();
    let mark = audit.mark().unwrap();
    let map: ConfigMap = serde_json::from_value(serde_json::json!({
        "metadata": { "name": "a" }, "data": { "k": "v" },
    }))
    .unwrap();
    let maps = namespace.api::<ConfigMap>();
    maps.create(&PostParams::default(), &map).await.unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap_err();

    let mut writes = audit.writes_by("admin", mark).unwrap();
    writes.retain(|write| write.object_ref.namespace == namespace.name());
    let told: Vec<_> = writes
        .iter()
        .map(|write| {
            (
                write.verb.as_str(),
                write.object_ref.resource.as_str(),
                write.code(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [("create", "configmaps", 201), ("create", "configmaps", 409)]
    );
    assert_eq!(writes[0].request_object["data"]["k"], "v");
    assert!(audit.writes_by("nobody", Mark::default()).unwrap().is_empty());
}

#[tokio::test]
async fn prometheus_scrapes_what_a_test_serves() {
    let exposition = Exposition::serve().await.unwrap();
    exposition.series("queue_depth", &[("index", "k\"b")]).set(3.0);
    let reads = exposition.histogram("read_seconds", &[], &[0.1, 0.5]);
    reads.observe(0.3, 4.0);
    let mut prometheus = PrometheusOptions::new()
        .job("search", exposition.address())
        .alert("Deep", "queue_depth > 2")
        .start()
        .await
        .unwrap();

    eventually("both metrics are scraped and the alert fires", SOON, async || {
        let gauge = prometheus.query("queue_depth").await?;
        let (labels, depth) = gauge.first().context("no queue depth yet")?;
        ensure!((*depth, &labels["index"]) == (3.0, &"k\"b".into()), "{gauge:?}");
        let buckets = prometheus.query("read_seconds_bucket").await?;
        let mut counts: Vec<_> = buckets
            .iter()
            .map(|(labels, count)| (labels["le"].to_string(), *count))
            .collect();
        counts.sort_by(|one, other| one.0.cmp(&other.0));
        ensure!(
            counts.iter().map(|(_, count)| *count).eq([4.0, 0.0, 4.0]),
            "{counts:?}"
        );
        ensure!(
            prometheus
                .query("ALERTS{alertname='Deep',alertstate='firing'}")
                .await?
                .len()
                == 1,
            "not firing"
        );
        Ok(())
    })
    .await
    .unwrap();

    prometheus.stop().await.unwrap();
    prometheus.query("up").await.unwrap_err();
    prometheus.start().await.unwrap();
    let before = prometheus.queries_answered().await.unwrap();
    prometheus.query("up").await.unwrap();
    assert_eq!(prometheus.queries_answered().await.unwrap(), before + 1);
}

#[tokio::test]
async fn a_wait_that_fails_says_what_was_seen() {
    let error = eventually(
        "it rains",
        Duration::from_millis(1),
        async || -> anyhow::Result<()> { bail!("the sky is blue") },
    )
    .await
    .unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "waited 1ms for this: it rains: the sky is blue"
    );
}

#[tokio::test]
async fn a_wait_for_what_has_ended_is_over_at_once() {
    let forever = Duration::from_secs(1_000_000);
    let error = eventually("it rains", forever, async || -> anyhow::Result<()> {
        Err(Hopeless("the sky has fallen".to_owned()).into())
    })
    .await
    .unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "waited in vain for this: it rains: the sky has fallen"
    );
}
