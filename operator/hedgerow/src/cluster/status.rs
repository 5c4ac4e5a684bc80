//! Writes the status of policies, when it differs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hedgerow_api::names::FIELD_MANAGER;
use hedgerow_api::{HedgePolicy, HedgePolicyStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::name::PolicyKey;
use super::policies::PolicyEntry;
use super::write::{WriteError, WriteKind, Writer, bounded};

/// Writes the status of policies. Cheap to clone.
#[derive(Clone)]
pub struct StatusWriter {
    client: Client,
    writer: Writer,
    written: Arc<Mutex<HashMap<PolicyKey, Written>>>,
    /// The policies of which a status was refused, as they were then: UID and generation.
    refused: Arc<Mutex<HashMap<PolicyKey, (String, i64)>>>,
}

/// The last write, which the watch may not have told yet.
#[derive(Clone, Debug)]
struct Written {
    uid: String,
    /// The version that the write went over.
    over: String,
    resource_version: String,
    status: HedgePolicyStatus,
}

impl StatusWriter {
    pub(super) fn new(client: Client, writer: Writer) -> Self {
        Self {
            client,
            writer,
            written: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// The status of a policy as it is known to be: what was written last, else what the watch tells. Carry over
    /// `history` and `lastTransitionTime` from here.
    pub fn current(&self, policy: &PolicyEntry) -> HedgePolicyStatus {
        match self.unseen_write(policy) {
            Some(written) => written.status,
            None => policy.status.clone().unwrap_or_default(),
        }
    }

    /// Writes `status` unless it is there already; returns whether it wrote.
    ///
    /// # Errors
    ///
    /// When the write is refused or not answered. A policy that is gone is no error.
    pub async fn write(&self, policy: &PolicyEntry, status: &HedgePolicyStatus) -> Result<bool, WriteError> {
        let unseen = self.unseen_write(policy);
        let known = match &unseen {
            Some(written) => Some(written.status.clone()),
            None => policy.status.clone(),
        };
        if known.as_ref() == Some(status) {
            return Ok(false);
        }
        let version = unseen.map_or_else(
            || policy.resource_version.clone(),
            |written| written.resource_version,
        );
        match self.replace(policy, status, &version).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            // Somebody changed the object since: nobody else writes its status, so the status still stands.
            Err(error) if error.is_conflict() => match self.read_version(policy).await? {
                Some(version) => self.replace(policy, status, &version).await.map(|()| true),
                None => Ok(false),
            },
            Err(error) => Err(error),
        }
    }

    /// Forgets what was written to a policy that is gone.
    pub fn forget(&self, policy: &PolicyKey) {
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(policy);
        self.refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(policy);
    }

    /// Whether this is the first time that the API server refuses the status of this generation of a policy.
    pub fn is_first_refusal(&self, policy: &PolicyEntry) -> bool {
        let refused = (policy.uid.clone(), policy.generation);
        let mut all = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(policy.key.clone(), refused.clone()) != Some(refused)
    }

    /// Replaces the status. Not by server-side apply: that would keep what others put there (the default of the schema is
    /// such a thing), and a status that never becomes what it should be would be written for ever.
    async fn replace(
        &self,
        policy: &PolicyEntry,
        status: &HedgePolicyStatus,
        version: &str,
    ) -> Result<(), WriteError> {
        let mut object = DynamicObject::new(&policy.key.name, &resource())
            .within(&policy.key.namespace)
            .data(json!({ "status": status }));
        object.metadata.uid = Some(policy.uid.clone());
        object.metadata.resource_version = Some(version.to_owned());
        let (api, params) = (
            self.api(&policy.key),
            PostParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PostParams::default()
            },
        );
        let request = api.replace_status(&policy.key.name, &params, &object);
        let object = self.writer.write(WriteKind::Status, request).await?;
        let written = Written {
            uid: policy.uid.clone(),
            over: policy.resource_version.clone(),
            resource_version: object.metadata.resource_version.unwrap_or_default(),
            status: status.clone(),
        };
        let mut all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(policy.key.clone(), written);
        Ok(())
    }

    /// The version of the policy now; `None` when it is gone or another of its name is there.
    async fn read_version(&self, policy: &PolicyEntry) -> Result<Option<String>, WriteError> {
        let api = self.api(&policy.key);
        let live = bounded(api.get_metadata_opt(&policy.key.name)).await?;
        let same = live.filter(|live| live.metadata.uid.as_deref() == Some(policy.uid.as_str()));
        Ok(same.and_then(|live| live.metadata.resource_version))
    }

    /// The last write, as long as the watch still tells the version that it went over.
    fn unseen_write(&self, policy: &PolicyEntry) -> Option<Written> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let unseen =
            |written: &&Written| written.uid == policy.uid && written.over == policy.resource_version;
        written.get(&policy.key).filter(unseen).cloned()
    }

    /// Untyped, so that the status of a policy that cannot be decoded can be written all the same.
    fn api(&self, policy: &PolicyKey) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &policy.namespace, &resource())
    }
}

fn resource() -> ApiResource {
    ApiResource::erase::<HedgePolicy>(&())
}

/// Puts `condition` in its place among `conditions`. Its `lastTransitionTime` is kept unless the status flips.
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions.iter_mut().find(|known| known.type_ == condition.type_) {
        Some(known) => {
            if known.status == condition.status {
                condition.last_transition_time = Time(known.last_transition_time.0);
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn condition(status: &str, reason: &str, at: i64) -> Condition {
        Condition {
            type_: "Ready".into(),
            status: status.into(),
            reason: reason.into(),
            message: String::new(),
            last_transition_time: Time(Timestamp::from_second(at).unwrap()),
            observed_generation: Some(at),
        }
    }

    #[test]
    fn a_new_condition_is_added() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, condition("True", "Published", 1));
        assert_eq!(conditions, [condition("True", "Published", 1)]);
    }

    #[test]
    fn the_transition_time_stays_when_only_the_reason_changes() {
        let mut conditions = vec![condition("False", "Pending", 1)];
        set_condition(&mut conditions, condition("False", "NameConflict", 2));
        let expected = Condition {
            last_transition_time: Time(Timestamp::from_second(1).unwrap()),
            ..condition("False", "NameConflict", 2)
        };
        assert_eq!(conditions, [expected]);
    }

    #[test]
    fn the_transition_time_moves_when_the_status_flips() {
        let mut conditions = vec![condition("False", "Pending", 1)];
        set_condition(&mut conditions, condition("True", "Published", 2));
        assert_eq!(conditions, [condition("True", "Published", 2)]);
    }
}
