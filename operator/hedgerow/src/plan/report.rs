//! What `plan` tells: the stable JSON interface. A number that is not known is `null`, never 0.

use std::borrow::Cow;

use hedgerow_api::Output;
use hedgerow_config::{Identity, NativeDocument, Validity};
use hedgerow_tuner::{Decision, LatencyView, SignalView, Timestamp, Unknown};
use serde::{Deserialize, Serialize};

use super::Planned;
use super::bases::Bases;
use super::reading::Read;
use crate::chain::{Step, chain};
use crate::documents::desired_form;
use crate::{compile, notes, words};

/// One of some names: ours, or one that was read.
pub type Word = Cow<'static, str>;

/// The whole report.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Each target of each policy.
    pub targets: Vec<Target>,
}

/// One target.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// `namespace/name` of its policy.
    pub policy: String,
    /// Its name.
    pub target: String,
    pub(super) enabled: bool,
    /// Why it is decided so: one of the bounded names.
    pub reason: Word,
    /// Why, with the numbers.
    pub message: String,
    pub(super) delay_ms: Option<f64>,
    pub(super) recommended_ms: Option<f64>,
    pub(super) limited_by: Option<Word>,
    pub(super) budget_percent: Option<f64>,
    pub(super) latency: Latency,
    pub(super) saturation: Vec<Signal>,
    pub(super) effect: Effect,
    /// The documents that tell of it.
    pub documents: Vec<Document>,
    /// Why the delay deserves little confidence.
    pub(super) low_confidence: Option<String>,
    pub(super) diagnoses: Vec<Diagnosis>,
    /// What to know of what is read.
    pub(super) notes: Vec<String>,
    /// From the queries to the decision.
    pub(super) chain: Vec<Step>,
}

/// Something that makes hedging pay less than it could.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Diagnosis {
    pub(super) reason: Word,
    pub(super) message: String,
}

/// What the latency metric says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Latency {
    pub(super) state: Word,
    pub(super) reason: Option<Word>,
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
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Signal {
    pub(super) name: String,
    pub(super) state: Word,
    pub(super) reason: Option<Word>,
    pub(super) value: Option<f64>,
    pub(super) off_above: Option<f64>,
    pub(super) saturated: bool,
    pub(super) message: Option<String>,
}

/// What hedging does, as shares.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Effect {
    pub(super) hedge_share: Option<f64>,
    pub(super) miss_share_unhedged: Option<f64>,
    pub(super) unhedged_basis: Option<Word>,
    pub(super) miss_share_hedged: Option<f64>,
    pub(super) hedged_basis: Option<Word>,
}

/// A document that would be published.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The ConfigMap, in the namespace of the policy.
    pub config_map: String,
    /// The key in it.
    pub key: String,
    /// The format, as policies name it.
    pub format: Word,
    /// `None` when it cannot be rendered.
    pub content: Option<String>,
    /// What is wrong with it.
    pub message: Option<String>,
}

impl Report {
    pub(super) fn new(planned: &[Planned], bases: &Bases, read: &Read, now: Timestamp) -> Self {
        let of_policy = |(planned, decisions): (&Planned, &Vec<Decision>)| -> Vec<Target> {
            let policy = Decided {
                planned,
                bases,
                decisions,
                now,
            };
            (0..decisions.len()).filter_map(|at| policy.target(at)).collect()
        };
        Self {
            targets: planned.iter().zip(&read.decisions).flat_map(of_policy).collect(),
        }
    }

    /// Whether any reading is not a number.
    pub fn has_unknown(&self) -> bool {
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

/// A policy with everything that was decided of it.
struct Decided<'a> {
    planned: &'a Planned,
    bases: &'a Bases,
    /// In the order of its targets.
    decisions: &'a [Decision],
    now: Timestamp,
}

impl Decided<'_> {
    fn target(&self, at: usize) -> Option<Target> {
        let planned = self.planned;
        let (target, decision) = (planned.compiled.targets.get(at)?, self.decisions.get(at)?);
        let documents = self.documents(target, decision);
        Some(told(planned, target, decision, documents))
    }
}

fn told(
    planned: &Planned,
    target: &compile::Target,
    decision: &Decision,
    documents: Vec<Document>,
) -> Target {
    let hedging = decision.orders.hedging;
    Target {
        policy: format!("{}/{}", planned.policy.namespace, planned.policy.name),
        target: target.name.clone(),
        enabled: hedging.is_some(),
        reason: decision.reason.as_str().into(),
        message: decision.message.to_string(),
        delay_ms: hedging.map(|hedging| hedging.delay_ms),
        recommended_ms: decision.recommended_ms,
        limited_by: decision.limited_by.map(|limit| limit.as_str().into()),
        budget_percent: hedging.map(|hedging| hedging.percent),
        latency: latency(&decision.latency),
        saturation: decision.signals.iter().map(signal).collect(),
        effect: effect(&decision.effect),
        documents,
        low_confidence: decision.low_confidence.clone(),
        diagnoses: decision.diagnoses.iter().map(diagnosis).collect(),
        notes: notes(planned, &target.name),
        chain: chain(&target.query, &target.rules, decision),
    }
}

fn effect(effect: &hedgerow_tuner::Effect) -> Effect {
    Effect {
        hedge_share: effect.hedge_share,
        miss_share_unhedged: effect.miss_share_unhedged,
        unhedged_basis: effect.unhedged_basis.map(|basis| basis.as_str().into()),
        miss_share_hedged: effect.miss_share_hedged,
        hedged_basis: effect.hedged_basis.map(|basis| basis.as_str().into()),
    }
}

fn diagnosis(diagnosis: &hedgerow_tuner::Diagnosis) -> Diagnosis {
    Diagnosis {
        reason: diagnosis.reason.as_str().into(),
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

impl Decided<'_> {
    /// The documents that tell of a target; one of several targets is told under each.
    fn documents(&self, target: &compile::Target, decision: &Decision) -> Vec<Document> {
        let outputs = self.planned.policy.spec.publish.iter();
        outputs
            .filter(|output| output.targets.iter().any(|named| *named.name == *target.name))
            .map(|output| {
                let (content, message) = self.content(output, target, decision);
                Document {
                    config_map: output.config_map.to_string(),
                    key: output.key.to_string(),
                    format: output.format.as_str().into(),
                    content,
                    message,
                }
            })
            .collect()
    }

    /// A document, and what is wrong with it.
    fn content(
        &self,
        output: &Output,
        target: &compile::Target,
        decision: &Decision,
    ) -> (Option<String>, Option<String>) {
        let (policy, compiled) = (&self.planned.policy, &self.planned.compiled);
        let orders = |at: usize| self.decisions.get(at).map(|decision| &decision.orders);
        let Some(form) = desired_form(&policy.namespace, output, &compiled.targets, orders) else {
            let identity = Identity {
                policy: format!("{}/{}", policy.namespace, policy.name),
                policy_uid: policy.uid.clone(),
                target: target.name.clone(),
            };
            let validity = Validity::new(self.now, compiled.expiry);
            let native = NativeDocument::new(
                &identity,
                &decision.orders,
                &target.limits,
                decision.revision,
                validity,
            );
            return (Some(native.to_json()), None);
        };
        let base = form.base.as_ref().map(|base| self.bases.text(base));
        let (content, fault) = form.first(base.as_ref());
        (content, fault.map(|fault| fault.message))
    }
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

fn state(unknown: Option<&Unknown>) -> (Word, Option<Word>, Option<String>) {
    match unknown {
        None => (FRESH.into(), None, None),
        Some(why) => (
            UNKNOWN.into(),
            Some(why.reason.as_str().into()),
            Some(why.message.clone()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_tuner::Basis;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_share_says_how_it_is_known_and_null_is_no_number() {
        let known = hedgerow_tuner::Effect {
            hedge_share: Some(0.05),
            miss_share_unhedged: Some(0.02),
            unhedged_basis: Some(Basis::Measured),
            miss_share_hedged: Some(0.001),
            hedged_basis: Some(Basis::Predicted),
        };
        assert_eq!(
            serde_json::to_value(effect(&known)).unwrap(),
            json!({
                "hedgeShare": 0.05, "missShareUnhedged": 0.02, "unhedgedBasis": "Measured", "missShareHedged": 0.001,
                "hedgedBasis": "Predicted",
            })
        );
        let inferred = hedgerow_tuner::Effect {
            unhedged_basis: Some(Basis::Inferred),
            miss_share_hedged: None,
            hedged_basis: None,
            ..known
        };
        let told = serde_json::to_value(effect(&inferred)).unwrap();
        assert_eq!(
            [
                &told["unhedgedBasis"],
                &told["missShareHedged"],
                &told["hedgedBasis"]
            ],
            [&json!("Inferred"), &json!(null), &json!(null)]
        );
    }
}
