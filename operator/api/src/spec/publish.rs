//! Where documents are written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube::KubeSchema;
use kube::core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{Format, PublishedTarget};
use crate::text::{BaseKey, ConfigMapKey, ConfigMapName, PodLabelValue};
use crate::{limits, rules};

/// One document: a key of a ConfigMap in the namespace of the policy.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = rules::KEY_RESERVED,
    validation = rules::NOT_THE_STOP,
    validation = rules::ONE_TARGET,
    validation = rules::BASE_NEEDED,
    validation = rules::BASE_TAKEN,
    validation = rules::MANUAL_FORMAT,
    validation = rules::GRPC_SERVICE_CONFIG_BLOCK,
    validation = rules::ENVOY_ROUTE_BLOCK,
    validation = rules::DOTNET_HEDGING_BLOCK,
    validation = rules::KITEX_BLOCK,
    validation = rules::CASSANDRA_BLOCK,
    validation = rules::DATA_STAX_BLOCK,
    validation = rules::HDFS_BLOCK,
    validation = rules::LOKI_BLOCK,
    validation = rules::PROPERTIES_BLOCK
)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The name of the ConfigMap, in the namespace of the policy. Hedgerow creates it. Pods that mount it should say
    /// optional: true. It holds Hedgerow documents or other formats, not both. Not hedgerow-off, which is the emergency stop.
    /// Example: kb-hedging.
    pub config_map: ConfigMapName,

    /// The key of the document in the ConfigMap, at most 248 letters, digits, -, _ and . characters; not ending in .base.
    /// Example: shard-read.json.
    pub key: ConfigMapKey,

    /// The format of the document. Hedgerow: the native JSON document of exactly one target. The others are what other systems
    /// read: EnvoyRoute (RDS file), GrpcServiceConfig, DotnetHedging, Kitex and Properties, whose clients follow a changed
    /// file; DataStax, Cassandra, Hdfs, Loki and Tempo, whose clients need a restart or a person. None but Hedgerow expires:
    /// see docs/formats.md. Default: Hedgerow.
    #[serde(default)]
    pub format: Format,

    /// Your own document without hedging, into which the hedging is written: off is this document unchanged. Needed with
    /// EnvoyRoute; may be set with GrpcServiceConfig, DotnetHedging and Kitex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,

    /// Accepted: you know that clients of this format go on hedging until they are restarted or a person acts, also under
    /// saturation. Needed where a target has saturation signals and the format is DataStax, Cassandra, Hdfs, Loki or Tempo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual_off: Option<ManualOff>,

    /// Pods that mount the ConfigMap. When hedging becomes more careful they are annotated, upon which the kubelet updates
    /// the mounted file within a second instead of a minute or more. The administrator must have allowed it. Unset: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nudge_pods: Option<NudgePods>,

    /// The targets that the document is about, by name: exactly one with Hedgerow, Hdfs, Loki and Tempo. Each has the block of
    /// the format of the document, and no other.
    #[schemars(length(min = 1, max = limits::MAX_TARGETS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub targets: Vec<PublishedTarget>,
}

/// A person's own document.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Base {
    /// The name of a ConfigMap in the namespace of the policy. It must carry the label hedgerow.dev/role: base, by which its
    /// owner agrees, and must not be one that a policy publishes. Example: kb-envoy-base.
    pub config_map: ConfigMapName,

    /// The key of the document in that ConfigMap. Example: rds.yaml.
    pub key: BaseKey,
}

/// Consent to an off-switch that does not act by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ManualOff {
    /// The client cannot be switched off without a restart or a person.
    Accepted,
}

/// Which pods mount a document.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NudgePods {
    /// Labels that the pods have, with these very values: 1 to 16. Example: {app: front}.
    pub match_labels: PodLabels,
}

/// Labels of pods by equality.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodLabels(pub BTreeMap<String, PodLabelValue>);

impl JsonSchema for PodLabels {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PodLabels".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "minProperties": 1,
            "maxProperties": limits::MAX_LABELS,
            "additionalProperties": PodLabelValue::json_schema(generator),
            "x-kubernetes-map-type": "atomic",
            "x-kubernetes-validations": [Rule::from(rules::POD_LABEL_KEYS)],
        })
    }
}
