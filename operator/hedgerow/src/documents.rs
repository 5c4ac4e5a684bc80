//! The ConfigMaps of a policy as they shall be. Pure; it cannot fail.

use std::collections::BTreeMap;

use hedgerow_api::{Format, Output};
use hedgerow_config::{Identity, NativeDocument, Validity};
use hedgerow_tuner::{Decision, Memory, Timestamp};

use crate::cluster::{DesiredConfigMap, EndOfLife, NamespacedName, Owner, PolicyKey};
use crate::compile::Target;
use crate::index::Follow;

/// One ConfigMap for each that the policy names, with every document in it. `decided` is in the order of the targets.
pub(crate) fn desired(
    policy: &PolicyKey,
    follow: &Follow,
    decided: &[(Decision, Memory)],
    renew: bool,
    now: Timestamp,
) -> Vec<DesiredConfigMap> {
    let compiled = &follow.compiled;
    let validity = Validity::new(now, compiled.expiry);
    let mut config_maps: BTreeMap<&str, DesiredConfigMap> = BTreeMap::new();
    for output in &follow.spec.publish {
        let config_map = config_maps
            .entry(&output.config_map)
            .or_insert_with(|| DesiredConfigMap {
                name: NamespacedName::new(&policy.namespace, output.config_map.to_string()),
                owner: Owner {
                    policy: policy.clone(),
                    uid: follow.uid.clone(),
                },
                end_of_life: if compiled.expiry.is_some() {
                    EndOfLife::Collected
                } else {
                    EndOfLife::Left
                },
                documents: BTreeMap::new(),
                memory: BTreeMap::new(),
                renew,
            });
        for (target, (decision, memory)) in published(output, &compiled.targets, decided) {
            let identity = Identity {
                policy: policy.to_string(),
                policy_uid: follow.uid.clone(),
                target: target.name.clone(),
            };
            let text = match output.format {
                Format::Hedgerow => NativeDocument::new(
                    &identity,
                    &decision.orders,
                    &target.limits,
                    decision.revision,
                    validity,
                )
                .to_json(),
            };
            config_map.documents.insert(output.key.to_string(), text);
            config_map.memory.insert(target.name.clone(), memory.clone());
        }
    }
    config_maps.into_values().collect()
}

/// The targets that an output tells of.
fn published<'a>(
    output: &'a Output,
    targets: &'a [Target],
    decided: &'a [(Decision, Memory)],
) -> impl Iterator<Item = (&'a Target, &'a (Decision, Memory))> {
    let named = |target: &Target| output.targets.iter().any(|named| *named.name == *target.name);
    targets
        .iter()
        .zip(decided)
        .filter(move |(target, _)| named(target))
}
