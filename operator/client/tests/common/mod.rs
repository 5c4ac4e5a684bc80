//! What the tests of the client share.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub)] // Each test program uses a part of it.

use hedgerow_client::{Hedger, Metrics};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

/// An enabled document without expiry: delay 500 ms, deadline 1 s, 10 %, two attempts.
pub fn document() -> Value {
    serde_json::from_str(include_str!("../document.json")).unwrap()
}

/// The same with some fields changed, each given by its JSON pointer.
pub fn document_with<const N: usize>(changes: [(&str, Value); N]) -> String {
    let mut document = document();
    for (pointer, value) in changes {
        match document.pointer_mut(pointer) {
            Some(field) => *field = value,
            None => document[&pointer[1..]] = value,
        }
    }
    document.to_string()
}

/// One that every call may hedge under, once ten calls were made or two seconds have passed.
pub fn generous() -> String {
    document_with([
        ("/budget/percent", json!(100)),
        ("/budget/minPerSecond", json!(1000)),
    ])
}

/// Why a hedge or a retry may be kept back: the values of the label `reason`.
pub const REASONS: [&str; 7] = [
    "budget",
    "concurrency",
    "deadline",
    "replicas",
    "attempts",
    "off",
    "expired",
];

/// The revision followed; `None` without a document.
pub fn revision(hedger: &Hedger) -> Option<u64> {
    hedger.document().map(|document| document.revision)
}

/// What Prometheus would read.
pub struct Scraped(Registry);

impl Scraped {
    pub fn new(metrics: &Metrics) -> Self {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        Self(registry)
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.0).unwrap();
        text
    }

    /// The value of one series of the client, such as `calls_total{target="t"}`.
    pub fn get(&self, series: &str) -> Option<f64> {
        let name = format!("hedgerow_client_{series} ");
        self.text()
            .lines()
            .find_map(|line| line.strip_prefix(&name)?.parse().ok())
    }

    /// A counter of the target `shard-read`.
    pub fn count(&self, name: &str) -> u64 {
        self.counter(&format!("{name}_total{{target=\"shard-read\"}}"))
    }

    /// Hedges blocked for this reason.
    pub fn blocked(&self, reason: &str) -> u64 {
        self.counter(&format!(
            "blocked_total{{target=\"shard-read\",reason=\"{reason}\"}}"
        ))
    }

    /// Retries refused for this reason.
    pub fn retries_blocked(&self, reason: &str) -> u64 {
        self.counter(&format!(
            "retries_blocked_total{{target=\"shard-read\",reason=\"{reason}\"}}"
        ))
    }

    fn counter(&self, series: &str) -> u64 {
        let name = format!("hedgerow_client_{series} ");
        self.text()
            .lines()
            .find_map(|line| line.strip_prefix(&name))
            .unwrap()
            .parse()
            .unwrap()
    }
}
