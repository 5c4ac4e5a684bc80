//! `docs/metrics.md` says what a client exports.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail as a test may")]

use hedgerow_client::{Hedger, Metrics};
use hedgerow_tests::{MetricFamilies, exported_metrics, metrics_are_documented, values_are_documented};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;

const HEADING: &str = "The client";

/// A client that follows a document that lets it hedge.
fn exported() -> MetricFamilies {
    let metrics = Metrics::default();
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let (_hedger, feed) = Hedger::builder("shard-read").metrics(&metrics).follow_feed();
    let document = json!({
        "apiVersion": "hedgerow.dev/v1", "policy": "helpdesk/kb-search", "policyUID": "u", "target": "shard-read",
        "revision": 1, "issuedAt": "2026-01-01T00:00:00Z", "enabled": true, "reason": "Tuned",
        "delayMs": 500.0, "minRemainingMs": 100.0, "maxAttempts": 2,
        "budget": { "percent": 10.0, "burst": 10, "minPerSecond": 0.0, "maxConcurrent": 100 },
    });
    feed.update(document.to_string()).unwrap();
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    exported_metrics(&text).unwrap()
}

#[test]
fn every_metric_is_told_as_it_is_and_no_other() {
    metrics_are_documented(
        HEADING,
        exported(),
        "cargo test -p hedgerow-client --test metrics",
    )
    .unwrap();
}

#[test]
fn the_values_of_labels_are_among_those_listed() {
    values_are_documented(&exported()).unwrap();
}
