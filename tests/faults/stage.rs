//! What the groups of faults share.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hedgerow_tests::{Namespace, Operator, eventually};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::policy::{KEY, hasty as policy, with};
use crate::scene::document;

/// Longer than anything takes that is to come by itself, on a busy machine, back-offs included.
pub(crate) const SOON: Duration = Duration::from_secs(120);

/// A policy that publishes to a ConfigMap of its own name.
pub(crate) fn policy_of(name: &str) -> Value {
    with(policy(name), "/spec/publish/0/configMap", json!(name))
}

pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// Waits until the document of a ConfigMap has one of these reasons.
pub(crate) async fn says(namespace: &Namespace, config_map: &str, reasons: &[&str]) -> Result<Value> {
    eventually(
        &format!("{config_map} says one of {reasons:?}"),
        SOON,
        async || {
            let document = document(namespace, config_map, KEY).await?;
            let reason = document["reason"].as_str().unwrap_or_default();
            ensure!(reasons.contains(&reason), "it says {document}");
            Ok(document)
        },
    )
    .await
}

/// The most memory that a process has had at once, in MiB.
pub(crate) fn peak_memory(operator: &Operator) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", operator.pid().unwrap())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM")
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}
