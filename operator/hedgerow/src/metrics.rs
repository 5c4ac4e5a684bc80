//! What the operator exports about itself. Every name begins with `hedgerow_`.
//!
//! What is not known has no series: an absent delay is not a delay of zero.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hedgerow_signals::SourceStats;
use hedgerow_tuner::{Decision, Reason, SwitchState, UnknownReason};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

type Seconds = Gauge<f64, AtomicU64>;
type SecondsTotal = Counter<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabel {
    source: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    source: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReadingLabels {
    source: String,
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetLabels {
    namespace: String,
    policy: String,
    target: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    object: &'static str,
    outcome: &'static str,
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingKind {
    /// A latency distribution.
    Latency,
    /// A saturation signal.
    Saturation,
}

/// What was written to the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// A ConfigMap of documents.
    ConfigMap,
    /// A policy's status.
    Status,
    /// An event.
    Event,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is stored.
    Written,
    /// Another object or policy has the name.
    Conflict,
    /// This replica does not lead, or is no longer sure of it.
    NotLeading,
    /// The API server refused it, failed or did not answer.
    Failed,
}

/// Every metric of the operator. Clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: std::sync::Arc<Registry>,
    requests: Family<SourceLabel, Counter>,
    request_seconds: Family<SourceLabel, SecondsTotal>,
    received: Family<SourceLabel, Counter>,
    failures: Family<FailureLabels, Counter>,
    dropped_groups: Family<SourceLabel, Counter>,
    failing: Family<SourceLabel, Gauge>,
    skew: Family<SourceLabel, Seconds>,
    readings: Family<ReadingLabels, Counter>,
    lateness: Family<SourceLabel, Histogram>,
    enabled: Family<TargetLabels, Gauge>,
    delay: Family<TargetLabels, Seconds>,
    recommended: Family<TargetLabels, Seconds>,
    budget: Family<TargetLabels, Seconds>,
    switch: Family<TargetLabels, Gauge>,
    changes: Family<ReasonLabel, Counter>,
    writes: Family<WriteLabels, Counter>,
    leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Every metric, at its start.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: std::sync::Arc::default(),
            requests: Family::default(),
            request_seconds: Family::default(),
            received: Family::default(),
            failures: Family::default(),
            dropped_groups: Family::default(),
            failing: Family::default(),
            skew: Family::default(),
            readings: Family::default(),
            lateness: Family::new_with_constructor(|| Histogram::new(LATENESS_SECONDS)),
            enabled: Family::default(),
            delay: Family::default(),
            recommended: Family::default(),
            budget: Family::default(),
            switch: Family::default(),
            changes: Family::default(),
            writes: Family::default(),
            leader: Gauge::default(),
        };
        metrics.registry = std::sync::Arc::new(metrics.registered());
        metrics
    }

    fn registered(&self) -> Registry {
        let mut r = Registry::with_prefix("hedgerow");
        r.register("source_requests", "Requests sent to a source", self.requests.clone());
        r.register("source_request_seconds", "Time that requests to a source took, in all", self.request_seconds.clone());
        r.register("source_received_bytes", "Bytes of answers from a source", self.received.clone());
        r.register("source_failures", "Failed requests to a source", self.failures.clone());
        r.register("source_dropped_groups", "Groups in answers that nobody asked for", self.dropped_groups.clone());
        r.register("source_failing", "1 while a source answers nothing", self.failing.clone());
        r.register("source_clock_skew_seconds", "How far a source's clock is ahead of ours", self.skew.clone());
        r.register("readings", "Readings by outcome: Fresh, or why unknown", self.readings.clone());
        r.register("poll_lateness_seconds", "How long after its time a poll of a source began", self.lateness.clone());
        r.register("target_hedging", "1 while clients are told to hedge", self.enabled.clone());
        r.register("target_delay_seconds", "The hedge delay that clients are told", self.delay.clone());
        r.register("target_recommended_delay_seconds", "The delay that the percentile asks for", self.recommended.clone());
        r.register("target_budget_ratio", "Hedges allowed per call", self.budget.clone());
        r.register("target_switch_state", "The off-switch: 0 open, 1 ramping, 2 closed", self.switch.clone());
        r.register("decision_changes", "Changes of what clients are told, by the new reason", self.changes.clone());
        r.register("api_writes", "Writes to the Kubernetes API", self.writes.clone());
        r.register("leader", "1 while this replica leads", self.leader.clone());
        r.register("build", "The running version", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        r
    }

    /// What a source has done so far.
    pub fn source(&self, source: &str, stats: &SourceStats) {
        let label = SourceLabel { source: source.to_owned() };
        set(&self.requests, &label, stats.requests);
        set(&self.received, &label, stats.bytes);
        set(&self.dropped_groups, &label, stats.dropped_groups);
        let busy = stats.busy.as_secs_f64();
        self.request_seconds.get_or_create(&label).inner().store(busy.to_bits(), Relaxed);
        for (reason, &count) in &stats.failures {
            set(&self.failures, &FailureLabels { source: source.to_owned(), reason: reason.as_str() }, count);
        }
        self.failing.get_or_create(&label).set(i64::from(stats.failing.is_some()));
        known(&self.skew, &label, stats.clock_skew_ms.map(|ms| Duration::from_millis(ms.unsigned_abs()).as_secs_f64().copysign(sign(ms))));
    }

    /// One reading, fresh or not.
    pub fn read(&self, source: &str, kind: ReadingKind, unknown: Option<UnknownReason>) {
        let kind = match kind {
            ReadingKind::Latency => "latency",
            ReadingKind::Saturation => "saturation",
        };
        let outcome = unknown.map_or("Fresh", UnknownReason::as_str);
        self.readings.get_or_create(&ReadingLabels { source: source.to_owned(), kind, outcome }).inc();
    }

    /// How long after its time a poll began.
    pub fn polled(&self, source: &str, lateness: Duration) {
        self.lateness.get_or_create(&SourceLabel { source: source.to_owned() }).observe(lateness.as_secs_f64());
    }

    /// What is so for a target now.
    pub fn decided(&self, namespace: &str, policy: &str, target: &str, decision: &Decision) {
        let label = labels(namespace, policy, target);
        let hedging = decision.orders.hedging;
        self.enabled.get_or_create(&label).set(i64::from(hedging.is_some()));
        known(&self.delay, &label, hedging.map(|h| h.delay_ms / 1000.0));
        known(&self.recommended, &label, decision.recommended_ms.map(|ms| ms / 1000.0));
        self.budget.get_or_create(&label).set(hedging.map_or(0.0, |h| h.percent / 100.0));
        self.switch.get_or_create(&label).set(match decision.switch {
            SwitchState::Open { .. } => 0,
            SwitchState::Ramping { .. } => 1,
            SwitchState::Closed => 2,
        });
    }

    /// Clients are told something else.
    pub fn changed(&self, reason: Reason) {
        self.changes.get_or_create(&ReasonLabel { reason: reason.as_str() }).inc();
    }

    /// A target is gone: so are its series.
    pub fn forget(&self, namespace: &str, policy: &str, target: &str) {
        let label = labels(namespace, policy, target);
        self.enabled.remove(&label);
        self.switch.remove(&label);
        for family in [&self.delay, &self.recommended, &self.budget] {
            family.remove(&label);
        }
    }

    /// A write to the API ended.
    pub fn wrote(&self, object: Object, outcome: WriteOutcome) {
        let object = match object {
            Object::ConfigMap => "configmap",
            Object::Status => "status",
            Object::Event => "event",
        };
        let outcome = match outcome {
            WriteOutcome::Written => "written",
            WriteOutcome::Conflict => "conflict",
            WriteOutcome::NotLeading => "not_leading",
            WriteOutcome::Failed => "failed",
        };
        self.writes.get_or_create(&WriteLabels { object, outcome }).inc();
    }

    /// Whether this replica leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Everything, as Prometheus reads it.
    ///
    /// # Errors
    /// When a value cannot be written as text, which a value of these types always can.
    pub fn exposition(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// From well under an evaluation to longer than any interval.
const LATENESS_SECONDS: [f64; 10] = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

fn labels(namespace: &str, policy: &str, target: &str) -> TargetLabels {
    TargetLabels { namespace: namespace.to_owned(), policy: policy.to_owned(), target: target.to_owned() }
}

/// Takes over a count that is kept elsewhere.
fn set<L>(family: &Family<L, Counter>, label: &L, total: u64)
where
    L: Clone + Eq + std::hash::Hash,
{
    family.get_or_create(label).inner().store(total, Relaxed);
}

/// Sets a gauge that is known, and removes one that is not.
fn known<L>(family: &Family<L, Seconds>, label: &L, value: Option<f64>)
where
    L: Clone + Eq + std::hash::Hash,
{
    match value {
        Some(value) => {
            family.get_or_create(label).set(value);
        }
        None => {
            family.remove(label);
        }
    }
}

fn sign(number: i64) -> f64 {
    if number < 0 { -1.0 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hedgerow_tuner::{Effect, Hedging, LatencyView, Orders};

    use super::*;

    fn decision(hedging: Option<Hedging>) -> Decision {
        Decision {
            revision: 1,
            orders: Orders { hedging, reason: Reason::Tuned },
            reason: Reason::Tuned,
            message: String::new(),
            recommended_ms: hedging.map(|h| h.delay_ms),
            limited_by: None,
            low_confidence: None,
            latency: LatencyView::default(),
            signals: Vec::new(),
            switch: SwitchState::Closed,
            effect: Effect::default(),
            windows_wanted: Vec::new(),
            wants_wider: false,
        }
    }

    #[test]
    fn a_delay_that_is_not_known_has_no_series() {
        let metrics = Metrics::new();
        let on = Hedging { delay_ms: 512.0, min_remaining_ms: 150.0, percent: 10.0, min_per_second: 0.0 };
        let series = "hedgerow_target_delay_seconds{namespace=\"helpdesk\",policy=\"kb\",target=\"read\"}";
        metrics.decided("helpdesk", "kb", "read", &decision(Some(on)));
        assert!(metrics.exposition().unwrap().contains(&format!("{series} 0.512\n")));
        metrics.decided("helpdesk", "kb", "read", &decision(None));
        let off = metrics.exposition().unwrap();
        assert!(!off.contains(series), "{off}");
        assert!(off.contains("hedgerow_target_hedging{namespace=\"helpdesk\",policy=\"kb\",target=\"read\"} 0\n"));
    }

    #[test]
    fn the_series_of_a_target_go_with_it() {
        let metrics = Metrics::new();
        metrics.decided("helpdesk", "kb", "read", &decision(None));
        metrics.forget("helpdesk", "kb", "read");
        assert!(!metrics.exposition().unwrap().contains("policy=\"kb\""));
    }

    #[test]
    fn a_source_is_told_with_its_failures_and_a_skew_that_can_be_negative() {
        let metrics = Metrics::new();
        let stats = SourceStats {
            requests: 7,
            failures: BTreeMap::from([(UnknownReason::Timeout, 2)]),
            clock_skew_ms: Some(-1500),
            busy: Duration::from_millis(250),
            ..SourceStats::default()
        };
        metrics.source("default", &stats);
        let text = metrics.exposition().unwrap();
        for line in [
            "hedgerow_source_requests_total{source=\"default\"} 7",
            "hedgerow_source_failures_total{source=\"default\",reason=\"Timeout\"} 2",
            "hedgerow_source_request_seconds_total{source=\"default\"} 0.25",
            "hedgerow_source_clock_skew_seconds{source=\"default\"} -1.5",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
