//! `docs/metrics.md` says what is exported.

use std::collections::BTreeSet;
use std::time::Duration;

use hedgerow_api::ConditionReason;
use hedgerow_signals::{ReadingKind, SourceStats};
use hedgerow_tests::{
    MetricFamilies, documented_labels, documented_metrics, exported_metrics, metrics_are_documented,
    metrics_page, values_are_documented,
};

use super::Metrics;
use crate::cluster::{Caches, WriteQueue, WriteRate};
use crate::fixtures::{at, counted_spec, follow, policy, read_hedged, sample, unknown};
use crate::index::{Index, Outcome};
use crate::status::Written;

const HEADING: &str = "The operator";

/// An operator to which everything has happened that it has a metric for.
fn exported() -> MetricFamilies {
    let index = Index::default();
    let mut spec = counted_spec();
    spec["targets"][0]["hedging"]["wins"] = serde_json::json!({ "rateOf": "wins_total" });
    index.follow(&policy(), follow(&spec), unknown);
    index.decide(&policy(), at(0));
    let outcome = Outcome {
        written: [("kb-hedging".to_owned(), Written::Published)].into(),
        again_at: Some(at(1800)),
        ..Outcome::default()
    };
    index.set_outcome(&policy(), outcome, at(0));
    sample(&index, at(1), |now| {
        let mut readings = read_hedged(now, true);
        let counts = readings.counts.iter_mut().flat_map(|counts| &mut counts.windows);
        for window in counts.flatten() {
            // No hedge wins: something to diagnose.
            window.wins = Some(0.0);
        }
        readings
    });
    let caches = Caches::default();
    caches.slot("HedgePolicies", None).works();
    let metrics = Metrics::new(index, WriteQueue::new(WriteRate::default()), caches);
    let stats = SourceStats {
        clock_skew_ms: Some(0),
        ..SourceStats::default()
    };
    metrics.source("default", &stats);
    for kind in ReadingKind::ALL {
        metrics.read("default", kind, Duration::ZERO);
        metrics.lateness("default", kind, Duration::ZERO);
    }
    let condition = |status: &str, reason: ConditionReason| {
        serde_json::json!({
            "type": "Accepted", "status": status, "reason": reason.as_str(), "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let status = serde_json::json!({ "conditions": [condition("True", ConditionReason::Accepted)] });
    metrics.told(&policy(), &serde_json::from_value(status).unwrap());
    exported_metrics(&metrics.open_metrics()).unwrap()
}

#[test]
fn every_metric_is_told_as_it_is_and_no_other() {
    metrics_are_documented(HEADING, exported(), "cargo test -p hedgerow --lib documented").unwrap();
}

#[test]
fn every_label_is_explained_with_the_values_that_it_has() {
    let (page, exported) = (metrics_page().unwrap(), exported());
    let client = documented_metrics(&page, "The client").unwrap();
    let families = exported.values().chain(client.values());
    let names: BTreeSet<&String> = families.flat_map(|family| family.labels.keys()).collect();
    let explained = documented_labels(&page, "Labels").unwrap();
    assert_eq!(explained.keys().collect::<BTreeSet<_>>(), names);
    values_are_documented(&exported).unwrap();
}
