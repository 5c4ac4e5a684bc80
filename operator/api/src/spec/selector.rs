//! Which series of a metric. No field holds a query: names are checked and values are quoted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube::KubeSchema;
use kube::core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::text::{LabelName, LabelValue, MetricName};
use crate::{limits, rules};

/// Labels by equality.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(pub BTreeMap<LabelName, LabelValue>);

impl Labels {
    /// Whether there is no label.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The labels as plain strings.
    pub fn to_strings(&self) -> BTreeMap<String, String> {
        self.0
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }
}

impl JsonSchema for Labels {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Labels".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "maxProperties": limits::MAX_LABELS,
            "additionalProperties": LabelValue::json_schema(generator),
            "x-kubernetes-map-type": "atomic",
            "x-kubernetes-validations": [Rule::from(rules::LABEL_NAMES)],
        })
    }
}

/// A requirement on a label.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = rules::KEY_IS_NO_METRIC, validation = rules::VALUES_FIT_OPERATOR)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The name of the label. Example: zone.
    pub key: LabelName,

    /// How the value of the label is compared. In: it is one of the values. NotIn: it is none of them. Exists: the label is
    /// there with any value.
    pub operator: Operator,

    /// The values to compare with, at most 16; none with Exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_EXPRESSION_VALUES))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub values: Vec<LabelValue>,
}

/// How the value of a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values.
    NotIn,
    /// Any value that is not empty.
    Exists,
}

/// How observations that do not say how long an answer takes are told apart.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = rules::OUTCOMES_LABEL,
    validation = rules::OUTCOMES_SAY_SOMETHING,
    validation = rules::OUTCOMES_DISJOINT
)]
#[serde(rename_all = "camelCase")]
pub struct Outcomes {
    /// The label of the histogram that tells how an attempt ended. Example: grpc_status.
    pub label: LabelName,

    /// Its values for attempts that were cut short, at most 16. With Attempt they count as "took longer than this": to drop
    /// them would hide the slowest. Else they count as having taken as long as they ran. Example: CANCELLED.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_OUTCOMES))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub cancelled: Vec<LabelValue>,

    /// Its values for fast failures, at most 16. They do not count: under overload they would make the service look fast.
    /// Example: UNAVAILABLE.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_OUTCOMES))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub ignored: Vec<LabelValue>,
}

/// A counter.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counter {
    /// The name of the counter, whose rate is taken. Example: shard_read_timeouts_total.
    pub rate_of: MetricName,

    /// Labels that the series must have, with these very values: at most 16.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub match_labels: Labels,

    /// Further requirements on labels, at most 8; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_EXPRESSIONS))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Vec<Requirement>,

    /// Makes a counter that does not exist yet count as 0, as long as a witness proves that its target is scraped. Many
    /// counters appear with their first increment only. Unset: an absent counter is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_when_absent: Option<ZeroWhenAbsent>,
}

/// When an absent series is a zero.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZeroWhenAbsent {
    /// A series that proves that the target is scraped: absence means 0 only while it is fresh and above 0 in every series.
    pub witness: Witness,
}

/// A series that proves that a target is scraped.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Witness {
    /// The name of the metric. Example: up, which is 0 exactly when the target is dead.
    pub metric: MetricName,

    /// Labels that the series must have, with these very values: 1 to 16. Example: {job: kb}.
    #[schemars(extend("minProperties" = 1))]
    pub match_labels: Labels,
}
