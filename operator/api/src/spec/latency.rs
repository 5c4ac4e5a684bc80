//! The latency histogram of a target.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Counter, Labels, Outcomes, Requirement};
use crate::text::{DurationText, MetricName, PresetName};
use crate::{limits, preset, rules};

/// The latency histogram from which the delay is computed.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = rules::PRESET_OR_METRIC,
    validation = rules::METRIC_NEEDS_MEASURES,
    validation = rules::PRESET_FIXES,
    validation = rules::PRESET_LABELS_FREE,
    validation = rules::NO_BUCKET_SELECTED,
    validation = rules::UNIT_KNOWN,
    validation = rules::CANCELLED_KNOWN,
    validation = rules::PRESET_HIDES_CANCELLED,
    validation = rules::LOSERS_OF_ATTEMPTS,
    validation = rules::OUTCOMES_LABEL_FREE,
    validation = rules::WINDOW_WITHIN_MAX_WINDOW
)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// A histogram that Hedgerow knows, instead of metric. A preset fixes the metric, its unit, what it measures and its
    /// outcomes; matchLabels says which of its series. docs/presets.md tells what each is and where it misleads. Example:
    /// GrpcClient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = preset::latency_names()))]
    pub preset: Option<PresetName>,

    /// The name of a histogram, without _bucket. Set it, or preset. Example: shard_read_duration_seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<MetricName>,

    /// Labels that the series must have, with these very values: at most 16. Values may hold any character; they are never
    /// patterns. Example: {index: kb}.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub match_labels: Labels,

    /// Further requirements on labels, at most 8; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_EXPRESSIONS))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Vec<Requirement>,

    /// The unit of the histogram: Seconds, Milliseconds or Microseconds. Unset: what the name of the metric ends in
    /// (_seconds, _milliseconds, _microseconds, _ms, _us or _usec); must be set when it ends in none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Unit")] // the schema of an optional enum would take the description of the enum
    pub unit: Option<Unit>,

    /// What one observation of the histogram is; needed with metric. LogicalCall: one call as the caller sees it, whichever
    /// attempt answered. Attempt: one physical request, primary or hedge; attempts cut short must be known by outcomes, or
    /// losersRunOn be true. Server: one request as the server sees it, without the network; needs hedging, or delay.add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Measures")]
    pub measures: Option<Measures>,

    /// How observations that do not say how long an answer takes are told apart, by a label of the histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<Outcomes>,

    /// Whether an attempt that lost runs to its end, because the client does not cancel it. With Attempt only. Say so only
    /// where it is so: a histogram that has lost its cancelled attempts makes the delay shorter and shorter. Default: false.
    #[serde(default)]
    pub losers_run_on: bool,

    /// A counter of calls that timed out and never entered the histogram. Name it wherever there is one: without it the
    /// latency looks better than it is, and most when it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Counter>,

    /// The rolling window over which the latency is read, from 1m to 24h. Default: 10m.
    #[serde(default = "default_window")]
    #[x_kube(validation = limits::WINDOW)]
    pub window: DurationText,

    /// How far the window may widen while it holds fewer than minSamples, from 1m to 24h and not under window. Default: 1h.
    #[serde(default = "default_max_window")]
    #[x_kube(validation = limits::WINDOW)]
    pub max_window: DurationText,

    /// Calls that a usable window holds, from 1 to 1000000. Unset: 20 in the tail, 20 / (1 - percentile / 100), which is 400
    /// for the 95th percentile. A smaller one is accepted and reported as LowConfidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::MIN_SAMPLES.min, max = limits::MIN_SAMPLES.max))]
    pub min_samples: Option<i32>,
}

/// What one observation of a histogram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Measures {
    /// One call as the caller sees it: whichever attempt answered first.
    LogicalCall,
    /// One physical request: the primary or a hedge.
    Attempt,
    /// One request as the server sees it: without the network.
    Server,
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
}

fn default_window() -> DurationText {
    "10m".into()
}

fn default_max_window() -> DurationText {
    "1h".into()
}
