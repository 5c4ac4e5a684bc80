//! The ConfigMaps that carry documents, and those that documents are written over, as the API server tells: their metadata
//! alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use hedgerow_api::names::{ROLE_BASE, ROLE_LABEL, ROLE_OUTPUT};
use hedgerow_tuner::Memory;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PartialObjectMeta;
use kube::{Api, Client};

use super::changes::Changes;
use super::follow::{Cache, Source};
use super::name::{NamespacedName, PolicyKey};
use super::policies::Policies;
use super::record::{OutputRecord, Owner};

/// The outputs that exist. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Outputs {
    instance: Arc<str>,
    records: Arc<RwLock<BTreeMap<NamespacedName, Arc<OutputRecord>>>>,
    /// The bases, each with its version.
    bases: Arc<RwLock<BTreeMap<NamespacedName, String>>>,
    policies: Policies,
    changes: Changes<PolicyKey>,
}

impl Outputs {
    pub(super) fn new(instance: &str, policies: Policies, changes: Changes<PolicyKey>) -> Self {
        Self {
            instance: instance.into(),
            records: Arc::default(),
            bases: Arc::default(),
            policies,
            changes,
        }
    }

    /// What is known of this ConfigMap; `None` when it does not exist or is not labelled as an output.
    pub fn get(&self, name: &NamespacedName) -> Option<Arc<OutputRecord>> {
        self.read().get(name).cloned()
    }

    /// The version of a base; `None` when it does not exist or is not labelled as one.
    pub(super) fn base_version(&self, name: &NamespacedName) -> Option<String> {
        let bases = self.bases.read().unwrap_or_else(PoisonError::into_inner);
        bases.get(name).cloned()
    }

    /// Notes how a base is; whoever is written over it is concerned by a change.
    fn set_base(&self, name: &NamespacedName, version: Option<String>) {
        let before = {
            let mut bases = self.bases.write().unwrap_or_else(PoisonError::into_inner);
            match &version {
                Some(version) => bases.insert(name.clone(), version.clone()),
                None => bases.remove(name),
            }
        };
        if before != version {
            self.changes.mark(self.policies.over_base(name));
        }
    }

    /// This install's outputs that were written for the policy of that UID.
    pub fn written_for(&self, policy_uid: &str) -> Vec<Arc<OutputRecord>> {
        self.of_this_install(|owner| owner.uid == policy_uid)
    }

    /// What the tuner remembers of a target of this policy: the newest, if several ConfigMaps carry it.
    pub fn memory(&self, policy_uid: &str, target: &str) -> Option<Memory> {
        let memories = self.memories(policy_uid, target).into_iter();
        memories
            .map(|(_, memory)| memory)
            .max_by_key(|memory| memory.written)
    }

    /// The same, with each ConfigMap that carries it.
    pub fn memories(&self, policy_uid: &str, target: &str) -> Vec<(String, Memory)> {
        let records = self.written_for(policy_uid).into_iter();
        records
            .filter_map(|record| Some((record.name.name.clone(), record.memory.get(target)?.clone())))
            .collect()
    }

    /// This install's outputs that were written for a policy of that name, gone or not, and whose clients may hedge.
    pub fn letting_hedge(&self, policy: &PolicyKey) -> Vec<Arc<OutputRecord>> {
        let mut records = self.of_this_install(|owner| owner.policy == *policy);
        records.retain(|record| !record.released && record.memory.values().any(Memory::lets_hedge));
        records
    }

    /// This install's outputs whose policy is gone and that nothing collects: to be
    /// [released](super::Publisher::release).
    pub fn orphans(&self) -> Vec<Arc<OutputRecord>> {
        let exists = |owner: &Owner| {
            let policy = self.policies.get(&owner.policy);
            policy.is_some_and(|policy| policy.uid == owner.uid)
        };
        let mut orphans = self.of_this_install(|owner| !exists(owner));
        orphans.retain(|record| !record.collected && !record.released);
        orphans
    }

    fn of_this_install(&self, wanted: impl Fn(&Owner) -> bool) -> Vec<Arc<OutputRecord>> {
        let records = self.read();
        let ours = records.values().filter(|record| {
            record.instance.as_deref() == Some(&*self.instance) && record.owner.as_ref().is_some_and(&wanted)
        });
        ours.cloned().collect()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<NamespacedName, Arc<OutputRecord>>> {
        self.records.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache for Outputs {
    type Object = PartialObjectMeta<ConfigMap>;

    fn known(&self) -> Vec<NamespacedName> {
        let bases = self.bases.read().unwrap_or_else(PoisonError::into_inner);
        let known: BTreeSet<_> = self.read().keys().chain(bases.keys()).cloned().collect();
        known.into_iter().collect()
    }

    fn set(&self, name: NamespacedName, object: Option<Self::Object>) {
        let (base, output) = match object {
            Some(object) if is_base(&object.metadata) => (Some(object), None),
            other => (None, other),
        };
        let version = base.map(|base| base.metadata.resource_version.unwrap_or_default());
        self.set_base(&name, version);
        let record = output.map(|object| Arc::new(OutputRecord::read(&object.metadata)));
        let before = {
            let mut records = self.records.write().unwrap_or_else(PoisonError::into_inner);
            match &record {
                Some(record) => records.insert(name.clone(), Arc::clone(record)),
                None => records.remove(&name),
            }
        };
        if before == record {
            return;
        }
        let owner = |record: Arc<OutputRecord>| record.owner.as_ref().map(|owner| owner.policy.clone());
        let owners = [before, record].into_iter().flatten().filter_map(owner);
        let claimants = self
            .policies
            .claimants(&name)
            .into_iter()
            .map(|claimant| claimant.policy);
        self.changes.mark(owners.chain(claimants));
    }
}

fn is_base(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.get(ROLE_LABEL).is_some_and(|role| role == ROLE_BASE))
}

/// The watch of outputs and bases in `namespace`, or in the cluster. Metadata alone, and by label: the operator shall not hold
/// every ConfigMap of a cluster in memory.
pub(super) fn source(client: &Client, namespace: Option<String>) -> Source<PartialObjectMeta<ConfigMap>> {
    let api: Api<PartialObjectMeta<ConfigMap>> = match &namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    Source {
        what: "output ConfigMaps",
        matters: "documents that somebody edits or deletes are not put back, and edits of bases are not seen",
        namespace,
        api,
        labels: Some(format!("{ROLE_LABEL} in ({ROLE_OUTPUT},{ROLE_BASE})")),
        fields: None,
    }
}
