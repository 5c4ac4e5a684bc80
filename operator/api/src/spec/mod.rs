//! What a person asks for: `spec` of a `HedgePolicy`. The comments of these types are what `kubectl explain` prints.

mod format;
mod latency;
mod publish;
mod saturation;
mod selector;
mod target;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use format::Block;
pub use format::{
    Cassandra, DataStax, DotnetHedging, EnvoyRoute, Format, GrpcServiceConfig, Hdfs, Kitex, Loki, Properties,
    PublishedTarget,
};
pub use latency::{Latency, Measures, Unit};
pub use publish::{Base, ManualOff, NudgePods, Output, PodLabels};
pub use saturation::{Saturation, Signal};
pub use selector::{Counter, Labels, Operator, Outcomes, Requirement, Witness, ZeroWhenAbsent};
pub use target::{Budget, Delay, HedgingCounters, NoBenefit, PerClient, Plateau, Target};

use crate::HedgePolicyStatus;
use crate::text::{DurationText, Expiry, Name};
use crate::{limits, rules};

/// What is hedged, how carefully, and where the clients find their orders.
///
/// The smallest useful policy names one target with its latency metric and a saturation signal, and one ConfigMap key to
/// publish to. Everything else has a default.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "hedgerow.dev",
    version = "v1alpha1",
    kind = "HedgePolicy",
    plural = "hedgepolicies",
    shortname = "hp",
    category = "hedgerow",
    namespaced,
    status = "HedgePolicyStatus",
    derive = "PartialEq",
    doc = "A HedgePolicy keeps request hedging tuned and safe: it names the calls that are hedged, the latency and \
           saturation metrics to read, and the ConfigMaps through which the clients are told when to hedge and when not to.",
    printcolumn = r#"{ "name": "Mode", "type": "string", "jsonPath": ".spec.mode", "description": "Whether decisions reach clients" }"#,
    printcolumn = r#"{ "name": "Hedging", "type": "string", "jsonPath": ".status.summary.hedging", "description": "Targets that are hedged now, of all" }"#,
    printcolumn = r#"{ "name": "Delay", "type": "string", "jsonPath": ".status.summary.delay", "description": "The hedge delay, or its range over the targets" }"#,
    printcolumn = r#"{ "name": "Budget", "type": "string", "jsonPath": ".status.summary.budget", "description": "Hedges per 100 calls, or their range over the targets" }"#,
    printcolumn = r#"{ "name": "Reason", "type": "string", "jsonPath": ".status.summary.reason", "description": "Why hedging is as it is" }"#,
    printcolumn = r#"{ "name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "description": "Whether the policy is accepted and its documents are written" }"#,
    printcolumn = r#"{ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }"#
)]
#[x_kube(
    validation = rules::SATURATION_INTERVAL_WITHIN_INTERVAL,
    validation = rules::PUBLISHED_TARGETS_EXIST,
    validation = rules::TARGETS_ARE_PUBLISHED,
    validation = rules::NATIVE_OR_OTHERS,
    validation = rules::BASE_IS_NO_OUTPUT,
    validation = rules::MANUAL_OFF_ACCEPTED
)]
#[serde(rename_all = "camelCase")]
pub struct HedgePolicySpec {
    /// Whether decisions reach clients. Enforce: clients are told what was decided. Observe: decided and reported in status,
    /// while clients are told not to hedge. Disabled: hedging is off, reason Stopped. Default: Enforce.
    #[serde(default)]
    pub mode: Mode,

    /// The Prometheus-compatible source that the metrics are read from, by the name that the administrator of Hedgerow gave
    /// it. Ask the administrator which sources this namespace may name. Default: default.
    #[serde(default = "default_source")]
    pub source: Name,

    /// How often the delay is recomputed, from 5s to 10m. Default: 30s.
    #[serde(default = "default_interval")]
    #[x_kube(validation = limits::INTERVAL)]
    pub interval: DurationText,

    /// How often the saturation signals are read and the off-switch is evaluated, from 1s to 1m, and not above interval.
    /// Default: 5s.
    #[serde(default = "default_saturation_interval")]
    #[x_kube(validation = limits::SATURATION_INTERVAL)]
    pub saturation_interval: DurationText,

    /// How long the last good delay is held while the latency is unknown, from 30s to 1h; then hedging goes off. At least
    /// twice the interval is always granted. Default: 5m.
    #[serde(default = "default_max_staleness")]
    #[x_kube(validation = limits::MAX_STALENESS)]
    pub max_staleness: DurationText,

    /// How long a document is valid, from 10m to 24h, or never. A client stops hedging when its document has expired, so that
    /// nobody hedges by old orders when Hedgerow is gone. Documents are renewed at half of it. With never the last orders
    /// stand until somebody changes them. Default: 1h.
    #[serde(default = "default_expiry")]
    #[x_kube(validation = limits::EXPIRY)]
    pub expiry: Expiry,

    /// The kinds of call that are hedged, 1 to 16, each with a name of its own. Every target must be published.
    #[schemars(length(min = 1, max = limits::MAX_TARGETS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub targets: Vec<Target>,

    /// Where the documents for the clients are written, 1 to 32: keys of ConfigMaps in the namespace of the policy. Hedgerow
    /// creates the ConfigMaps; one that exists and is not its own is left alone and reported.
    #[schemars(length(min = 1, max = limits::MAX_OUTPUTS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["configMap".into(), "key".into()]))]
    pub publish: Vec<Output>,
}

/// Whether decisions reach clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Mode {
    /// Clients are told what was decided.
    #[default]
    Enforce,
    /// Decided and reported; clients are told off.
    Observe,
    /// Forced off, reason `Stopped`.
    Disabled,
}

fn default_source() -> Name {
    "default".into()
}

fn default_interval() -> DurationText {
    "30s".into()
}

fn default_saturation_interval() -> DurationText {
    "5s".into()
}

fn default_max_staleness() -> DurationText {
    "5m".into()
}

fn default_expiry() -> Expiry {
    "1h".into()
}
