//! What the operator costs: printed, not judged, because it depends on the machine. `make bench-rss` runs it.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::ensure;
use hedgerow_tests::{Build, OperatorOptions, eventually};
use serde_json::json;

use crate::policy::{KEY, policy, with};
use crate::scene::{SOON, document};
use crate::service::Service;
use crate::shared;

const POLICIES: u32 = 100;
const MEASURED: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "a benchmark: run by `make bench-rss`"]
async fn of_a_hundred_policies() {
    let cluster = shared::cluster().await;
    let (home, namespace) = (
        cluster.namespace("cost-operator").await.unwrap(),
        cluster.namespace("cost").await.unwrap(),
    );
    let service = Service::start().await;
    let prometheus = service.scraped().await;
    let operator = OperatorOptions::new(cluster, &home, &[&namespace])
        .source(&prometheus.url())
        .build(Build::Release)
        .start()
        .await
        .unwrap();
    for number in 0..POLICIES {
        let name = format!("kb-{number}");
        let policy = with(policy(&name), "/spec/publish/0/configMap", json!(name));
        // The intervals that a policy has when it says none.
        let policy = with(policy, "/spec/interval", json!("30s"));
        let policy = with(policy, "/spec/saturationInterval", json!("5s"));
        let policy = with(policy, "/spec/maxStaleness", json!("5m"));
        namespace.apply(&policy.to_string()).await.unwrap();
    }
    eventually("every policy is tuned", SOON * 5, async || {
        for number in 0..POLICIES {
            let document = document(&namespace, &format!("kb-{number}"), KEY).await?;
            ensure!(document["reason"] == "Tuned", "kb-{number} is {document}");
        }
        Ok(())
    })
    .await
    .unwrap();

    let pid = operator.pid().unwrap();
    let (cpu, queries, start) = (
        cpu_seconds(pid),
        prometheus.queries_answered().await.unwrap(),
        Instant::now(),
    );
    tokio::time::sleep(MEASURED).await;
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    let cpu = (cpu_seconds(pid) - cpu) / minutes;
    let queries =
        f64::from(u32::try_from(prometheus.queries_answered().await.unwrap() - queries).unwrap()) / minutes;
    let (now, peak) = (status_kilobytes(pid, "VmRSS:"), status_kilobytes(pid, "VmHWM:"));
    println!(
        "\n{POLICIES} policies, release build:\n  memory  {:.1} MB resident, {:.1} MB at most (aim: below 40 MB)\n  \
         CPU     {cpu:.2} s a minute\n  queries {queries:.0} a minute",
        now / 1024.0,
        peak / 1024.0
    );
}

/// User and system time, in the kernel's ticks of a hundredth of a second.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The command's name, in parentheses, may hold spaces.
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: f64 = fields[11..=12]
        .iter()
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum();
    ticks / 100.0
}

fn status_kilobytes(pid: u32, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
