//! What an owned ConfigMap records about itself, in labels and annotations.

use std::collections::BTreeMap;

use hedgerow_api::names::{
    INSTANCE_ANNOTATION, MEMORY_ANNOTATION, POLICY_ANNOTATION, POLICY_UID_ANNOTATION, RELEASED_ANNOTATION,
};
use hedgerow_tuner::{Memory, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Deserialize;
use serde_json::Value;

use super::name::{NamespacedName, PolicyKey};

/// The policy that a ConfigMap is written for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub policy: PolicyKey,
    /// Its UID.
    pub uid: String,
}

/// What is known of a ConfigMap from its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputRecord {
    /// Its name.
    pub name: NamespacedName,
    /// Its UID.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
    /// The install that wrote it.
    pub instance: Option<String>,
    /// The policy that it was written for.
    pub owner: Option<Owner>,
    /// Whether garbage collection removes it with that policy.
    pub collected: bool,
    /// Whether it was written off and left.
    pub released: bool,
    /// What the tuner remembers of each target. Of memory that cannot be read, only its revision and when it was written:
    /// those targets warm up again.
    pub memory: BTreeMap<String, Memory>,
}

impl OutputRecord {
    /// Reads the metadata of a ConfigMap.
    pub fn read(metadata: &ObjectMeta) -> Self {
        let annotation = |name: &str| metadata.annotations.as_ref()?.get(name).cloned();
        let policy = annotation(POLICY_ANNOTATION).and_then(|text| PolicyKey::parse(&text));
        let owner = policy
            .zip(annotation(POLICY_UID_ANNOTATION))
            .map(|(policy, uid)| Owner { policy, uid });
        let collected = match (controller(metadata), &owner) {
            (Some(reference), Some(owner)) => reference.uid == owner.uid,
            _ => false,
        };
        Self {
            name: NamespacedName::of(metadata),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            instance: annotation(INSTANCE_ANNOTATION),
            collected,
            owner,
            released: annotation(RELEASED_ANNOTATION).is_some(),
            memory: annotation(MEMORY_ANNOTATION).map_or_else(BTreeMap::new, |text| parse_memory(&text)),
        }
    }
}

/// The owner reference of the controller, if there is one.
pub(super) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let references = metadata.owner_references.as_deref().unwrap_or_default();
    references
        .iter()
        .find(|reference| reference.controller == Some(true))
}

/// The value of [`MEMORY_ANNOTATION`].
pub(super) fn format_memory(memory: &BTreeMap<String, Memory>) -> Result<String, serde_json::Error> {
    serde_json::to_string(memory)
}

/// Each target by itself, so that one that cannot be read takes no other with it.
fn parse_memory(text: &str) -> BTreeMap<String, Memory> {
    let targets: BTreeMap<String, Value> = serde_json::from_str(text).unwrap_or_default();
    let read = |(target, value)| {
        Some((
            target,
            Memory::deserialize(&value).ok().or_else(|| outline(&value))?,
        ))
    };
    targets.into_iter().filter_map(read).collect()
}

/// What is kept of memory that a later version wrote in a way which this one does not know: after a rollback revisions go on
/// rising, so that no document is taken for one that clients have seen before.
fn outline(value: &Value) -> Option<Memory> {
    let mut memory = Memory::default();
    memory.revision = value.get("revision")?.as_u64()?;
    if let Some(Ok(written)) = value.get("written").map(Timestamp::deserialize) {
        memory.written = written;
    }
    Some(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(annotations: &[(&str, &str)]) -> ObjectMeta {
        let annotations = annotations
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        ObjectMeta {
            name: Some("kb-hedging".into()),
            namespace: Some("helpdesk".into()),
            annotations: Some(annotations.collect()),
            ..ObjectMeta::default()
        }
    }

    fn owned_by(uid: &str, controller: bool) -> Option<Vec<OwnerReference>> {
        Some(vec![OwnerReference {
            uid: uid.into(),
            controller: Some(controller),
            ..OwnerReference::default()
        }])
    }

    #[test]
    fn a_strangers_config_map_has_no_owner() {
        let record = OutputRecord::read(&annotated(&[]));
        assert_eq!(
            (record.owner, record.instance, record.collected),
            (None, None, false)
        );
    }

    #[test]
    fn collected_when_the_recorded_policy_is_the_controller() {
        let mut meta = annotated(&[(POLICY_ANNOTATION, "helpdesk/kb"), (POLICY_UID_ANNOTATION, "u1")]);
        assert!(!OutputRecord::read(&meta).collected);
        meta.owner_references = owned_by("u1", true);
        assert!(OutputRecord::read(&meta).collected);
        meta.owner_references = owned_by("u2", true);
        assert!(!OutputRecord::read(&meta).collected);
        meta.owner_references = owned_by("u1", false);
        assert!(!OutputRecord::read(&meta).collected);
    }

    #[test]
    fn memory_is_read_back_as_it_was_written() {
        let mut memory = Memory::default();
        memory.written = Timestamp::from_millis(1_700_000_000_000);
        memory.revision = 17;
        let memory = BTreeMap::from([("shard-read".to_owned(), memory)]);
        let text = format_memory(&memory).unwrap();
        let record = OutputRecord::read(&annotated(&[(MEMORY_ANNOTATION, &text)]));
        assert_eq!(record.memory, memory);
    }

    #[test]
    fn memory_that_cannot_be_read_takes_no_other_target_with_it() {
        let text = r#"{"bad": "x", "good": {"revision": 3}}"#;
        let record = OutputRecord::read(&annotated(&[(MEMORY_ANNOTATION, text)]));
        assert_eq!(record.memory.keys().collect::<Vec<_>>(), ["good"]);
        let record = OutputRecord::read(&annotated(&[(MEMORY_ANNOTATION, "not JSON")]));
        assert!(record.memory.is_empty());
    }

    #[test]
    fn revisions_rise_on_over_memory_that_a_later_version_wrote() {
        let text = r#"{"shard-read": {"revision": 7, "written": 1700000000000, "phase": {"Halved": {}}}}"#;
        let record = OutputRecord::read(&annotated(&[(MEMORY_ANNOTATION, text)]));
        let mut outline = Memory::default();
        outline.revision = 7;
        outline.written = Timestamp::from_millis(1_700_000_000_000);
        assert_eq!(record.memory["shard-read"], outline);
    }
}
