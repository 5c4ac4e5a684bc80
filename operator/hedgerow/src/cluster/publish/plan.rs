//! What to write, given what shall be and what is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hedgerow_api::names::{MEMORY_ANNOTATION, OFF_FORM_SUFFIX};
use hedgerow_config::{NativeDocument, Validity};
use hedgerow_tuner::{Memory, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::name::NamespacedName;
use super::super::record::format_memory;
use super::desired::{DesiredConfigMap, EndOfLife};
use super::error::PublishError;
use super::live::Live;
use super::render::{Fault, Rendered, off_form_key};
use super::{Change, Published, off};

/// What the documents of a ConfigMap may have in all, in bytes.
const LARGEST: usize = 1 << 20;

/// What to write.
pub(super) struct Plan {
    documents: BTreeMap<String, String>,
    end_of_life: EndOfLife,
    faults: BTreeMap<String, Fault>,
    joining: BTreeSet<String>,
    /// That of the desired document which expires first.
    validity: Option<Validity>,
    again_at: Option<Timestamp>,
}

impl Plan {
    /// The desired documents, native and `rendered`, and those that left the spec but must stay for now, off.
    pub(super) fn new(desired: &DesiredConfigMap, rendered: Rendered, live: &Live, now: Timestamp) -> Self {
        let stays = |key: &str| desired.documents.contains_key(key) || rendered.documents.contains_key(key);
        let mut leaving = live.own_documents();
        // The off form of a document that has become a native one goes with what it was the off form of.
        leaving.retain(|key, _| !stays(key) && !key.strip_suffix(OFF_FORM_SUFFIX).is_some_and(stays));
        let retired = off::retired(&leaving, now);
        let again_at = retired.values().filter_map(|document| document.until).min();
        let retired = retired.into_iter().map(|(key, document)| (key, document.text));
        let unchanged = |(key, text): (&String, &String)| {
            let text = rendered.held_off.get(key).unwrap_or(text);
            // A document that is the same stays as it is, to the byte: its times are part of what clients hold.
            let stands = live.documents.get(key).filter(|stands| {
                same_document(stands, text) && !(desired.renew && renewal_due(stands, desired, now))
            });
            (key.clone(), stands.unwrap_or(text).clone())
        };
        let wanted: BTreeMap<String, String> = desired.documents.iter().map(unchanged).collect();
        let documents: BTreeMap<String, String> = rendered
            .documents
            .into_iter()
            .chain(wanted.clone())
            .chain(retired)
            .collect();
        Self {
            end_of_life: end_of_life(desired, &documents),
            faults: rendered.faults,
            joining: rendered.joining,
            // What is leaving is never renewed, so it must not call for it.
            validity: wanted
                .values()
                .filter_map(|text| validity(text))
                .min_by_key(|validity| validity.valid_until),
            documents,
            again_at,
        }
    }

    /// These documents and no others.
    pub(super) fn exactly(desired: &DesiredConfigMap) -> Self {
        Self {
            end_of_life: end_of_life(desired, &desired.documents),
            documents: desired.documents.clone(),
            faults: BTreeMap::new(),
            joining: BTreeSet::new(),
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
        documents
            && none_left
            && labelled
            && self.owner_recorded(live, desired)
            && memory_stored(live, desired)
    }

    /// Whether it fits into a ConfigMap, and would when every document is off: else what hedges could not be switched off.
    pub(super) fn check_room(&self, name: &NamespacedName) -> Result<(), PublishError> {
        let larger = |(key, text): (&String, &String)| {
            let off = self.documents.get(&off_form_key(key));
            off.map_or(text.len(), |off| off.len().max(text.len()))
        };
        let bytes = self.documents.iter().map(larger).sum();
        if bytes <= LARGEST {
            return Ok(());
        }
        Err(PublishError::TooLarge {
            name: name.clone(),
            bytes,
            most: LARGEST,
        })
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
                owner_references: (self.end_of_life == EndOfLife::Collected)
                    .then(|| vec![desired.owner_reference()]),
                ..ObjectMeta::default()
            },
            data: Some(self.documents.clone()),
            ..ConfigMap::default()
        })
    }

    /// What publishing this plan over `live` did.
    pub(super) fn published(self, change: Change, desired: &DesiredConfigMap, live: &Live) -> Published {
        // Whoever edited it may have told clients anything.
        let put_off =
            matches!(change, Change::PutBack { .. }) && !desired.memory.values().any(Memory::lets_hedge);
        Published {
            safer: change != Change::Unchanged && (put_off || self.is_safer_than(live, desired)),
            change,
            validity: self.validity,
            again_at: self.again_at,
            faults: self.faults,
            joining: self.joining,
        }
    }

    /// Whether clients are off, or hedge less or later, than by what is there: by what is remembered of their targets, or by
    /// what the documents say, for one may be off though its target hedges.
    pub(super) fn is_safer_than(&self, live: &Live, desired: &DesiredConfigMap) -> bool {
        let remembered = desired.memory.iter().any(|(target, memory)| {
            let before = live.record.memory.get(target);
            before.is_some_and(|before| memory.is_safer_than(before))
        });
        let goes_off = |key: &String| is_off(&self.documents, key) && lets_hedge(&live.documents, key);
        remembered || self.documents.keys().any(goes_off)
    }

    fn owner_recorded(&self, live: &Live, desired: &DesiredConfigMap) -> bool {
        let controller = match self.end_of_life {
            EndOfLife::Collected => Some(desired.owner.uid.as_str()),
            EndOfLife::Left => None,
        };
        live.record.owner.as_ref() == Some(&desired.owner)
            && live.controller_uid() == controller
            && !live.record.released
    }
}

/// What becomes of a ConfigMap with these documents: while one of them never expires, it must outlive its policy.
fn end_of_life(desired: &DesiredConfigMap, documents: &BTreeMap<String, String>) -> EndOfLife {
    let has_off_form = |key: &String| documents.contains_key(&off_form_key(key));
    if documents.keys().any(has_off_form) {
        EndOfLife::Left
    } else {
        desired.end_of_life
    }
}

/// Whether a document tells its clients not to hedge: a native one by what it says, another by being its off form.
fn is_off(documents: &BTreeMap<String, String>, key: &str) -> bool {
    let Some(text) = documents.get(key) else {
        return false;
    };
    match documents.get(&off_form_key(key)) {
        Some(off) => text == off,
        None => NativeDocument::parse(text.as_bytes()).is_ok_and(|document| document.hedging.is_none()),
    }
}

/// Whether a document may let its clients hedge; what cannot be understood may.
fn lets_hedge(documents: &BTreeMap<String, String>, key: &str) -> bool {
    let Some(text) = documents.get(key) else {
        return false;
    };
    match documents.get(&off_form_key(key)) {
        Some(off) => text != off,
        None => NativeDocument::parse(text.as_bytes()).map_or(true, |document| document.hedging.is_some()),
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

fn memory_stored(live: &Live, desired: &DesiredConfigMap) -> bool {
    desired.memory.iter().all(|(target, memory)| {
        let stored = live.record.memory.get(target);
        stored.is_some_and(|stored| !memory.must_be_stored(stored))
    })
}
