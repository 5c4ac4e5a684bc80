//! What the operator tells Prometheus. One prefix, `hedgerow_`; every label has bounded values but the names of policies,
//! targets and signals, whose series go when the policy goes. `docs/metrics.md` lists them all.

#[cfg(test)]
mod documented;
mod policies;
mod sources;
mod targets;
mod watches;
mod writes;

use std::fmt::Error;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_api::HedgePolicyStatus;
use hedgerow_signals::{ReadingKind, SourceStats, TargetReadings};
use hedgerow_tuner::Reason;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use crate::cluster::{Caches, Outputs, PolicyKey, WriteKind, WriteQueue};
use crate::index::Index;

/// The operator's metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    registry: Registry,
    leader: Gauge,
    sources: sources::Sources,
    writes: writes::Writes,
    policies: policies::Policies,
}

/// The labels of one series.
type Labels = Vec<(&'static str, String)>;

impl Metrics {
    /// Metrics that also tell what `index`, `queue` and `caches` hold at the moment of a scrape.
    pub fn new(index: Index, queue: WriteQueue, caches: Caches) -> Self {
        let mut registry = Registry::with_prefix("hedgerow");
        let build = Family::<[(&str, &str); 1], Gauge>::default();
        build
            .get_or_create(&[("version", env!("CARGO_PKG_VERSION"))])
            .set(1);
        registry.register(
            "build_info",
            "1; the label tells the version of this operator",
            build,
        );
        let leader = Gauge::default();
        registry.register("leader", "1 while this replica leads, else 0", leader.clone());
        let sources = sources::Sources::register(&mut registry);
        let writes = writes::Writes::register(&mut registry);
        let policies = policies::Policies::register(&mut registry, index.clone());
        registry.register_collector(Box::new(targets::Targets::new(index)));
        registry.register_collector(Box::new(writes::Waiting::new(queue)));
        registry.register_collector(Box::new(watches::Watches::new(caches)));
        Self {
            inner: Arc::new(Inner {
                registry,
                leader,
                sources,
                writes,
                policies,
            }),
        }
    }

    /// The text that a scrape gets, as OpenMetrics.
    pub fn open_metrics(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut out, &self.inner.registry);
        out
    }

    /// The same in the older text format, for people and for what does not ask for OpenMetrics.
    pub fn plain_text(&self) -> String {
        let mut out = String::new();
        let _ = prometheus_text::encode(&mut out, &self.inner.registry);
        out
    }

    /// Also tell which of these let clients hedge.
    pub fn watch_outputs(&self, outputs: Outputs) {
        self.inner.policies.watch_outputs(outputs);
    }

    /// Whether this replica leads. Of sources and policies one that does not lead knows nothing.
    pub fn leads(&self, leads: bool) {
        self.inner.leader.set(leads.into());
        if !leads {
            self.inner.sources.forget();
            self.inner.policies.forget_all();
        }
    }

    /// The readings of one kind that were due of a source were taken.
    pub(crate) fn read(&self, source: &str, kind: ReadingKind, took: Duration) {
        self.inner.sources.read(source, kind, took);
    }

    /// A target was decided this long after its due time.
    pub(crate) fn lateness(&self, source: &str, kind: ReadingKind, late: Duration) {
        self.inner.sources.lateness(source, kind, late);
    }

    /// What was read of one target.
    pub(crate) fn readings(&self, source: &str, readings: &TargetReadings) {
        self.inner.sources.readings(source, readings);
    }

    /// How a source is.
    pub(crate) fn source(&self, source: &str, stats: &SourceStats) {
        self.inner.sources.stats(source, stats);
    }

    /// A write to the API server ended so.
    pub(crate) fn wrote(&self, object: WriteKind, outcome: &'static str) {
        self.inner.writes.wrote(object, outcome);
    }

    /// Clients of a target are told something else.
    pub(crate) fn changed(&self, reason: Reason) {
        self.inner.writes.changed(reason);
    }

    /// A ConfigMap could not be written.
    pub(crate) fn publish_failed(&self, reason: &'static str) {
        self.inner.writes.publish_failed(reason);
    }

    /// What people are told of a policy, whether the API server takes it or not.
    pub(crate) fn told(&self, policy: &PolicyKey, status: &HedgePolicyStatus) {
        self.inner.policies.told(policy, status);
    }

    /// A policy is gone.
    pub(crate) fn forget(&self, policy: &PolicyKey) {
        self.inner.policies.forget(policy);
    }
}

/// Writes a family of gauges; `name` is without prefix and unit.
fn gauges<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    unit: &str,
    help: &str,
    values: impl IntoIterator<Item = (&'a Labels, f64)>,
) -> Result<(), Error> {
    let unit = (!unit.is_empty()).then(|| Unit::Other(unit.to_owned()));
    let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
    for (labels, value) in values {
        ConstGauge::new(value).encode(family.encode_family(labels)?)?;
    }
    Ok(())
}

/// A count or a time of our age as a sample.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn sample(value: i64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use hedgerow_tuner::UnknownReason;

    use super::*;
    use crate::cluster::WriteRate;
    use crate::fixtures::{at, index, policy, read, sample};
    use crate::index::Outcome;
    use crate::status::Written;

    fn told() -> (Index, Metrics) {
        let index = index();
        index.decide(&policy(), at(0));
        let written = [("kb-hedging".to_owned(), Written::Published)];
        let outcome = Outcome {
            written: written.into(),
            ..Outcome::default()
        };
        index.set_outcome(&policy(), outcome, at(0));
        sample(&index, at(1), |now| read(now, 3.0));
        let metrics = Metrics::new(
            index.clone(),
            WriteQueue::new(WriteRate::default()),
            Caches::default(),
        );
        (index, metrics)
    }

    #[test]
    fn a_target_has_its_series_as_long_as_it_is_followed() {
        let (index, metrics) = told();
        let text = metrics.open_metrics();
        let labels = r#"namespace="helpdesk",policy="kb-search",target="shard-read""#;
        assert!(
            text.contains(&format!("hedgerow_target_delay_seconds{{{labels}}} 0.5\n")),
            "{text}"
        );
        assert!(
            text.contains(&format!(
                "hedgerow_target_signal_value{{{labels},signal=\"queue\"}} 3.0\n"
            )),
            "{text}"
        );
        assert!(
            text.contains(&format!("hedgerow_target_budget_ratio{{{labels}}} 0.025\n")),
            "{text}"
        );
        index.forget(&policy());
        assert!(!metrics.open_metrics().contains("kb-search"));
    }

    #[test]
    fn readings_are_counted_by_what_became_of_them() {
        let (_, metrics) = told();
        metrics.readings("default", &read(at(0), 3.0));
        metrics.readings("default", &crate::fixtures::unread(at(0)));
        let text = metrics.open_metrics();
        for (kind, outcome) in [
            ("latency", "Fresh"),
            ("saturation", "Fresh"),
            ("latency", "Unavailable"),
        ] {
            let series = format!(
                "hedgerow_source_readings_total{{source=\"default\",kind=\"{kind}\",outcome=\"{outcome}\"}} 1\n"
            );
            assert!(text.contains(&series), "{series} is not in {text}");
        }
    }

    #[test]
    fn requests_are_counted_as_the_source_counts_them() {
        let (_, metrics) = told();
        for requests in [3, 5] {
            metrics.source(
                "default",
                &SourceStats {
                    requests,
                    ..SourceStats::default()
                },
            );
        }
        assert!(
            metrics
                .open_metrics()
                .contains("hedgerow_source_requests_total{source=\"default\"} 5\n")
        );
    }

    #[test]
    fn a_replica_that_does_not_lead_knows_nothing_of_sources_and_policies() {
        let (_, metrics) = told();
        metrics.leads(true);
        let failing = hedgerow_tuner::Unknown::new(UnknownReason::Unavailable, "gone");
        let stats = SourceStats {
            failing: Some(failing),
            ..SourceStats::default()
        };
        metrics.source("default", &stats);
        metrics.told(&policy(), &conflicted());
        let has = |series: &str| metrics.open_metrics().contains(series);
        let failing = "hedgerow_source_failing{source=\"default\"} 1.0\n";
        let condition = "hedgerow_policy_condition{namespace=\"helpdesk\",policy=\"kb-search\",condition=\"Accepted\",\
                         status=\"False\",reason=\"Conflicted\"} 1.0\n";
        assert!(has(failing) && has(condition), "{}", metrics.open_metrics());
        metrics.leads(false);
        assert!(!has("hedgerow_source_failing{") && !has("hedgerow_policy_condition{"));
    }

    #[test]
    fn the_conditions_of_a_policy_go_with_it() {
        let (_, metrics) = told();
        metrics.told(&policy(), &conflicted());
        metrics.forget(&policy());
        assert!(!metrics.open_metrics().contains("hedgerow_policy_condition{"));
    }

    fn conflicted() -> HedgePolicyStatus {
        let condition = serde_json::json!({
            "type": "Accepted", "status": "False", "reason": "Conflicted", "message": "an older policy has it",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        serde_json::from_value(serde_json::json!({ "conditions": [condition] })).unwrap()
    }

    #[test]
    fn how_the_watches_go_is_told() {
        let caches = Caches::default();
        let metrics = Metrics::new(
            Index::default(),
            WriteQueue::new(WriteRate::default()),
            caches.clone(),
        );
        let slot = caches.slot("hedgerow-off ConfigMaps", Some("shop"));
        let labels = r#"watch="hedgerow-off ConfigMaps",scope="shop""#;
        let has = |value: &str| metrics.open_metrics().contains(value);
        let worked = format!("hedgerow_watch_last_success_timestamp_seconds{{{labels}}} ");
        assert!(!has(&worked), "never is not 1970");
        slot.works();
        assert!(has(&worked), "{}", metrics.open_metrics());
        assert!(has(&format!("hedgerow_watch_failing{{{labels}}} 0.0\n")));
        slot.failed("forbidden".to_owned());
        assert!(has(&format!("hedgerow_watch_failing{{{labels}}} 1.0\n")));
    }

    #[test]
    fn every_name_has_the_prefix_once() {
        let (_, metrics) = told();
        for line in metrics
            .open_metrics()
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            assert!(
                line.starts_with("hedgerow_") && !line.contains("hedgerow_hedgerow"),
                "{line}"
            );
        }
    }

    #[test]
    fn pods_are_counted_by_what_became_of_them_and_apart_from_other_writes() {
        let (_, metrics) = told();
        metrics.wrote(WriteKind::Nudge, "ok");
        metrics.wrote(WriteKind::Nudge, "skipped");
        let text = metrics.open_metrics();
        assert!(
            text.contains("hedgerow_nudges_total{outcome=\"ok\"} 1\n"),
            "{text}"
        );
        assert!(
            text.contains("hedgerow_nudges_total{outcome=\"skipped\"} 1\n"),
            "{text}"
        );
        assert!(!text.contains("object=\"nudge\""), "{text}");
    }
}
