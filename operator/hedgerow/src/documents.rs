//! The ConfigMaps of a policy as they shall be. Pure; it cannot fail.

use std::collections::{BTreeMap, BTreeSet};

use hedgerow_api::Output;
use hedgerow_config::{Identity, NativeDocument, Validity};
use hedgerow_tuner::{Decision, Memory, Orders, Timestamp};

use crate::cluster::{BaseRef, DesiredConfigMap, DesiredForm, EndOfLife, NamespacedName, Owner, PolicyKey};
use crate::compile::Target;
use crate::forms::{Told, form};
use crate::index::Follow;

/// One ConfigMap for each that the policy names, with every document in it. `decided` is in the order of the targets;
/// `joining` are the documents that were held off until now, as [`Published::joining`](crate::cluster::Published) tells.
pub(crate) fn desired(
    policy: &PolicyKey,
    follow: &Follow,
    decided: &[(Decision, Memory)],
    joining: &BTreeSet<(String, String)>,
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
                end_of_life: if compiled.expiry.is_some() && output.format.is_native() {
                    EndOfLife::Collected
                } else {
                    EndOfLife::Left
                },
                documents: BTreeMap::new(),
                forms: BTreeMap::new(),
                memory: BTreeMap::new(),
                renew,
            });
        let orders = |at: usize| decided.get(at).map(|(decision, _)| &decision.orders);
        if let Some(form) = desired_form(&policy.namespace, output, &compiled.targets, orders) {
            let may_join = joining.contains(&(output.config_map.to_string(), output.key.to_string()));
            let form = DesiredForm { may_join, ..form };
            config_map.forms.insert(output.key.to_string(), form);
        }
        for (target, (decision, memory)) in published(output, &compiled.targets, decided) {
            config_map.memory.insert(target.name.clone(), memory.clone());
            if !output.format.is_native() {
                continue;
            }
            let identity = Identity {
                policy: policy.to_string(),
                policy_uid: follow.uid.clone(),
                target: target.name.clone(),
            };
            let document = NativeDocument::new(
                &identity,
                &decision.orders,
                &target.limits,
                decision.revision,
                validity,
            );
            config_map
                .documents
                .insert(output.key.to_string(), document.to_json());
        }
    }
    config_maps.into_values().collect()
}

/// The document of another system's format, to be rendered; `None` for a native one. `orders` are those of the target at
/// that place.
pub(crate) fn desired_form<'a>(
    namespace: &str,
    output: &Output,
    targets: &[Target],
    orders: impl Fn(usize) -> Option<&'a Orders>,
) -> Option<DesiredForm> {
    let found = |name: &str| {
        let at = targets.iter().position(|target| target.name == name)?;
        Some((orders(at)?.clone(), targets.get(at)?.limits))
    };
    let hedges = |name: &String| found(name).is_some_and(|(orders, _)| orders.hedging.is_some());
    let told = |name: &str| found(name).map(|(orders, limits)| Told { orders, limits });
    let off = |name: &str| found(name).map(|(_, limits)| Told::off(limits));
    let base = output.base.as_ref().map(|base| BaseRef {
        config_map: NamespacedName::new(namespace, base.config_map.to_string()),
        key: base.key.to_string(),
    });
    let named = output.targets.iter().map(|target| target.name.to_string());
    Some(DesiredForm {
        form: form(output, told)?,
        off: form(output, off)?,
        hedged: named.filter(hedges).collect(),
        base,
        may_join: false,
    })
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

#[cfg(test)]
mod tests {
    use hedgerow_tuner::{Readings, decide};
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{at, follow, policy, written_spec};

    fn desired_of(written: &Value) -> Vec<DesiredConfigMap> {
        let follow = follow(written);
        let targets = follow.compiled.targets.iter();
        let decided: Vec<_> = targets
            .map(|target| decide(&target.rules, &Memory::default(), &Readings::default(), at(0)))
            .collect();
        desired(&policy(), &follow, &decided, &BTreeSet::new(), false, at(0))
    }

    fn two_targets() -> Value {
        let mut spec = written_spec();
        let mut second = spec["targets"][0].clone();
        second["name"] = json!("faq-read");
        spec["targets"] = json!([spec["targets"][0], second]);
        spec["publish"] = json!([
            { "configMap": "kb-hedging", "key": "shard-read.json", "targets": [{ "name": "shard-read" }] },
            { "configMap": "kb-hedging", "key": "faq-read.json", "targets": [{ "name": "faq-read" }] },
            { "configMap": "other", "key": "faq.json", "targets": [{ "name": "faq-read" }] },
        ]);
        spec
    }

    #[test]
    fn a_config_map_holds_all_its_documents_and_the_memory_of_their_targets() {
        let desired = desired_of(&two_targets());
        let names: Vec<&str> = desired
            .iter()
            .map(|config_map| config_map.name.name.as_str())
            .collect();
        assert_eq!(names, ["kb-hedging", "other"]);
        let keys = |at: usize| desired[at].documents.keys().cloned().collect::<Vec<_>>();
        let memory = |at: usize| desired[at].memory.keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            (keys(0), keys(1)),
            (
                vec!["faq-read.json".into(), "shard-read.json".into()],
                vec!["faq.json".into()]
            )
        );
        assert_eq!(
            (memory(0), memory(1)),
            (
                vec!["faq-read".into(), "shard-read".into()],
                vec!["faq-read".into()]
            )
        );
    }

    #[test]
    fn a_document_says_whose_it_is_and_until_when() {
        let config_map = desired_of(&written_spec()).remove(0);
        let document = NativeDocument::parse(config_map.documents["shard-read.json"].as_bytes()).unwrap();
        assert_eq!(document.identity.policy, "helpdesk/kb-search");
        assert_eq!(
            (
                document.identity.policy_uid.as_str(),
                document.identity.target.as_str()
            ),
            ("uid-1", "shard-read")
        );
        assert_eq!(document.validity.valid_until, Some(at(3600)));
        assert_eq!((document.hedging, document.reason.as_str()), (None, "WarmingUp"));
        assert_eq!(config_map.end_of_life, EndOfLife::Collected);
    }

    #[test]
    fn documents_that_never_expire_are_left_when_the_policy_goes() {
        let mut spec = written_spec();
        spec["expiry"] = json!("never");
        assert_eq!(desired_of(&spec)[0].end_of_life, EndOfLife::Left);
    }
}
