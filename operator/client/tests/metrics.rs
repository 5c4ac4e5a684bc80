//! `docs/metrics.md` says what a client exports.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail as a test may")]

use std::collections::BTreeSet;

use hedgerow_client::{Hedger, Metrics};
use hedgerow_tests::{
    MetricFamilies, documented_labels, documented_metrics, exported_metrics, repository,
    with_metrics_documented,
};
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

fn page() -> String {
    std::fs::read_to_string(repository().join("docs/metrics.md")).unwrap()
}

#[test]
fn every_metric_is_told_as_it_is_and_no_other() {
    let exported = exported();
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        let page = with_metrics_documented(&page(), HEADING, &exported).unwrap();
        std::fs::write(repository().join("docs/metrics.md"), page).unwrap();
    }
    let without_values = exported.into_iter().map(|(name, mut family)| {
        family.labels.values_mut().for_each(BTreeSet::clear);
        (name, family)
    });
    assert_eq!(
        documented_metrics(&page(), HEADING).unwrap(),
        without_values.collect::<MetricFamilies>(),
        "docs/metrics.md is not what is exported; mend it with HEDGEROW_BLESS=1 cargo test -p hedgerow-client --test metrics"
    );
}

#[test]
fn the_values_of_labels_are_among_those_listed() {
    let explained = documented_labels(&page(), "Labels").unwrap();
    for (label, values) in exported().into_values().flat_map(|family| family.labels) {
        let listed = &explained[&label];
        assert!(
            listed.is_empty() || values.is_subset(listed),
            "{label} has the values {values:?}, and docs/metrics.md lists {listed:?}"
        );
    }
}
