//! The documents of people over which other documents are written. That they exist is watched, as metadata; what is in them
//! is read when they change.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hedgerow_api::ConditionReason;
use hedgerow_api::names::{POLICY_UID_ANNOTATION, ROLE_BASE, ROLE_LABEL};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use super::name::NamespacedName;
use super::outputs::Outputs;
use super::write::bounded;

/// A person's own document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BaseRef {
    /// The ConfigMap.
    pub config_map: NamespacedName,
    /// The key.
    pub key: String,
}

impl fmt::Display for BaseRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, key {}", self.config_map, self.key)
    }
}

/// Why a base cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseError {
    /// A bounded name.
    pub reason: ConditionReason,
    /// What is wrong and what to do.
    pub message: String,
}

/// Reads bases. Cheap to clone.
#[derive(Clone)]
pub(super) struct Bases {
    client: Client,
    outputs: Outputs,
    read: Arc<Mutex<HashMap<NamespacedName, Arc<Content>>>>,
}

/// A base as it was read.
struct Content {
    version: String,
    texts: BTreeMap<String, Arc<str>>,
}

impl Bases {
    pub(super) fn new(client: Client, outputs: Outputs) -> Self {
        Self {
            client,
            outputs,
            read: Arc::default(),
        }
    }

    /// The text of a base: from memory while the watch has seen nothing newer, else read.
    pub(super) async fn text(&self, base: &BaseRef) -> Result<Arc<str>, BaseError> {
        let content = self.content(base).await?;
        content.texts.get(&base.key).cloned().ok_or_else(|| BaseError {
            reason: ConditionReason::BaseMissing,
            message: format!("base {base}: has no text under that key; add it, or mend base.key"),
        })
    }

    async fn content(&self, base: &BaseRef) -> Result<Arc<Content>, BaseError> {
        let name = &base.config_map;
        let seen = self.outputs.base_version(name);
        if let Some(known) = self.known(name)
            && seen.as_deref() == Some(&known.version)
        {
            return Ok(known);
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &name.namespace);
        let fault = |reason, what: String| BaseError {
            reason,
            message: format!("base {base}: {what}"),
        };
        let read = bounded(api.get_opt(&name.name)).await.map_err(|why| {
            fault(
                ConditionReason::BaseUnavailable,
                format!("not read, trying again: {why}"),
            )
        })?;
        let Some(config_map) = read else {
            let what = format!("does not exist; create it with the label {ROLE_LABEL}={ROLE_BASE}");
            return Err(fault(ConditionReason::BaseMissing, what));
        };
        let metadata = &config_map.metadata;
        let has = |map: &Option<BTreeMap<String, String>>, name: &str| {
            map.as_ref().is_some_and(|map| map.contains_key(name))
        };
        if has(&metadata.annotations, POLICY_UID_ANNOTATION) {
            let what = "is written by Hedgerow; a base is a ConfigMap of your own".to_owned();
            return Err(fault(ConditionReason::BaseInvalid, what));
        }
        let role = metadata.labels.as_ref().and_then(|labels| labels.get(ROLE_LABEL));
        if role.map(String::as_str) != Some(ROLE_BASE) {
            let what = format!("lacks the label by which its owner agrees: set {ROLE_LABEL}={ROLE_BASE}");
            return Err(fault(ConditionReason::BaseNotLabelled, what));
        }
        let texts = config_map.data.unwrap_or_default().into_iter();
        let content = Arc::new(Content {
            version: metadata.resource_version.clone().unwrap_or_default(),
            texts: texts.map(|(key, text)| (key, text.into())).collect(),
        });
        self.read().insert(name.clone(), Arc::clone(&content));
        Ok(content)
    }

    fn known(&self, name: &NamespacedName) -> Option<Arc<Content>> {
        self.read().get(name).cloned()
    }

    /// What was read, without what is no longer a base.
    fn read(&self) -> std::sync::MutexGuard<'_, HashMap<NamespacedName, Arc<Content>>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.retain(|name, _| self.outputs.base_version(name).is_some());
        read
    }
}
