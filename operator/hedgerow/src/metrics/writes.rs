//! What is written to the API server, and what waits to be.

use std::fmt::Error;

use hedgerow_api::ConditionReason;
use hedgerow_tuner::Reason;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{Labels, gauges, sample};
use crate::cluster::{Fault, Lane, PublishError, WriteError, WriteKind, WriteQueue};

#[derive(Debug)]
pub(super) struct Writes {
    writes: Family<WriteLabels, Counter>,
    nudges: Family<OutcomeLabel, Counter>,
    changes: Family<ReasonLabel, Counter>,
    publish_errors: Family<ReasonLabel, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WriteLabels {
    object: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

impl Writes {
    /// All counters from the start: one that appears with its first increment hides that one from `rate`.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let writes = Self {
            writes: Family::default(),
            nudges: Family::default(),
            changes: Family::default(),
            publish_errors: Family::default(),
        };
        for kind in WriteKind::ALL {
            let dropped = (kind == WriteKind::Event).then_some(WriteKind::DROPPED);
            let skipped = (kind == WriteKind::Nudge).then_some(WriteKind::SKIPPED);
            let common = WriteError::OUTCOMES.into_iter().chain([WriteKind::OK]);
            for outcome in common.chain(dropped).chain(skipped) {
                drop(writes.counter(kind, outcome));
            }
        }
        for reason in Reason::ALL {
            drop(writes.changes.get_or_create_owned(&reason_label(reason.as_str())));
        }
        let of_faults = Fault::REASONS.map(ConditionReason::as_str);
        for reason in PublishError::REASONS.into_iter().chain(of_faults) {
            drop(writes.publish_errors.get_or_create_owned(&reason_label(reason)));
        }
        registry.register(
            "api_writes",
            "Writes to the API server by what became of them; those to pods are hedgerow_nudges",
            writes.writes.clone(),
        );
        registry.register(
            "nudges",
            "Pods that were to look at a safer document at once, by what became of it",
            writes.nudges.clone(),
        );
        registry.register(
            "decision_changes",
            "Changes of what clients are told, by the reason of the new decision",
            writes.changes.clone(),
        );
        registry.register(
            "publish_errors",
            "Documents that could not be written as they should, by reason",
            writes.publish_errors.clone(),
        );
        writes
    }

    pub(super) fn wrote(&self, object: WriteKind, outcome: &'static str) {
        self.counter(object, outcome).inc();
    }

    pub(super) fn changed(&self, reason: Reason) {
        self.changes.get_or_create(&reason_label(reason.as_str())).inc();
    }

    pub(super) fn publish_failed(&self, reason: &'static str) {
        self.publish_errors.get_or_create(&reason_label(reason)).inc();
    }

    fn counter(&self, object: WriteKind, outcome: &'static str) -> Counter {
        if object == WriteKind::Nudge {
            return self.nudges.get_or_create_owned(&OutcomeLabel { outcome });
        }
        let object = object.as_str();
        self.writes.get_or_create_owned(&WriteLabels { object, outcome })
    }
}

fn reason_label(reason: &'static str) -> ReasonLabel {
    ReasonLabel { reason }
}

/// The write queue.
#[derive(Debug)]
pub(super) struct Waiting {
    queue: WriteQueue,
}

impl Waiting {
    pub(super) fn new(queue: WriteQueue) -> Self {
        Self { queue }
    }
}

impl Collector for Waiting {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let waiting = Lane::ALL.map(|lane| {
            let labels: Labels = vec![("lane", lane.as_str().to_owned())];
            let number = i64::try_from(self.queue.waiting(lane)).unwrap_or(i64::MAX);
            (labels, sample(number))
        });
        gauges(
            &mut encoder,
            "queue_waiting",
            "",
            "Policies that wait to be written, by lane; those that are tried again among them.",
            waiting.iter().map(|(labels, number)| (labels, *number)),
        )
    }
}
