//! What a ConfigMap shall be.

use std::collections::BTreeMap;

use hedgerow_api::HedgePolicy;
use hedgerow_api::names::{
    INSTANCE_ANNOTATION, MANAGED_BY, MANAGED_BY_LABEL, POLICY_ANNOTATION, POLICY_UID_ANNOTATION, ROLE_LABEL,
    ROLE_OUTPUT,
};
use hedgerow_tuner::Memory;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

use super::super::name::NamespacedName;
use super::super::record::Owner;
use super::render::DesiredForm;

/// What a ConfigMap shall be: the whole of it, since a key that is left out is deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredConfigMap {
    /// Where; in the policy's namespace.
    pub name: NamespacedName,
    /// The policy that it is written for.
    pub owner: Owner,
    /// What becomes of it when the policy is deleted.
    pub end_of_life: EndOfLife,
    /// The documents that are as they shall be, by key: native ones.
    pub documents: BTreeMap<String, String>,
    /// The documents in the formats of other systems, by key. They are rendered when they are written, over what is known of
    /// their bases then.
    pub forms: BTreeMap<String, DesiredForm>,
    /// What the tuner remembers of the targets in these documents.
    pub memory: BTreeMap<String, Memory>,
    /// Whether to write documents that differ in `revision`, `issuedAt` or `validUntil` alone, once they are due. Without
    /// this they count as the same, so that a restart writes nothing; above all it does not prolong documents that ran out
    /// meanwhile. Their clients are off, which is known only once the documents have been looked at, and come back through
    /// the ramp.
    pub renew: bool,
}

/// What becomes of a ConfigMap when its policy is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOfLife {
    /// Garbage collection removes it: its documents expire, so clients that still hold one stop by themselves.
    Collected,
    /// It is written off and left: nothing would tell a client that a document which never expires is gone.
    Left,
}

impl DesiredConfigMap {
    /// The labels of every output.
    pub(super) fn labels() -> BTreeMap<String, String> {
        let labels = [(MANAGED_BY_LABEL, MANAGED_BY), (ROLE_LABEL, ROLE_OUTPUT)];
        labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    /// The annotations that say whose it is.
    pub(super) fn ownership(&self, instance: &str) -> BTreeMap<String, String> {
        [
            (INSTANCE_ANNOTATION, instance.to_owned()),
            (POLICY_ANNOTATION, self.owner.policy.to_string()),
            (POLICY_UID_ANNOTATION, self.owner.uid.clone()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// The reference by which garbage collection finds it. `blockOwnerDeletion` stays unset: nobody shall wait for it.
    pub(super) fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: HedgePolicy::api_version(&()).into_owned(),
            kind: HedgePolicy::kind(&()).into_owned(),
            name: self.owner.policy.name.clone(),
            uid: self.owner.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }

    /// The empty ConfigMap that claims the name.
    pub(super) fn stake(&self, instance: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name.name.clone()),
                namespace: Some(self.name.namespace.clone()),
                labels: Some(Self::labels()),
                annotations: Some(self.ownership(instance)),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }
}
