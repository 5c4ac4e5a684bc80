//! Where documents are written.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{ConfigMapKey, ConfigMapName, Name};
use crate::{limits, rules};

/// One document: a key of a ConfigMap in the namespace of the policy.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = rules::KEY_RESERVED,
    validation = rules::NOT_THE_STOP,
    validation = rules::ONE_TARGET
)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The name of the ConfigMap, in the namespace of the policy. Hedgerow creates it. Pods that mount it should say
    /// optional: true. Not hedgerow-off, which is the emergency stop. Example: kb-hedging.
    pub config_map: ConfigMapName,

    /// The key of the document in the ConfigMap, at most 248 letters, digits, -, _ and . characters; not ending in .base.
    /// Example: shard-read.json.
    pub key: ConfigMapKey,

    /// The format of the document. Hedgerow: the native JSON document of exactly one target. Default: Hedgerow.
    #[serde(default)]
    pub format: Format,

    /// The targets that the document is about, by name: exactly one with the format Hedgerow.
    #[schemars(length(min = 1, max = limits::MAX_TARGETS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub targets: Vec<PublishedTarget>,
}

/// The format of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Format {
    /// The native document.
    #[default]
    Hedgerow,
}

/// One target of a document.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishedTarget {
    /// The name of a target of this policy.
    pub name: Name,
}
