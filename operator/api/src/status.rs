//! What is so: `status` of a `HedgePolicy`, for people and tools. No decision is made from it.
//!
//! Numbers are strings with their unit, as they are read. States and reasons are plain strings, and every field may be
//! missing: a status that another version wrote never makes an object undecodable.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// What is so: whether each target is hedged, how and why.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HedgePolicyStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    pub observed_generation: Option<i64>,

    /// The policy in a line: the columns of kubectl get.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    pub summary: Option<Summary>,

    /// What is so about the policy as a whole. Ready: the spec is accepted and every document of this generation is written;
    /// it does not depend on the signals. Being off under saturation is Ready=True, HedgingDisabled=True.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "readable_items")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// What is so about each target.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "readable_items")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub targets: Vec<TargetStatus>,

    /// What is so about each document.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "readable_items")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["configMap", "key"])
    )]
    pub outputs: Vec<OutputStatus>,
}

/// The policy in a line.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// How many targets are hedged now, of those whose clients follow their documents by themselves; then those that only
    /// a person or a restart switches, of which nobody knows. Examples: 2/3, 2/2 +1 by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedging: Option<String>,

    /// The delay in use, or its range over the targets. Example: 512ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,

    /// The budget in use, or its range over the targets. Example: 10%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,

    /// Why it is so: the reason of the target that is worst off. Example: Tuned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What is so about one target.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// The name of the target.
    pub name: String,

    /// Whether it is hedged: Hedging, Ramping (at a part of its budget) or NotHedging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,

    /// Why: one word out of a fixed list. Example: Saturated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Why, with the numbers, and what it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// The revision of what clients are told; rises by one with each change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,

    /// The hedge delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelayStatus>,

    /// What hedging may cost now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetStatus>,

    /// What hedging does to the calls and to the user's query, assuming that attempts are independent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectStatus>,

    /// What makes hedging pay less than it could. Empty when nothing does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["reason"]))]
    pub diagnoses: Vec<DiagnosisStatus>,

    /// The saturation signals, each with its line and what it waits for, as they were when the decision was written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub signals: Vec<SignalStatus>,

    /// The latency as it was when the decision was written. Live values are in the operator's metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readings: Option<ReadingsStatus>,

    /// The values that the spec leaves unsaid, as they are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use: Option<InUseStatus>,

    /// The last 10 changes, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<Change>,
}

/// The hedge delay of a target.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelayStatus {
    /// The delay that clients use. Missing while hedging is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,

    /// The delay that the percentile asks for, when the decision was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended: Option<String>,

    /// What keeps the applied delay from the recommended one: Min, FallRate, LowResolution, HoldBand or Plateau.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,

    /// From what was read to the delay in use, with the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Something that makes hedging pay less than it could.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiagnosisStatus {
    /// What: one word out of a fixed list. Example: SlowTogether.
    pub reason: String,

    /// What is so, with the numbers of when it was found, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What hedging of a target may cost now.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetStatus {
    /// Hedges per 100 calls now; less than the cap while hedging comes back. Missing while hedging is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<String>,

    /// Hedges per 100 calls at most: the smaller of the policy's cap and the source's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,

    /// Whose cap it is, when it is not the policy's: Source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
}

/// What hedging does. What cannot be told from the metrics is missing.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectStatus {
    /// Hedges per 100 calls at the applied delay and budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedge_share: Option<String>,

    /// The share of the hedges that answered first, as clients count it; missing where they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub win_share: Option<String>,

    /// The share of user queries that would miss the deadline without hedging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miss_share_unhedged: Option<String>,

    /// How that is known: Measured, Inferred or Predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhedged_basis: Option<String>,

    /// The share of user queries that miss the deadline with hedging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miss_share_hedged: Option<String>,

    /// How that is known: Measured, Inferred or Predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedged_basis: Option<String>,
}

/// One saturation signal.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalStatus {
    /// The name of the signal.
    pub name: String,

    /// What it says: Fresh or Unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,

    /// Why it is unknown: one word out of a fixed list. Example: MetricNotFound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Why, for people; or what it waits for. Example: queue 38, back at 35.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Whether it turns hedging off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saturated: Option<bool>,

    /// The value that was compared with the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,

    /// Hedging goes off above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_above: Option<String>,

    /// Hedging may come back under it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_below: Option<String>,

    /// Unknown since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_since: Option<Time>,
}

/// The latency as it was when the decision was written.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadingsStatus {
    /// When it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,

    /// What it says: Fresh or Unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,

    /// Why it is unknown: one word out of a fixed list. Example: TooFewSamples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Why it is unknown, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Why the delay deserves little confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_confidence: Option<String>,

    /// Calls in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<i64>,

    /// The window that was read; a quiet service's is wider than asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,

    /// The median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<String>,

    /// The 95th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<String>,

    /// The 99th percentile, as hedged: what callers see with hedging as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<String>,
}

/// The values that the spec leaves unsaid, as they are used.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InUseStatus {
    /// The latency metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,

    /// What one observation of it is: LogicalCall, Attempt or Server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measures: Option<String>,

    /// The unit of the latency metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,

    /// Calls that a usable window holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_samples: Option<i64>,

    /// The delay above which hedging goes off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_max: Option<String>,

    /// How long a delay is held while the latency is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_staleness: Option<String>,

    /// What to know of what is read: where a preset misleads, and which preset could have been named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub notes: Vec<String>,
}

/// One change of what clients are told.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,

    /// What clients were told before. Example: 512ms, 10%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,

    /// What clients are told since. Example: off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,

    /// Why: one word out of a fixed list. Example: Saturated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Why, with the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What is so about one document.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputStatus {
    /// The ConfigMap.
    pub config_map: String,

    /// The key.
    pub key: String,

    /// The format of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,

    /// How a change of the document reaches its clients: Live; ByCopy where they do not follow a mounted file and need a
    /// copy of it; or Manual where they need a restart or a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,

    /// Whether clients stop hedging by themselves when the document is no longer renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<bool>,

    /// ByClient where the document cannot say what hedging may cost: the client has to be configured with a limit of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,

    /// Whether the document is written: Published, Pending or Refused; OldBase when it is written over the base that was
    /// accepted last, and Unhedged when it is written with hedging off since it cannot say what was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,

    /// The revision of the document that is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,

    /// Why it is not written, or not as it should be, and what to do; or what else its clients need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Decodes a field, or takes its default: a newer version may have changed its type.
fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).unwrap_or_default())
}

/// Decodes the items of a list that can be understood.
fn readable_items<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let items: Vec<Value> = lenient(deserializer)?;
    Ok(items
        .into_iter()
        .filter_map(|item| T::deserialize(item).ok())
        .collect())
}
