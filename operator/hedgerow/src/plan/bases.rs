//! The documents in files that others are written over.

use std::collections::BTreeMap;
use std::sync::Arc;

use hedgerow_api::ConditionReason;
use hedgerow_api::names::{ROLE_BASE, ROLE_LABEL};
use serde_json::Value;

use crate::cluster::{BaseError, BaseRef, NamespacedName};

/// The ConfigMaps among the objects in the files.
#[derive(Debug, Default)]
pub(super) struct Bases(BTreeMap<NamespacedName, ConfigMap>);

#[derive(Debug)]
struct ConfigMap {
    is_base: bool,
    data: BTreeMap<String, Arc<str>>,
}

impl Bases {
    /// Notes a ConfigMap; the last of a name counts, as it would in a cluster.
    pub(super) fn note(&mut self, object: &Value, namespace: &str) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let namespace = text("/metadata/namespace").unwrap_or(namespace);
        let label = object
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get(ROLE_LABEL));
        let data = object.get("data").and_then(Value::as_object);
        let texts = data
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.into())));
        let config_map = ConfigMap {
            is_base: label.is_some_and(|role| role == ROLE_BASE),
            data: texts.collect(),
        };
        let name = NamespacedName::new(namespace, text("/metadata/name").unwrap_or_default());
        self.0.insert(name, config_map);
    }

    /// The text of a base.
    pub(super) fn text(&self, base: &BaseRef) -> Result<Arc<str>, BaseError> {
        let error = |reason, what: &str| BaseError {
            reason,
            message: format!("base {base}: {what}"),
        };
        let Some(config_map) = self.0.get(&base.config_map) else {
            let what = "is not in the files given; give it too";
            return Err(error(ConditionReason::BaseMissing, what));
        };
        if !config_map.is_base {
            let what = format!("lacks the label by which its owner agrees: set {ROLE_LABEL}={ROLE_BASE}");
            return Err(error(ConditionReason::BaseNotLabelled, &what));
        }
        let what = "has no text under that key; add it, or mend base.key";
        let text = config_map.data.get(&base.key).cloned();
        text.ok_or_else(|| error(ConditionReason::BaseMissing, what))
    }
}
