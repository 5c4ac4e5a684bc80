//! The policies that exist, as the API server tells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use hedgerow_api::{HedgePolicy, HedgePolicyStatus};
use hedgerow_tuner::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};

use super::changes::Changes;
use super::claims::{self, Claimant};
use super::follow::{Cache, Source};
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
    /// The ConfigMaps that its documents are written over, in its own namespace.
    pub bases: BTreeSet<String>,
    /// The policy, or why it cannot be understood (stored before the schema, or by another version).
    pub policy: Result<Arc<HedgePolicy>, String>,
    /// Its status, read apart from the rest: what cannot be understood keeps its times, and nothing in a status makes a
    /// policy that is sound one that cannot be understood.
    pub status: Option<HedgePolicyStatus>,
}

impl PolicyEntry {
    /// Reads what the API server sent. Nothing makes this fail: one policy that cannot be understood must neither stop
    /// the watch of the others nor lose its ConfigMaps. (`DeserializeGuard` would drop the spec that names them.)
    fn read(mut object: DynamicObject) -> Self {
        let metadata = object.metadata.clone();
        let claims = named_in_publish(&object.data, "/configMap");
        let bases = named_in_publish(&object.data, "/base/configMap");
        let status = object.data.as_object_mut().and_then(|data| data.remove("status"));
        let status = status.and_then(|status| serde_json::from_value(status).ok());
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
            bases,
            policy: policy.map(Arc::new).map_err(|error| error.to_string()),
            status,
        }
    }

    /// The source that it asks of, and for how many targets; `None` when it cannot be understood.
    fn asks(&self) -> Option<(&str, usize)> {
        let spec = &self.policy.as_ref().ok()?.spec;
        Some((&spec.source, spec.targets.len()))
    }

    /// Whether it was there before `other`; by name where the time does not tell.
    pub fn is_older_than(&self, other: &Self) -> bool {
        (self.created, &self.key) < (other.created, &other.key)
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

/// The ConfigMaps that a policy names at that place of each output, read leniently.
fn named_in_publish(object: &serde_json::Value, place: &str) -> BTreeSet<String> {
    let publish = object
        .pointer("/spec/publish")
        .and_then(serde_json::Value::as_array);
    let names = publish
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.pointer(place)?.as_str());
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

    /// The policies with a document that is written over this ConfigMap.
    pub(super) fn over_base(&self, config_map: &NamespacedName) -> Vec<PolicyKey> {
        let entries = self.read();
        in_namespace(&entries, &config_map.namespace)
            .filter(|entry| entry.bases.contains(&config_map.name))
            .map(|entry| entry.key.clone())
            .collect()
    }

    /// The policy that may write this ConfigMap: see [`claims::winner`].
    pub fn winner(&self, config_map: &NamespacedName) -> Option<Claimant> {
        claims::winner(self.claimants(config_map))
    }

    /// How many targets a source allows a younger policy of the namespace rests on what this one asks of it.
    fn mark_younger(&self, before: Option<&PolicyEntry>, after: Option<&PolicyEntry>) {
        let [asked, asks] = [before, after].map(|entry| entry.and_then(PolicyEntry::asks));
        let (Some(this), false) = (after.or(before), asked == asks) else {
            return;
        };
        let sources: Vec<&str> = [asked, asks]
            .into_iter()
            .flatten()
            .map(|(source, _)| source)
            .collect();
        let concerned = |other: &&Arc<PolicyEntry>| {
            this.is_older_than(other) && other.asks().is_some_and(|(source, _)| sources.contains(&source))
        };
        let entries = self.read();
        let younger = in_namespace(&entries, &this.key.namespace).filter(concerned);
        self.changes.mark(younger.map(|other| other.key.clone()));
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<PolicyKey, Arc<PolicyEntry>>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
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

    fn known(&self) -> Vec<NamespacedName> {
        self.keys()
    }

    fn set(&self, key: NamespacedName, object: Option<DynamicObject>) {
        let entry = object.map(PolicyEntry::read).map(Arc::new);
        let before = {
            let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
            match &entry {
                Some(entry) => entries.insert(key.clone(), Arc::clone(entry)),
                None => entries.remove(&key),
            }
        };
        let changed = match (&before, &entry) {
            (Some(before), Some(entry)) => before.differs(entry),
            (None, None) => false,
            _ => true,
        };
        if changed {
            self.changes.mark([key.clone()]);
            self.mark_rivals(&key, before.as_deref(), entry.as_deref());
            self.mark_younger(before.as_deref(), entry.as_deref());
        }
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
        matters: "edits of policies, the annotation hedgerow.dev/off among them, do not act",
        namespace,
        api,
        labels: None,
        fields: None,
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::{Value, json};

    use super::*;

    fn object(name: &str, spec: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "hedgerow.dev/v1alpha1", "kind": "HedgePolicy",
            "metadata": {
                "name": name, "namespace": "helpdesk", "uid": format!("uid-{name}"), "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": spec,
        }))
        .unwrap()
    }

    /// A policy that asks `source` for so many targets.
    fn asking(source: &str, targets: usize) -> Value {
        let mut spec = publishing_to("");
        spec["publish"] = json!([]);
        let target = spec["targets"][0].clone();
        spec["targets"] = (0..targets).map(|_| target.clone()).collect();
        spec["source"] = source.into();
        spec
    }

    fn publishing_to(config_map: &str) -> Value {
        json!({
            "targets": [{
                "name": "t", "idempotent": true,
                "latency": { "metric": "m_seconds", "measures": "LogicalCall" },
            }],
            "publish": [{ "configMap": config_map, "key": "k", "targets": [{ "name": "t" }] }],
        })
    }

    fn set(policies: &Policies, name: &str, spec: Option<Value>) {
        policies.set(
            NamespacedName::new("helpdesk", name),
            spec.map(|spec| object(name, spec)),
        );
    }

    fn taken(policies: &Policies) -> Vec<String> {
        let taken = policies.changes.take().now_or_never().unwrap_or_default();
        taken.into_iter().map(|key| key.name).collect()
    }

    #[test]
    fn a_policy_that_cannot_be_understood_is_kept_with_its_error_and_its_claims() {
        let mut spec = publishing_to("kb");
        spec["targets"] = "what?".into();
        let policies = Policies::default();
        set(&policies, "poison", Some(spec));
        set(&policies, "sound", Some(publishing_to("other")));

        let poison = policies.get(&NamespacedName::new("helpdesk", "poison")).unwrap();
        assert!(
            poison.policy.as_ref().unwrap_err().contains("what?"),
            "{:?}",
            poison.policy
        );
        let winner = policies.winner(&NamespacedName::new("helpdesk", "kb"));
        assert_eq!(winner.unwrap().policy.name, "poison");
        let sound = policies.get(&NamespacedName::new("helpdesk", "sound")).unwrap();
        assert!(sound.policy.is_ok());
    }

    #[test]
    fn claims_are_read_from_whatever_is_there() {
        for (spec, expected) in [
            (json!(null), vec![]),
            (json!({ "publish": "x" }), vec![]),
            (
                json!({ "publish": [1, { "configMap": 2 }, { "configMap": "a" }, { "key": "k" }] }),
                vec!["a"],
            ),
        ] {
            let claims = named_in_publish(&json!({ "spec": spec }), "/configMap");
            assert_eq!(claims.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn rivals_are_told_when_a_claim_comes_and_goes() {
        let policies = Policies::default();
        set(&policies, "a", Some(publishing_to("kb")));
        set(&policies, "b", Some(publishing_to("kb")));
        set(&policies, "c", Some(asking("another-source", 1)));
        assert_eq!(taken(&policies), ["a", "b", "c"]);
        set(&policies, "a", None);
        assert_eq!(taken(&policies), ["a", "b"]);
    }

    /// All are equally old here, so that their names tell who came first.
    #[test]
    fn younger_neighbours_are_told_when_an_older_policy_asks_their_source_for_more_or_less() {
        let policies = Policies::default();
        for (name, source) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "x")] {
            set(&policies, name, Some(asking(source, 2)));
        }
        taken(&policies);
        let mut generation = 1;
        let mut edit = |name: &str, spec: Option<Value>| {
            let mut edited = spec.map(|spec| object(name, spec));
            if let Some(edited) = &mut edited {
                generation += 1;
                edited.metadata.generation = Some(generation);
            }
            policies.set(NamespacedName::new("helpdesk", name), edited);
            taken(&policies)
        };
        assert_eq!(
            edit("b", Some(asking("x", 3))),
            ["b", "d"],
            "more: younger ones of its source"
        );
        assert_eq!(
            edit("b", Some(asking("y", 3))),
            ["b", "c", "d"],
            "those it leaves and those it joins"
        );
        assert_eq!(
            edit("b", Some(publishing_to("other"))),
            ["b", "c"],
            "it goes to a third source"
        );
        assert_eq!(
            edit("a", Some(json!({ "source": "x", "targets": "what?" }))),
            ["a", "d"]
        );
        assert_eq!(edit("a", None), ["a"], "it asked for nothing by then");
        assert_eq!(edit("c", None), ["c"], "an older one is not told");
    }

    #[test]
    fn a_status_is_read_apart_from_the_spec() {
        let with = |spec: Value, status: Value| {
            let mut object = object("kb", spec);
            object.data["status"] = status;
            PolicyEntry::read(object)
        };
        let mut unreadable = publishing_to("kb");
        unreadable["targets"] = "what?".into();
        let entry = with(unreadable, json!({ "observedGeneration": 7 }));
        assert!(entry.policy.is_err());
        assert_eq!(entry.status.unwrap().observed_generation, Some(7));

        let entry = with(publishing_to("kb"), json!({ "conditions": "what?" }));
        assert!(entry.policy.is_ok(), "{:?}", entry.policy);
        assert_eq!(entry.status, Some(HedgePolicyStatus::default()));

        let entry = with(publishing_to("kb"), json!("what?"));
        assert!(entry.policy.is_ok(), "{:?}", entry.policy);
        assert_eq!(entry.status, None);
    }

    #[test]
    fn what_is_the_same_is_not_told() {
        let policies = Policies::default();
        set(&policies, "a", Some(publishing_to("kb")));
        assert_eq!(taken(&policies), ["a"]);
        set(&policies, "a", Some(publishing_to("kb")));
        set(&policies, "b", None);
        assert!(taken(&policies).is_empty());
    }

    #[test]
    fn a_list_removes_what_it_does_not_hold_in_its_namespace_alone() {
        let policies = Policies::default();
        set(&policies, "a", Some(publishing_to("kb")));
        set(&policies, "b", Some(publishing_to("kb")));
        policies.listed(Some("shop"), vec![]);
        assert_eq!(policies.keys().len(), 2);
        policies.listed(Some("helpdesk"), vec![object("b", publishing_to("kb"))]);
        assert_eq!(policies.keys(), [NamespacedName::new("helpdesk", "b")]);
        policies.listed(None, vec![]);
        assert!(policies.keys().is_empty());
    }
}
