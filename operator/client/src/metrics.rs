//! What a client tells Prometheus.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hedgerow_config::NativeDocument;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::Blocked;

/// What all hedgers of a process tell Prometheus, apart by the label `target`. Cheap to clone.
///
/// A call that its caller drops is in `calls` and `attempts` and has no duration: nobody knows how long it would have
/// taken. Give calls a deadline rather than a timeout of your own around them, so that slow ones are seen.
///
/// | metric | |
/// | --- | --- |
/// | `hedgerow_client_calls_total` | logical calls begun |
/// | `hedgerow_client_attempts_total` | physical attempts sent: primaries, hedges and retries |
/// | `hedgerow_client_hedges_total` | hedges sent |
/// | `hedgerow_client_wins_total` | calls that a hedge answered |
/// | `hedgerow_client_blocked_total{reason}` | hedges whose time had come and that were skipped: `budget`, `concurrency`, `deadline`, `replicas`, `attempts`, `off`, `expired` |
/// | `hedgerow_client_retries_total` | retries that drew on a call's attempts and on the budget |
/// | `hedgerow_client_retries_blocked_total{reason}` | retries that were refused, by the same reasons |
/// | `hedgerow_client_call_duration_seconds` | how long logical calls took, those cut at their deadline included |
/// | `hedgerow_client_loser_survival_seconds` | how long attempts lived on after they were cancelled, where the transport tells their end |
/// | `hedgerow_client_delay_seconds` | the hedge delay; absent while not hedging |
/// | `hedgerow_client_revision` | the revision of the document followed; absent without one |
/// | `hedgerow_client_documents_total{outcome}` | documents found: `accepted`, `missing`, `unreadable`, `malformed`, `newer_version`, `expired` |
/// | `hedgerow_client_hedges_shed_total` | without `target`: hedges of others that this process turned away as a server |
#[derive(Clone, Debug)]
pub struct Metrics {
    calls: Family<Target, Counter>,
    attempts: Family<Target, Counter>,
    hedges: Family<Target, Counter>,
    wins: Family<Target, Counter>,
    blocked: Family<Reason, Counter>,
    retries: Family<Target, Counter>,
    retries_blocked: Family<Reason, Counter>,
    call_duration: Family<Target, Histogram, fn() -> Histogram>,
    loser_survival: Family<Target, Histogram, fn() -> Histogram>,
    delay: Family<Target, Gauge<f64, AtomicU64>>,
    revision: Family<Target, Gauge>,
    documents: Family<Found, Counter>,
    pub(crate) hedges_shed: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Target {
    target: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    target: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Found {
    target: String,
    outcome: &'static str,
}

/// What was found where a document should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Accepted,
    Missing,
    Unreadable,
    Malformed,
    NewerVersion,
    Expired,
}

impl Outcome {
    const ALL: [Self; 6] = [
        Self::Accepted,
        Self::Missing,
        Self::Unreadable,
        Self::Malformed,
        Self::NewerVersion,
        Self::Expired,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Missing => "missing",
            Self::Unreadable => "unreadable",
            Self::Malformed => "malformed",
            Self::NewerVersion => "newer_version",
            Self::Expired => "expired",
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            attempts: Family::default(),
            hedges: Family::default(),
            wins: Family::default(),
            blocked: Family::default(),
            retries: Family::default(),
            retries_blocked: Family::default(),
            call_duration: Family::new_with_constructor(call_durations),
            loser_survival: Family::new_with_constructor(survivals),
            delay: Family::default(),
            revision: Family::default(),
            documents: Family::default(),
            hedges_shed: Counter::default(),
        }
    }
}

/// 1 ms to a minute and a half in steps of 1.5: fine enough to tune a delay by.
fn call_durations() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 1.5, 29))
}

/// 0.1 ms to half a minute, doubling: from a reset that is sent at once to a server that works on to its end.
fn survivals() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 19))
}

impl Metrics {
    /// Adds them to a registry, once.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("hedgerow_client");
        // The registry adds `_total` to counters, and the full stop to help texts.
        registry.register("calls", "Logical calls begun", self.calls.clone());
        registry.register(
            "attempts",
            "Physical attempts sent: primaries, hedges and retries",
            self.attempts.clone(),
        );
        registry.register("hedges", "Hedges sent", self.hedges.clone());
        registry.register("wins", "Calls that a hedge answered", self.wins.clone());
        registry.register(
            "blocked",
            "Hedges whose time had come and that were skipped",
            self.blocked.clone(),
        );
        registry.register(
            "retries",
            "Retries that drew on a call's attempts and on the budget",
            self.retries.clone(),
        );
        registry.register(
            "retries_blocked",
            "Retries that were refused",
            self.retries_blocked.clone(),
        );
        registry.register(
            "call_duration_seconds",
            "How long logical calls took, those cut at their deadline included",
            self.call_duration.clone(),
        );
        registry.register(
            "loser_survival_seconds",
            "How long attempts lived on after they were cancelled, where the transport tells their end",
            self.loser_survival.clone(),
        );
        registry.register(
            "delay_seconds",
            "The hedge delay; absent while not hedging",
            self.delay.clone(),
        );
        registry.register(
            "revision",
            "The revision of the document followed",
            self.revision.clone(),
        );
        registry.register(
            "documents",
            "Documents found, by what came of them",
            self.documents.clone(),
        );
        registry.register(
            "hedges_shed",
            "Hedges of others that this process turned away as a server",
            self.hedges_shed.clone(),
        );
    }

    /// The counters of one target, all of them there from the start: a counter that appears with its first increment
    /// hides that increment from `rate`.
    pub(crate) fn for_target(&self, name: &str) -> TargetMetrics {
        let target = Target {
            target: name.to_owned(),
        };
        let by_reason = |family: &Family<Reason, Counter>| {
            Blocked::ALL.map(|blocked| {
                family.get_or_create_owned(&Reason {
                    target: name.to_owned(),
                    reason: blocked.label(),
                })
            })
        };
        for outcome in Outcome::ALL {
            drop(self.documents.get_or_create_owned(&found(&target, outcome)));
        }
        TargetMetrics {
            calls: self.calls.get_or_create_owned(&target),
            attempts: self.attempts.get_or_create_owned(&target),
            hedges: self.hedges.get_or_create_owned(&target),
            wins: self.wins.get_or_create_owned(&target),
            blocked: by_reason(&self.blocked),
            retries: self.retries.get_or_create_owned(&target),
            retries_blocked: by_reason(&self.retries_blocked),
            call_duration: self.call_duration.get_or_create_owned(&target),
            loser_survival: self.loser_survival.get_or_create_owned(&target),
            all: self.clone(),
            target,
        }
    }
}

fn found(target: &Target, outcome: Outcome) -> Found {
    Found {
        target: target.target.clone(),
        outcome: outcome.label(),
    }
}

/// The metrics of one target, resolved, so that a call looks nothing up.
#[derive(Debug)]
pub(crate) struct TargetMetrics {
    pub(crate) calls: Counter,
    pub(crate) attempts: Counter,
    pub(crate) hedges: Counter,
    pub(crate) wins: Counter,
    /// In the order of [`Blocked::ALL`], which is that of its variants.
    blocked: [Counter; Blocked::ALL.len()],
    pub(crate) retries: Counter,
    retries_blocked: [Counter; Blocked::ALL.len()],
    call_duration: Histogram,
    pub(crate) loser_survival: Histogram,
    all: Metrics,
    target: Target,
}

impl TargetMetrics {
    /// Hedges that were skipped for this reason.
    pub(crate) fn blocked(&self, reason: Blocked) -> &Counter {
        &self.blocked[reason as usize]
    }

    /// Retries that were refused for this reason.
    pub(crate) fn retries_blocked(&self, reason: Blocked) -> &Counter {
        &self.retries_blocked[reason as usize]
    }

    pub(crate) fn called(&self, took: Duration) {
        self.call_duration.observe(took.as_secs_f64());
    }

    /// Tells what is followed now.
    pub(crate) fn following(&self, document: Option<&NativeDocument>) {
        let Metrics { delay, revision, .. } = &self.all;
        match document.and_then(|document| document.hedging) {
            Some(terms) => drop(delay.get_or_create(&self.target).set(terms.delay.as_secs_f64())),
            None => drop(delay.remove(&self.target)),
        }
        match document {
            Some(document) => {
                let number = i64::try_from(document.revision).unwrap_or(i64::MAX);
                revision.get_or_create(&self.target).set(number);
            }
            None => drop(revision.remove(&self.target)),
        }
    }

    pub(crate) fn found(&self, outcome: Outcome) -> Counter {
        self.all
            .documents
            .get_or_create_owned(&found(&self.target, outcome))
    }
}
