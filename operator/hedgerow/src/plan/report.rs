//! What `plan` tells: the stable JSON interface. A number that is not known is `null`, never 0.

use hedgerow_config::{Identity, NativeDocument, Validity};
use hedgerow_tuner::{Basis, Decision, LatencyView, SignalView, Timestamp, Unknown};
use serde::Serialize;

use super::Planned;
use super::reading::Read;
use crate::chain::{Step, chain};
use crate::{notes, words};

/// The whole report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) targets: Vec<Target>,
}

/// One target.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Target {
    pub(super) policy: String,
    pub(super) target: String,
    pub(super) enabled: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) delay_ms: Option<f64>,
    pub(super) recommended_ms: Option<f64>,
    pub(super) limited_by: Option<&'static str>,
    pub(super) budget_percent: Option<f64>,
    pub(super) latency: Latency,
    pub(super) saturation: Vec<Signal>,
    pub(super) effect: Effect,
    pub(super) documents: Vec<Document>,
    /// Why the delay deserves little confidence.
    pub(super) low_confidence: Option<String>,
    pub(super) diagnoses: Vec<Diagnosis>,
    /// What to know of what is read.
    pub(super) notes: Vec<String>,
    /// From the queries to the decision.
    pub(super) chain: Vec<Step>,
}

/// Something that makes hedging pay less than it could.
#[derive(Debug, Serialize)]
pub(super) struct Diagnosis {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What the latency metric says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Latency {
    pub(super) state: &'static str,
    pub(super) reason: Option<&'static str>,
    pub(super) samples: Option<f64>,
    pub(super) p50_ms: Option<f64>,
    pub(super) p95_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    /// Where the percentile lies with 95 % confidence.
    pub(super) percentile_ms: Option<(f64, f64)>,
    pub(super) window: Option<String>,
    pub(super) message: Option<String>,
}

/// What a saturation signal says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Signal {
    pub(super) name: String,
    pub(super) state: &'static str,
    pub(super) reason: Option<&'static str>,
    pub(super) value: Option<f64>,
    pub(super) off_above: Option<f64>,
    pub(super) saturated: bool,
    pub(super) message: Option<String>,
}

/// What hedging does, as shares.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Effect {
    pub(super) hedge_share: Option<f64>,
    pub(super) miss_share_unhedged: Option<f64>,
    pub(super) unhedged_basis: Option<&'static str>,
    pub(super) miss_share_hedged: Option<f64>,
    pub(super) hedged_basis: Option<&'static str>,
}

/// A document that would be published.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    pub(super) config_map: String,
    pub(super) key: String,
    pub(super) format: &'static str,
    pub(super) content: String,
}

impl Report {
    pub(super) fn new(planned: &[Planned], read: &Read, now: Timestamp) -> Self {
        let of_policy = |(planned, decisions): (&Planned, &Vec<Decision>)| -> Vec<Target> {
            decisions
                .iter()
                .enumerate()
                .map(|(at, decision)| target(planned, at, decision, now))
                .collect()
        };
        Self {
            targets: planned.iter().zip(&read.decisions).flat_map(of_policy).collect(),
        }
    }

    /// Whether any reading is not a number.
    pub(super) fn has_unknown(&self) -> bool {
        let unknown = |target: &Target| {
            target.latency.state == UNKNOWN || target.saturation.iter().any(|signal| signal.state == UNKNOWN)
        };
        self.targets.iter().any(unknown)
    }

    pub(super) fn to_json(&self) -> String {
        // Writing these plain fields cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

const FRESH: &str = hedgerow_api::ReadingState::Fresh.as_str();
const UNKNOWN: &str = hedgerow_api::ReadingState::Unknown.as_str();

fn target(planned: &Planned, at: usize, decision: &Decision, now: Timestamp) -> Target {
    let target = &planned.compiled.targets[at];
    let hedging = decision.orders.hedging;
    Target {
        policy: format!("{}/{}", planned.policy.namespace, planned.policy.name),
        target: target.name.clone(),
        enabled: hedging.is_some(),
        reason: decision.reason.as_str(),
        message: decision.message.clone(),
        delay_ms: hedging.map(|hedging| hedging.delay_ms),
        recommended_ms: decision.recommended_ms,
        limited_by: decision.limited_by.map(|limit| limit.as_str()),
        budget_percent: hedging.map(|hedging| hedging.percent),
        latency: latency(&decision.latency),
        saturation: decision.signals.iter().map(signal).collect(),
        effect: Effect {
            hedge_share: decision.effect.hedge_share,
            miss_share_unhedged: decision.effect.miss_share_unhedged,
            unhedged_basis: decision.effect.unhedged_basis.map(Basis::as_str),
            miss_share_hedged: decision.effect.miss_share_hedged,
            hedged_basis: decision.effect.hedged_basis.map(Basis::as_str),
        },
        documents: documents(planned, at, decision, now),
        low_confidence: decision.low_confidence.clone(),
        diagnoses: decision.diagnoses.iter().map(diagnosis).collect(),
        notes: notes(planned, &target.name),
        chain: chain(&target.query, &target.rules, decision),
    }
}

fn diagnosis(diagnosis: &hedgerow_tuner::Diagnosis) -> Diagnosis {
    Diagnosis {
        reason: diagnosis.reason.as_str(),
        message: diagnosis.message.clone(),
    }
}

fn notes(planned: &Planned, target: &str) -> Vec<String> {
    let targets = planned.policy.spec.targets.iter();
    targets
        .filter(|written| *written.name == *target)
        .flat_map(notes::of)
        .collect()
}

fn documents(planned: &Planned, at: usize, decision: &Decision, now: Timestamp) -> Vec<Document> {
    let (policy, target) = (&planned.policy, &planned.compiled.targets[at]);
    let identity = Identity {
        policy: format!("{}/{}", policy.namespace, policy.name),
        policy_uid: policy.uid.clone(),
        target: target.name.clone(),
    };
    let validity = Validity::new(now, planned.compiled.expiry);
    let native = NativeDocument::new(
        &identity,
        &decision.orders,
        &target.limits,
        decision.revision,
        validity,
    );
    policy
        .spec
        .publish
        .iter()
        .filter(|output| output.targets.iter().any(|named| *named.name == *target.name))
        .map(|output| Document {
            config_map: output.config_map.to_string(),
            key: output.key.to_string(),
            format: output.format.as_str(),
            content: native.to_json(),
        })
        .collect()
}

fn latency(view: &LatencyView) -> Latency {
    let (state, reason, message) = state(view.unknown.as_ref());
    Latency {
        state,
        reason,
        samples: view.samples,
        p50_ms: view.p50_ms,
        p95_ms: view.p95_ms,
        p99_ms: view.p99_ms,
        percentile_ms: view.percentile_ms,
        window: view.window.map(words::duration),
        message,
    }
}

fn signal(view: &SignalView) -> Signal {
    let (state, reason, message) = state(view.unknown.as_ref());
    Signal {
        name: view.name.clone(),
        state,
        reason,
        value: view.value,
        off_above: view.off_above,
        saturated: view.saturated,
        message,
    }
}

fn state(unknown: Option<&Unknown>) -> (&'static str, Option<&'static str>, Option<String>) {
    match unknown {
        None => (FRESH, None, None),
        Some(why) => (UNKNOWN, Some(why.reason.as_str()), Some(why.message.clone())),
    }
}
