//! What the operator tells Prometheus. One prefix, `hedgerow_`; every label has bounded values but the names of policies,
//! targets and signals, whose series go when the policy goes.

mod targets;
mod watches;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hedgerow_signals::{ReadingKind, SourceStats, TargetReadings};
use hedgerow_tuner::{Reason, Unknown};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::cluster::{Caches, Lane, WriteKind, WriteQueue};
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
    reads: Family<RoundLabels, Histogram, fn() -> Histogram>,
    lateness: Family<RoundLabels, Histogram, fn() -> Histogram>,
    readings: Family<ReadingLabels, Counter>,
    failing: Family<SourceLabel, Gauge>,
    skew: Family<SourceLabel, Gauge<f64, AtomicU64>>,
    requests: Family<SourceLabel, Counter>,
    writes: Family<WriteLabels, Counter>,
    nudges: Family<NudgeLabels, Counter>,
    changes: Family<ReasonLabel, Counter>,
    publish_errors: Family<ErrorLabel, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SourceLabel {
    source: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RoundLabels {
    source: String,
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReadingLabels {
    source: String,
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WriteLabels {
    object: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NudgeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabel {
    reason: &'static str,
}

fn seconds() -> Histogram {
    Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
}

impl Metrics {
    /// Metrics that also tell what `index`, `queue` and `caches` hold at the moment of a scrape.
    pub fn new(index: Index, queue: WriteQueue, caches: Caches) -> Self {
        let mut registry = Registry::with_prefix("hedgerow");
        let histogram: fn() -> Histogram = seconds;
        let mut inner = Inner {
            leader: Gauge::default(),
            reads: Family::new_with_constructor(histogram),
            lateness: Family::new_with_constructor(histogram),
            readings: Family::default(),
            failing: Family::default(),
            skew: Family::default(),
            requests: Family::default(),
            writes: Family::default(),
            nudges: Family::default(),
            changes: Family::default(),
            publish_errors: Family::default(),
            registry: Registry::default(),
        };
        let build = Family::<[(&str, &str); 1], Gauge>::default();
        build
            .get_or_create(&[("version", env!("CARGO_PKG_VERSION"))])
            .set(1);
        registry.register(
            "build_info",
            "1; the label tells the version of this operator",
            build,
        );
        registry.register(
            "leader",
            "1 while this replica leads, else 0",
            inner.leader.clone(),
        );
        registry.register_with_unit(
            "source_read_duration",
            "How long it took to take the readings of one kind that were due of a source",
            Unit::Seconds,
            inner.reads.clone(),
        );
        registry.register_with_unit(
            "source_read_lateness",
            "How long after its due time a target was decided",
            Unit::Seconds,
            inner.lateness.clone(),
        );
        registry.register(
            "source_readings",
            "Readings by what became of them",
            inner.readings.clone(),
        );
        registry.register(
            "source_failing",
            "1 while a source fails for all its targets, else 0",
            inner.failing.clone(),
        );
        registry.register_with_unit(
            "source_clock_skew",
            "How far the clock of a source is ahead of ours",
            Unit::Seconds,
            inner.skew.clone(),
        );
        registry.register(
            "source_requests",
            "Requests sent to a source",
            inner.requests.clone(),
        );
        registry.register(
            "api_writes",
            "Writes to the API server by what became of them; those to pods are hedgerow_nudges",
            inner.writes.clone(),
        );
        registry.register(
            "nudges",
            "Pods that were to look at a safer document at once, by what became of it",
            inner.nudges.clone(),
        );
        registry.register(
            "decision_changes",
            "Changes of what clients are told, by the reason of the new decision",
            inner.changes.clone(),
        );
        registry.register(
            "publish_errors",
            "ConfigMaps that could not be written, by reason",
            inner.publish_errors.clone(),
        );
        registry.register_collector(Box::new(targets::Targets::new(index)));
        registry.register_collector(Box::new(targets::Waiting::new(queue)));
        registry.register_collector(Box::new(watches::Watches::new(caches)));
        inner.registry = registry;
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The text that a scrape gets.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.inner.registry);
        text
    }

    /// Whether this replica leads.
    pub fn leads(&self, leads: bool) {
        self.inner.leader.set(leads.into());
    }

    /// The readings of one kind that were due of a source were taken.
    pub(crate) fn read(&self, source: &str, kind: ReadingKind, took: Duration) {
        self.inner
            .reads
            .get_or_create(&round(source, kind))
            .observe(took.as_secs_f64());
    }

    /// A target was decided this long after its due time.
    pub(crate) fn lateness(&self, source: &str, kind: ReadingKind, late: Duration) {
        self.inner
            .lateness
            .get_or_create(&round(source, kind))
            .observe(late.as_secs_f64());
    }

    /// What was read of one target.
    pub(crate) fn readings(&self, source: &str, readings: &TargetReadings) {
        let count = |kind: &'static str, outcome: Option<&Unknown>| {
            let labels = ReadingLabels {
                source: source.to_owned(),
                kind,
                outcome: outcome.map_or("Fresh", |why| why.reason.as_str()),
            };
            self.inner.readings.get_or_create(&labels).inc();
        };
        if let Some(latency) = &readings.latency {
            count(ReadingKind::Latency.as_str(), latency.windows.as_ref().err());
        }
        if let Some(counts) = &readings.counts {
            count("counters", counts.windows.as_ref().err());
        }
        for signal in &readings.signals {
            count(ReadingKind::Saturation.as_str(), signal.value.as_ref().err());
        }
    }

    /// How a source is.
    pub(crate) fn source(&self, source: &str, stats: &SourceStats) {
        let label = label(source);
        self.inner
            .failing
            .get_or_create(&label)
            .set(stats.failing.is_some().into());
        let requests = self.inner.requests.get_or_create_owned(&label);
        requests.inc_by(stats.requests.saturating_sub(requests.get()));
        if let Some(skew) = stats.clock_skew_ms.and_then(|skew| i32::try_from(skew).ok()) {
            self.inner.skew.get_or_create(&label).set(f64::from(skew) / 1e3);
        }
    }

    /// A write to the API server ended so.
    pub(crate) fn wrote(&self, object: WriteKind, outcome: &'static str) {
        if object == WriteKind::Nudge {
            self.inner.nudges.get_or_create(&NudgeLabels { outcome }).inc();
            return;
        }
        let labels = WriteLabels {
            object: object.as_str(),
            outcome,
        };
        self.inner.writes.get_or_create(&labels).inc();
    }

    /// Clients of a target are told something else.
    pub(crate) fn changed(&self, reason: Reason) {
        self.inner
            .changes
            .get_or_create(&ReasonLabel {
                reason: reason.as_str(),
            })
            .inc();
    }

    /// A ConfigMap could not be written.
    pub(crate) fn publish_failed(&self, reason: &'static str) {
        self.inner
            .publish_errors
            .get_or_create(&ErrorLabel { reason })
            .inc();
    }
}

fn round(source: &str, kind: ReadingKind) -> RoundLabels {
    RoundLabels {
        source: source.to_owned(),
        kind: kind.as_str(),
    }
}

fn label(source: &str) -> SourceLabel {
    SourceLabel {
        source: source.to_owned(),
    }
}

/// Every lane with the number of policies that wait in it.
fn waiting(queue: &WriteQueue) -> impl Iterator<Item = (&'static str, i64)> {
    Lane::ALL.into_iter().map(|lane| {
        (
            lane.as_str(),
            i64::try_from(queue.waiting(lane)).unwrap_or(i64::MAX),
        )
    })
}

#[cfg(test)]
mod tests {
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
        let text = metrics.text();
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
        assert!(!metrics.text().contains("kb-search"));
    }

    #[test]
    fn readings_are_counted_by_what_became_of_them() {
        let (_, metrics) = told();
        metrics.readings("default", &read(at(0), 3.0));
        metrics.readings("default", &crate::fixtures::unread(at(0)));
        let text = metrics.text();
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
                .text()
                .contains("hedgerow_source_requests_total{source=\"default\"} 5\n")
        );
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
        let labels = r#"watch="hedgerow-off ConfigMaps",namespace="shop""#;
        let has = |value: &str| metrics.text().contains(value);
        let worked = format!("hedgerow_watch_last_success_timestamp_seconds{{{labels}}} ");
        assert!(!has(&worked), "never is not 1970");
        slot.works();
        assert!(has(&worked), "{}", metrics.text());
        assert!(has(&format!("hedgerow_watch_failing{{{labels}}} 0\n")));
        slot.failed("forbidden".to_owned());
        assert!(has(&format!("hedgerow_watch_failing{{{labels}}} 1\n")));
    }

    #[test]
    fn every_name_has_the_prefix_once() {
        let (_, metrics) = told();
        for line in metrics.text().lines().filter(|line| !line.starts_with('#')) {
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
        let text = metrics.text();
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
