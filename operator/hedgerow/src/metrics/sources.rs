//! What is known of the sources: how they answer, and how long that takes.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hedgerow_signals::{ReadingKind, SourceStats, TargetReadings};
use hedgerow_tuner::{Unknown, UnknownReason};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::{Labels, gauges, sample};

/// The counters that clients export are read with the latency, and told apart from it.
const COUNTERS: &str = "counters";
/// What became of a reading that can be used.
const FRESH: &str = "Fresh";

#[derive(Debug)]
pub(super) struct Sources {
    reads: Family<RoundLabels, Histogram, fn() -> Histogram>,
    lateness: Family<RoundLabels, Histogram, fn() -> Histogram>,
    readings: Family<ReadingLabels, Counter>,
    known: Known,
}

/// By name, how each source is. The source counts for itself.
#[derive(Clone, Debug, Default)]
struct Known(Arc<Mutex<BTreeMap<String, SourceStats>>>);

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

fn seconds() -> Histogram {
    Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
}

impl Sources {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = seconds;
        let sources = Self {
            reads: Family::new_with_constructor(histogram),
            lateness: Family::new_with_constructor(histogram),
            readings: Family::default(),
            known: Known::default(),
        };
        registry.register_with_unit(
            "source_read_duration",
            "How long it took to take the readings of one kind that were due of a source",
            Unit::Seconds,
            sources.reads.clone(),
        );
        registry.register_with_unit(
            "source_read_lateness",
            "How long after its due time a target was decided",
            Unit::Seconds,
            sources.lateness.clone(),
        );
        registry.register(
            "source_readings",
            "Readings by what became of them",
            sources.readings.clone(),
        );
        registry.register_collector(Box::new(sources.known.clone()));
        sources
    }

    pub(super) fn read(&self, source: &str, kind: ReadingKind, took: Duration) {
        self.reads
            .get_or_create(&round(source, kind))
            .observe(took.as_secs_f64());
    }

    pub(super) fn lateness(&self, source: &str, kind: ReadingKind, late: Duration) {
        self.lateness
            .get_or_create(&round(source, kind))
            .observe(late.as_secs_f64());
    }

    pub(super) fn readings(&self, source: &str, readings: &TargetReadings) {
        let count = |kind, unknown: Option<&Unknown>| {
            self.counter(source, kind, unknown.map(|why| why.reason)).inc();
        };
        if let Some(latency) = &readings.latency {
            count(ReadingKind::Latency.as_str(), latency.windows.as_ref().err());
        }
        if let Some(counts) = &readings.counts {
            count(COUNTERS, counts.windows.as_ref().err());
        }
        for signal in &readings.signals {
            count(ReadingKind::Saturation.as_str(), signal.value.as_ref().err());
        }
    }

    pub(super) fn stats(&self, source: &str, stats: &SourceStats) {
        if self
            .known
            .lock()
            .insert(source.to_owned(), stats.clone())
            .is_none()
        {
            // All of them from the start: a counter that appears with its first increment hides that one from `rate`.
            let reasons = UnknownReason::ALL.iter().copied().map(Some);
            for reason in reasons.chain([None]) {
                let kinds = ReadingKind::ALL.map(ReadingKind::as_str);
                for kind in kinds.into_iter().chain([COUNTERS]) {
                    drop(self.counter(source, kind, reason));
                }
            }
        }
    }

    /// Whoever asks no longer does not know how a source is.
    pub(super) fn forget(&self) {
        self.known.lock().clear();
    }

    fn counter(&self, source: &str, kind: &'static str, unknown: Option<UnknownReason>) -> Counter {
        let outcome = unknown.map_or(FRESH, UnknownReason::as_str);
        let source = source.to_owned();
        self.readings.get_or_create_owned(&ReadingLabels {
            source,
            kind,
            outcome,
        })
    }
}

fn round(source: &str, kind: ReadingKind) -> RoundLabels {
    RoundLabels {
        source: source.to_owned(),
        kind: kind.as_str(),
    }
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, SourceStats>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Known {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let known = self.lock().clone();
        let sources: Vec<(Labels, &SourceStats)> = known
            .iter()
            .map(|(name, stats)| (vec![("source", name.clone())], stats))
            .collect();
        let failing = |stats: &SourceStats| f64::from(u8::from(stats.failing.is_some()));
        gauges(
            &mut encoder,
            "source_failing",
            "",
            "1 while a source fails for all its targets, else 0.",
            sources.iter().map(|(labels, stats)| (labels, failing(stats))),
        )?;
        let skew = |stats: &SourceStats| stats.clock_skew_ms.map(|skew| sample(skew) / 1e3);
        gauges(
            &mut encoder,
            "source_clock_skew",
            "seconds",
            "How far the clock of a source is ahead of ours.",
            sources
                .iter()
                .filter_map(|(labels, stats)| Some((labels, skew(stats)?))),
        )?;
        counters(
            &mut encoder,
            "source_requests",
            "",
            "Requests sent to a source.",
            sources
                .iter()
                .map(|(labels, stats)| (labels.clone(), stats.requests)),
        )?;
        counters(
            &mut encoder,
            "source_request",
            "seconds",
            "The time that requests to a source took, all together: by hedgerow_source_requests_total, what one takes.",
            sources
                .iter()
                .map(|(labels, stats)| (labels.clone(), stats.busy.as_secs_f64())),
        )?;
        counters(
            &mut encoder,
            "source_response",
            "bytes",
            "Bytes of a source's answers, headers apart.",
            sources
                .iter()
                .map(|(labels, stats)| (labels.clone(), stats.bytes)),
        )?;
        let failures = sources.iter().flat_map(|(labels, stats)| {
            UnknownReason::ALL.iter().map(|reason| {
                let mut labels = labels.clone();
                labels.push(("reason", reason.as_str().to_owned()));
                (labels, stats.failures.get(reason).copied().unwrap_or_default())
            })
        });
        counters(
            &mut encoder,
            "source_request_failures",
            "",
            "Requests to a source that failed, by reason.",
            failures,
        )
    }
}

fn counters<N: EncodeCounterValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    unit: &str,
    help: &str,
    values: impl IntoIterator<Item = (Labels, N)>,
) -> Result<(), Error> {
    let unit = (!unit.is_empty()).then(|| Unit::Other(unit.to_owned()));
    let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
    for (labels, value) in values {
        ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
