//! What is known of each policy as a whole.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hedgerow_api::HedgePolicyStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::{Labels, gauges, sample};
use crate::cluster::{Outputs, PolicyKey};
use crate::index::Index;

/// The policies. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Policies {
    index: Index,
    outputs: Arc<OnceLock<Outputs>>,
    /// By policy, its conditions as type, status and reason.
    told: Arc<Mutex<BTreeMap<PolicyKey, Vec<[String; 3]>>>>,
}

impl Policies {
    pub(super) fn register(registry: &mut Registry, index: Index) -> Self {
        let policies = Self {
            index,
            outputs: Arc::default(),
            told: Arc::default(),
        };
        registry.register_collector(Box::new(policies.clone()));
        policies
    }

    pub(super) fn watch_outputs(&self, outputs: Outputs) {
        // There is one cluster.
        let _ = self.outputs.set(outputs);
    }

    pub(super) fn told(&self, policy: &PolicyKey, status: &HedgePolicyStatus) {
        let conditions = status.conditions.iter().map(|condition| {
            let condition = condition.clone();
            [condition.type_, condition.status, condition.reason]
        });
        self.lock().insert(policy.clone(), conditions.collect());
    }

    pub(super) fn forget(&self, policy: &PolicyKey) {
        self.lock().remove(policy);
    }

    pub(super) fn forget_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PolicyKey, Vec<[String; 3]>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Policies {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let told = self.lock().clone();
        let conditions: Vec<Labels> = told
            .iter()
            .flat_map(|(policy, conditions)| {
                conditions
                    .iter()
                    .map(|condition| with_condition(policy, condition))
            })
            .collect();
        gauges(
            &mut encoder,
            "policy_condition",
            "",
            "1 for each condition of a policy, with its status and reason.",
            conditions.iter().map(|labels| (labels, 1.0)),
        )?;
        let renewals: Vec<_> = self
            .index
            .renewal_times()
            .into_iter()
            .map(|(policy, at)| (labels(&policy), sample(at.as_millis()) / 1e3))
            .collect();
        gauges(
            &mut encoder,
            "policy_renewal_due_timestamp",
            "seconds",
            "When the next document of a policy is to be renewed or deleted; in the past only while that is late.",
            renewals.iter().map(|(labels, at)| (labels, *at)),
        )?;
        let hedging: Vec<_> = told
            .keys()
            .map(|policy| {
                let outputs = self
                    .outputs
                    .get()
                    .map_or(0, |outputs| outputs.letting_hedge(policy).len());
                (labels(policy), sample(i64::try_from(outputs).unwrap_or(i64::MAX)))
            })
            .collect();
        gauges(
            &mut encoder,
            "policy_hedging_outputs",
            "",
            "ConfigMaps of a policy that let clients hedge, as they are in the cluster.",
            hedging.iter().map(|(labels, number)| (labels, *number)),
        )
    }
}

fn labels(policy: &PolicyKey) -> Labels {
    vec![
        ("namespace", policy.namespace.clone()),
        ("policy", policy.name.clone()),
    ]
}

fn with_condition(policy: &PolicyKey, [condition, status, reason]: &[String; 3]) -> Labels {
    let mut labels = labels(policy);
    labels.push(("condition", condition.clone()));
    labels.push(("status", status.clone()));
    labels.push(("reason", reason.clone()));
    labels
}
