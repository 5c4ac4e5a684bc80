//! What to write, given what shall be and what is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hedgerow_api::names::MEMORY_ANNOTATION;
use hedgerow_config::{NativeDocument, Validity};
use hedgerow_tuner::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::record::format_memory;
use super::desired::{DesiredConfigMap, EndOfLife};
use super::error::PublishError;
use super::live::Live;
use super::{Change, Published, off};

/// What to write.
pub(super) struct Plan {
    documents: BTreeMap<String, String>,
    /// That of the desired document which expires first.
    validity: Option<Validity>,
    again_at: Option<Timestamp>,
}

impl Plan {
    /// The desired documents, and those that left the spec but must stay for now, off.
    pub(super) fn new(desired: &DesiredConfigMap, live: &Live, now: Timestamp) -> Self {
        let mut leaving = live.own_documents();
        leaving.retain(|key, _| !desired.documents.contains_key(key));
        let retired = off::retired(&leaving, now);
        let again_at = retired.values().filter_map(|document| document.until).min();
        let retired = retired.into_iter().map(|(key, document)| (key, document.text));
        let unchanged = |(key, text): (&String, &String)| {
            // A document that is the same stays as it is, to the byte: its times are part of what clients hold.
            let stands = live.documents.get(key).filter(|stands| {
                same_document(stands, text) && !(desired.renew && renewal_due(stands, desired, now))
            });
            (key.clone(), stands.unwrap_or(text).clone())
        };
        let wanted: BTreeMap<String, String> = desired.documents.iter().map(unchanged).collect();
        Self {
            // What is leaving is never renewed, so it must not call for it.
            validity: wanted
                .values()
                .filter_map(|text| validity(text))
                .min_by_key(|validity| validity.valid_until),
            documents: wanted.into_iter().chain(retired).collect(),
            again_at,
        }
    }

    /// These documents and no others.
    pub(super) fn exactly(desired: &DesiredConfigMap) -> Self {
        Self {
            documents: desired.documents.clone(),
            validity: None,
            again_at: None,
        }
    }

    /// Whether there is nothing to write.
    pub(super) fn is_fulfilled_by(&self, live: &Live, desired: &DesiredConfigMap) -> bool {
        let documents = self
            .documents
            .iter()
            .all(|(key, text)| live.documents.get(key) == Some(text));
        let none_left = live.own_keys.iter().all(|key| self.documents.contains_key(key));
        let labels = DesiredConfigMap::labels();
        let labelled = labels
            .iter()
            .all(|(name, value)| live.labels.get(name) == Some(value));
        documents && none_left && labelled && owner_recorded(live, desired) && memory_stored(live, desired)
    }

    /// The ConfigMap to apply over `live`, and over nothing else.
    pub(super) fn config_map(
        &self,
        desired: &DesiredConfigMap,
        live: &Live,
        instance: &str,
    ) -> Result<ConfigMap, PublishError> {
        let memory = format_memory(&desired.memory).map_err(|error| PublishError::Rejected {
            name: desired.name.clone(),
            message: error.to_string(),
        })?;
        let mut annotations = desired.ownership(instance);
        annotations.insert(MEMORY_ANNOTATION.to_owned(), memory);
        Ok(ConfigMap {
            metadata: ObjectMeta {
                name: Some(desired.name.name.clone()),
                namespace: Some(desired.name.namespace.clone()),
                uid: Some(live.record.uid.clone()),
                resource_version: Some(live.record.resource_version.clone()),
                labels: Some(DesiredConfigMap::labels()),
                annotations: Some(annotations),
                owner_references: desired.owner_reference().map(|reference| vec![reference]),
                ..ObjectMeta::default()
            },
            data: Some(self.documents.clone()),
            ..ConfigMap::default()
        })
    }

    /// What publishing this plan did.
    pub(super) fn published(&self, change: Change) -> Published {
        Published {
            change,
            validity: self.validity,
            again_at: self.again_at,
            safer: BTreeSet::new(),
            version: None,
        }
    }
}

/// Whether clients are told the same: byte for byte, or as native documents apart from revision and times. How long a
/// document holds is something that the policy says, when it was issued is not.
fn same_document(a: &str, b: &str) -> bool {
    let parse = |text: &str| NativeDocument::parse(text.as_bytes());
    match (parse(a), parse(b)) {
        (Ok(a), Ok(b)) => a.same_content(&b) && lifetime(a.validity) == lifetime(b.validity),
        _ => a == b,
    }
}

fn lifetime(validity: Validity) -> Option<Duration> {
    validity.valid_until.map(|until| until.since(validity.issued_at))
}

fn renewal_due(text: &str, desired: &DesiredConfigMap, now: Timestamp) -> bool {
    validity(text).is_some_and(|validity| validity.renewal_due(now, desired.name.to_string()))
}

/// The validity of a document that expires.
fn validity(text: &str) -> Option<Validity> {
    let document = NativeDocument::parse(text.as_bytes()).ok()?;
    document.validity.valid_until.map(|_| document.validity)
}

fn owner_recorded(live: &Live, desired: &DesiredConfigMap) -> bool {
    let controller = match desired.end_of_life {
        EndOfLife::Collected => Some(desired.owner.uid.as_str()),
        EndOfLife::Left => None,
    };
    live.record.owner.as_ref() == Some(&desired.owner)
        && live.controller_uid() == controller
        && !live.record.released
}

fn memory_stored(live: &Live, desired: &DesiredConfigMap) -> bool {
    desired.memory.iter().all(|(target, memory)| {
        let stored = live.record.memory.get(target);
        stored.is_some_and(|stored| !memory.must_be_stored(stored))
    })
}
