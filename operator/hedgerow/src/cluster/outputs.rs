//! The ConfigMaps that carry documents, and those that documents are written over, as the API server tells: their metadata
//! alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

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
    records: Arc<RwLock<Records>>,
    /// The bases, each with its version.
    bases: Arc<RwLock<BTreeMap<NamespacedName, String>>>,
    policies: Policies,
    changes: Changes<PolicyKey>,
}

/// All outputs, and those of each policy: who asks for a policy's must not look through everybody's.
#[derive(Debug, Default)]
struct Records {
    by_name: BTreeMap<NamespacedName, Arc<OutputRecord>>,
    by_policy: BTreeMap<PolicyKey, Vec<Arc<OutputRecord>>>,
    by_policy_uid: BTreeMap<String, Vec<Arc<OutputRecord>>>,
}

impl Records {
    /// The output of that name is like this now, or is gone; returns how it was.
    fn set(&mut self, name: &NamespacedName, record: Option<Arc<OutputRecord>>) -> Option<Arc<OutputRecord>> {
        let before = self.by_name.remove(name);
        if let Some(owner) = before.as_ref().and_then(|before| before.owner.as_ref()) {
            remove(&mut self.by_policy, &owner.policy, name);
            remove(&mut self.by_policy_uid, &owner.uid, name);
        }
        if let Some(record) = record {
            if let Some(owner) = &record.owner {
                let of_policy = self.by_policy.entry(owner.policy.clone()).or_default();
                of_policy.push(Arc::clone(&record));
                let of_uid = self.by_policy_uid.entry(owner.uid.clone()).or_default();
                of_uid.push(Arc::clone(&record));
            }
            self.by_name.insert(name.clone(), record);
        }
        before
    }
}

/// Takes an output out of those of a key; a key that has none left goes.
fn remove<K: Ord>(index: &mut BTreeMap<K, Vec<Arc<OutputRecord>>>, key: &K, name: &NamespacedName) {
    if let Some(records) = index.get_mut(key) {
        records.retain(|record| record.name != *name);
        if records.is_empty() {
            index.remove(key);
        }
    }
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
        self.read().by_name.get(name).cloned()
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
        let records = self.read();
        self.ours(records.by_policy_uid.get(policy_uid).into_iter().flatten())
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
        let mut outputs = self.written_for_name(policy);
        outputs.retain(|record| !record.released && record.memory.values().any(Memory::lets_hedge));
        outputs
    }

    /// This install's outputs whose policy is gone and that nothing collects: to be
    /// [released](super::Publisher::release).
    pub fn orphans(&self) -> Vec<Arc<OutputRecord>> {
        let outputs = self.ours(self.read().by_name.values());
        self.only_orphans(outputs)
    }

    /// Those of them that were written for a policy of that name.
    pub fn orphans_of(&self, policy: &PolicyKey) -> Vec<Arc<OutputRecord>> {
        self.only_orphans(self.written_for_name(policy))
    }

    fn only_orphans(&self, mut outputs: Vec<Arc<OutputRecord>>) -> Vec<Arc<OutputRecord>> {
        let exists = |owner: &Owner| {
            let policy = self.policies.get(&owner.policy);
            policy.is_some_and(|policy| policy.uid == owner.uid)
        };
        outputs.retain(|record| {
            let is_left = record.owner.as_ref().is_some_and(|owner| !exists(owner));
            is_left && !record.collected && !record.released
        });
        outputs
    }

    /// This install's outputs that were written for a policy of that name, gone or not.
    fn written_for_name(&self, policy: &PolicyKey) -> Vec<Arc<OutputRecord>> {
        let records = self.read();
        self.ours(records.by_policy.get(policy).into_iter().flatten())
    }

    /// Those that this install wrote.
    fn ours<'a>(&self, records: impl Iterator<Item = &'a Arc<OutputRecord>>) -> Vec<Arc<OutputRecord>> {
        let ours = |record: &&Arc<OutputRecord>| record.instance.as_deref() == Some(&*self.instance);
        records.filter(ours).cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Records> {
        self.records.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache for Outputs {
    type Object = PartialObjectMeta<ConfigMap>;

    fn known(&self) -> Vec<NamespacedName> {
        let bases = self.bases.read().unwrap_or_else(PoisonError::into_inner);
        let known: BTreeSet<_> = self.read().by_name.keys().chain(bases.keys()).cloned().collect();
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
            records.set(&name, record.clone())
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

#[cfg(test)]
mod tests {
    use hedgerow_api::names::{INSTANCE_ANNOTATION, POLICY_ANNOTATION, POLICY_UID_ANNOTATION};
    use proptest::prelude::*;

    use super::*;

    fn config_map(policy: &str, uid: u8) -> PartialObjectMeta<ConfigMap> {
        let annotations = [
            (INSTANCE_ANNOTATION, "this".to_owned()),
            (POLICY_ANNOTATION, format!("shop/{policy}")),
            (POLICY_UID_ANNOTATION, format!("uid-{uid}")),
        ];
        let annotations = annotations.map(|(name, value)| (name.to_owned(), value));
        PartialObjectMeta {
            metadata: ObjectMeta {
                annotations: Some(annotations.into()),
                ..ObjectMeta::default()
            },
            ..PartialObjectMeta::default()
        }
    }

    /// By looking through all of them.
    fn named(outputs: &Outputs, wanted: impl Fn(&Owner) -> bool) -> BTreeSet<NamespacedName> {
        let records = outputs.read();
        let owned = records
            .by_name
            .values()
            .filter(|record| record.owner.as_ref().is_some_and(&wanted));
        owned.map(|record| record.name.clone()).collect()
    }

    fn names(records: Vec<Arc<OutputRecord>>) -> Vec<NamespacedName> {
        let mut names: Vec<_> = records.iter().map(|record| record.name.clone()).collect();
        names.sort();
        names
    }

    proptest! {
        #[test]
        fn those_of_a_policy_are_those_that_say_so_whatever_changed_before(
            changes in prop::collection::vec((0..4_u8, prop::option::of(("[ab]", 0..3_u8))), 0..40)
        ) {
            let outputs = Outputs::new("this", Policies::new(Changes::default()), Changes::default());
            for (name, owner) in changes {
                let name = NamespacedName::new("shop", format!("cm-{name}"));
                let mut object = owner.map(|(policy, uid)| config_map(&policy, uid));
                if let Some(object) = &mut object {
                    object.metadata.name = Some(name.name.clone());
                    object.metadata.namespace = Some(name.namespace.clone());
                }
                outputs.set(name, object);
            }
            for policy in ["a", "b", "c"] {
                let key = PolicyKey::new("shop", policy);
                let expected: Vec<_> = named(&outputs, |owner| owner.policy == key).into_iter().collect();
                prop_assert_eq!(&names(outputs.orphans_of(&key)), &expected, "no policy exists");
            }
            for uid in 0..3 {
                let uid = format!("uid-{uid}");
                let expected: Vec<_> = named(&outputs, |owner| owner.uid == uid).into_iter().collect();
                prop_assert_eq!(&names(outputs.written_for(&uid)), &expected);
            }
            let records = outputs.read();
            prop_assert!(records.by_policy.values().chain(records.by_policy_uid.values()).all(|kept| !kept.is_empty()));
        }
    }
}
