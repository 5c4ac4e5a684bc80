//! The policies that exist, as the API server tells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt;
use hedgerow_api::HedgePolicy;
use hedgerow_tuner::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};

use super::changes::Changes;
use super::claims::{self, Claimant};
use super::follow::{Cache, Source, watch_config};
use super::name::{NamespacedName, PolicyKey};

/// A policy as it is in the cluster.
#[derive(Clone, Debug)]
pub struct PolicyEntry {
    /// Its name.
    pub key: PolicyKey,
    /// Its UID: another policy of the same name has another.
    pub uid: String,
    /// When it was created.
    pub created: Timestamp,
    /// Rises with each change of its spec.
    pub generation: i64,
    /// The version that was seen last.
    pub resource_version: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The ConfigMaps that it names, in its own namespace.
    pub claims: BTreeSet<String>,
    /// The policy, or why it cannot be understood (stored before the schema, or by another version).
    pub policy: Result<Arc<HedgePolicy>, String>,
}

impl PolicyEntry {
    /// Reads what the API server sent. Nothing makes this fail: one policy that cannot be understood must neither stop
    /// the watch of the others nor lose its ConfigMaps. (`DeserializeGuard` would drop the spec that names them.)
    fn read(object: DynamicObject) -> Self {
        let metadata = object.metadata.clone();
        let claims = claims_of(&object.data);
        let policy = object.try_parse::<HedgePolicy>();
        Self {
            key: NamespacedName::of(&metadata),
            uid: metadata.uid.unwrap_or_default(),
            created: Timestamp::from_millis(
                metadata
                    .creation_timestamp
                    .map_or(i64::MAX, |time| time.0.as_millisecond()),
            ),
            generation: metadata.generation.unwrap_or(0),
            resource_version: metadata.resource_version.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            claims,
            policy: policy.map(Arc::new).map_err(|error| error.to_string()),
        }
    }

    fn claimant(&self) -> Claimant {
        Claimant {
            policy: self.key.clone(),
            uid: self.uid.clone(),
            created: self.created,
        }
    }

    /// Whether something that decisions rest on differs. Its status is not: that is what the operator itself writes.
    fn differs(&self, other: &Self) -> bool {
        (&self.uid, self.generation, &self.annotations) != (&other.uid, other.generation, &other.annotations)
    }
}

/// The ConfigMaps that a policy names, read leniently.
fn claims_of(object: &serde_json::Value) -> BTreeSet<String> {
    let publish = object
        .pointer("/spec/publish")
        .and_then(serde_json::Value::as_array);
    let names = publish
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.get("configMap")?.as_str());
    names.map(str::to_owned).collect()
}

/// The policies that exist. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    entries: Arc<RwLock<BTreeMap<PolicyKey, Arc<PolicyEntry>>>>,
    changes: Changes<PolicyKey>,
}

impl Policies {
    pub(super) fn new(changes: Changes<PolicyKey>) -> Self {
        Self {
            entries: Arc::default(),
            changes,
        }
    }

    /// The policy of that name, if it exists.
    pub fn get(&self, key: &PolicyKey) -> Option<Arc<PolicyEntry>> {
        self.read().get(key).cloned()
    }

    /// The names of all policies.
    pub fn keys(&self) -> Vec<PolicyKey> {
        self.read().keys().cloned().collect()
    }

    /// The names of the policies in a namespace.
    pub fn keys_in(&self, namespace: &str) -> Vec<PolicyKey> {
        let entries = self.read();
        in_namespace(&entries, namespace)
            .map(|entry| entry.key.clone())
            .collect()
    }

    /// The policies that name this ConfigMap as an output.
    pub fn claimants(&self, config_map: &NamespacedName) -> Vec<Claimant> {
        let entries = self.read();
        in_namespace(&entries, &config_map.namespace)
            .filter(|entry| entry.claims.contains(&config_map.name))
            .map(|entry| entry.claimant())
            .collect()
    }

    /// The policy that may write this ConfigMap: see [`claims::winner`].
    pub fn winner(&self, config_map: &NamespacedName) -> Option<Claimant> {
        claims::winner(self.claimants(config_map))
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<PolicyKey, Arc<PolicyEntry>>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an entry in its place and marks whom that concerns.
    fn update(&self, key: &PolicyKey, entry: Option<PolicyEntry>) {
        let entry = entry.map(Arc::new);
        let before = {
            let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
            match &entry {
                Some(entry) => entries.insert(key.clone(), Arc::clone(entry)),
                None => entries.remove(key),
            }
        };
        let changed = match (&before, &entry) {
            (Some(before), Some(entry)) => before.differs(entry),
            (None, None) => false,
            _ => true,
        };
        if changed {
            self.changes.mark([key.clone()]);
            self.mark_rivals(key, before.as_deref(), entry.as_deref());
        }
    }

    /// Whoever claims a ConfigMap that this policy claims or claimed may now win or lose it.
    fn mark_rivals(&self, key: &PolicyKey, before: Option<&PolicyEntry>, after: Option<&PolicyEntry>) {
        let claims = [before, after]
            .into_iter()
            .flatten()
            .flat_map(|entry| &entry.claims);
        let names: BTreeSet<_> = claims
            .map(|name| NamespacedName::new(&key.namespace, name))
            .collect();
        for name in names {
            self.changes
                .mark(self.claimants(&name).into_iter().map(|claimant| claimant.policy));
        }
    }
}

fn in_namespace<'a>(
    entries: &'a BTreeMap<PolicyKey, Arc<PolicyEntry>>,
    namespace: &'a str,
) -> impl Iterator<Item = &'a Arc<PolicyEntry>> {
    entries
        .range(NamespacedName::new(namespace, "")..)
        .map(|(_, entry)| entry)
        .take_while(move |entry| entry.key.namespace == namespace)
}

impl Cache for Policies {
    type Object = DynamicObject;

    fn listed(&self, namespace: Option<&str>, objects: Vec<DynamicObject>) {
        let listed: BTreeSet<_> = objects
            .iter()
            .map(|object| NamespacedName::of(object.meta()))
            .collect();
        let known = namespace.map_or_else(|| self.keys(), |namespace| self.keys_in(namespace));
        for key in known.iter().filter(|key| !listed.contains(key)) {
            self.update(key, None);
        }
        for object in objects {
            self.applied(object);
        }
    }

    fn applied(&self, object: DynamicObject) {
        let entry = PolicyEntry::read(object);
        self.update(&entry.key.clone(), Some(entry));
    }

    fn deleted(&self, object: DynamicObject) {
        self.update(&NamespacedName::of(object.meta()), None);
    }
}

/// The watch of policies in `namespace`, or in the cluster.
pub(super) fn source(client: &Client, namespace: Option<String>) -> Source<DynamicObject> {
    let resource = ApiResource::erase::<HedgePolicy>(&());
    let api: Api<DynamicObject> = match &namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    Source {
        what: "HedgePolicies",
        namespace,
        begin: Box::new(move || {
            watcher::watcher(api.clone(), watch_config())
                .map(|event| event.map(|event| event.modify(|object| object.managed_fields_mut().clear())))
                .boxed()
        }),
    }
}
