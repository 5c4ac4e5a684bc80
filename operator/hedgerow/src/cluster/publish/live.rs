//! What a ConfigMap is.

use std::collections::{BTreeMap, BTreeSet};

use hedgerow_api::names::{FIELD_MANAGER, RELEASED_ANNOTATION};
use hedgerow_tuner::{Reason, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};

use super::super::name::NamespacedName;
use super::super::record::{OutputRecord, Owner, controller};
use super::desired::{DesiredConfigMap, EndOfLife};
use super::error::PublishError;
use super::off;

/// A ConfigMap as it was read or written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Live {
    pub(super) record: OutputRecord,
    pub(super) documents: BTreeMap<String, String>,
    /// The keys that this operator wrote and nobody else has taken since.
    pub(super) own_keys: BTreeSet<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    controller: Option<OwnerReference>,
    immutable: bool,
    /// Who else wrote to it last.
    pub(super) editor: Option<String>,
}

impl Live {
    pub(super) fn read(config_map: ConfigMap) -> Self {
        let metadata = config_map.metadata;
        Self {
            record: OutputRecord::read(&metadata),
            documents: config_map.data.unwrap_or_default(),
            own_keys: own_keys(&metadata),
            controller: controller(&metadata).cloned(),
            immutable: config_map.immutable == Some(true),
            editor: editor(&metadata),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
        }
    }

    /// Whether this install may write to it at all, given that the policy has won the claim.
    pub(super) fn check_writable(&self, name: &NamespacedName, instance: &str) -> Result<(), PublishError> {
        let foreign = |holder: String| PublishError::NameConflict {
            name: name.clone(),
            holder,
        };
        let Some(owner) = &self.record.owner else {
            return Err(foreign("was not created by Hedgerow".into()));
        };
        match self.record.instance.as_deref() {
            Some(theirs) if theirs == instance => {}
            Some(theirs) => return Err(foreign(format!("is written by the Hedgerow install {theirs:?}"))),
            None => return Err(foreign("was not created by Hedgerow".into())),
        }
        match &self.controller {
            Some(theirs) if theirs.uid != owner.uid => {
                let (kind, their_name) = (&theirs.kind, &theirs.name);
                return Err(foreign(format!("is controlled by {kind} {their_name}")));
            }
            _ => {}
        }
        if self.immutable {
            return Err(PublishError::Immutable { name: name.clone() });
        }
        Ok(())
    }

    /// Whether this install wrote it for this policy.
    pub(super) fn is_for(&self, owner: &Owner, instance: &str) -> bool {
        self.record.instance.as_deref() == Some(instance)
            && self
                .record
                .owner
                .as_ref()
                .is_some_and(|live| live.uid == owner.uid)
    }

    pub(super) fn controller_uid(&self) -> Option<&str> {
        self.controller.as_ref().map(|reference| reference.uid.as_str())
    }

    /// The documents under the keys that this operator wrote.
    pub(super) fn own_documents(&self) -> BTreeMap<String, String> {
        let own = self
            .documents
            .iter()
            .filter(|(key, _)| self.own_keys.contains(*key));
        own.map(|(key, text)| (key.clone(), text.clone())).collect()
    }

    /// The documents that this operator wrote: as they stand, or, where a person has taken one, as this operator left it
    /// `before`. Without that nobody knows what it said, and it is left: a base that a person wrote may hedge by itself, so
    /// there is nothing that is safely off.
    pub(super) fn written_documents(&self, before: Option<&Self>) -> BTreeMap<String, String> {
        let mut documents = before.map(Self::own_documents).unwrap_or_default();
        documents.extend(self.own_documents());
        documents
    }

    /// This ConfigMap as something to wish for; `before` is what this operator left there.
    pub(super) fn as_desired(
        &self,
        name: &NamespacedName,
        owner: &Owner,
        before: Option<&Self>,
    ) -> DesiredConfigMap {
        DesiredConfigMap {
            name: name.clone(),
            owner: owner.clone(),
            end_of_life: if self.record.collected {
                EndOfLife::Collected
            } else {
                EndOfLife::Left
            },
            documents: self.written_documents(before),
            forms: BTreeMap::new(),
            memory: self.record.memory.clone(),
            renew: false,
        }
    }

    /// This ConfigMap with every document off, to wish for.
    pub(super) fn as_desired_off(
        &self,
        name: &NamespacedName,
        owner: &Owner,
        before: Option<&Self>,
        reason: Reason,
        now: Timestamp,
    ) -> DesiredConfigMap {
        let desired = self.as_desired(name, owner, before);
        DesiredConfigMap {
            documents: off::all(&desired.documents, reason, now),
            // What differs in its times alone is due to be renewed.
            renew: true,
            ..desired
        }
    }

    /// Whether `current`, read later, holds other documents than this operator left there.
    pub(super) fn was_edited(&self, current: &Self) -> bool {
        let documents = |live: &Self| -> BTreeMap<String, String> {
            let own = live
                .documents
                .iter()
                .filter(|(key, _)| self.own_keys.contains(*key));
            own.map(|(key, text)| (key.clone(), text.clone())).collect()
        };
        documents(self) != documents(current)
    }
}

/// Says that this operator does not write it any longer, and since when.
pub(super) fn mark_released(config_map: &mut ConfigMap, now: Timestamp) {
    let since = k8s_openapi::jiff::Timestamp::from_millisecond(now.as_millis())
        .map(|time| time.to_string())
        .unwrap_or_default();
    let annotations = config_map.metadata.annotations.get_or_insert_default();
    annotations.insert(RELEASED_ANNOTATION.to_owned(), since);
}

/// The keys of `data` that this operator's applies own.
fn own_keys(metadata: &ObjectMeta) -> BTreeSet<String> {
    let entries = metadata.managed_fields.iter().flatten();
    let applied = entries.filter(|entry| {
        entry.manager.as_deref() == Some(FIELD_MANAGER) && entry.operation.as_deref() == Some("Apply")
    });
    applied.filter_map(data_keys).flatten().collect()
}

fn data_keys(entry: &ManagedFieldsEntry) -> Option<BTreeSet<String>> {
    let data = entry.fields_v1.as_ref()?.0.get("f:data")?.as_object()?;
    Some(
        data.keys()
            .filter_map(|key| Some(key.strip_prefix("f:")?.to_owned()))
            .collect(),
    )
}

/// The field manager beside this operator that wrote last.
fn editor(metadata: &ObjectMeta) -> Option<String> {
    let entries = metadata.managed_fields.iter().flatten();
    let others = entries.filter(|entry| entry.manager.as_deref() != Some(FIELD_MANAGER));
    others
        .max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?
        .manager
        .clone()
}
