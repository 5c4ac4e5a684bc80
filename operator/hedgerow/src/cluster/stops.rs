//! The emergency stop: ConfigMaps named `hedgerow-off`.

mod parse;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use hedgerow_api::names::{OFF_ANNOTATION, OFF_CONFIG_MAP};
use hedgerow_tuner::{Reason, Stop};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

pub use self::parse::{Breadth, StopOrder};
use super::changes::Changes;
use super::follow::{Cache, Source};
use super::name::{NamespacedName, PolicyKey};
use super::policies::Policies;

/// The stops that people ordered. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stops {
    operator_namespace: Arc<str>,
    /// By the namespace that the ConfigMap is in.
    orders: Arc<RwLock<BTreeMap<String, StopOrder>>>,
    policies: Policies,
    changes: Changes<PolicyKey>,
}

impl Stops {
    pub(super) fn new(operator_namespace: &str, policies: Policies, changes: Changes<PolicyKey>) -> Self {
        Self {
            operator_namespace: operator_namespace.into(),
            orders: Arc::default(),
            policies,
            changes,
        }
    }

    /// Whether a person stopped this policy: by a ConfigMap in the operator's namespace, by one in the policy's, or by
    /// the policy's own annotation.
    pub fn stop_for(&self, policy: &PolicyKey, annotations: &BTreeMap<String, String>) -> Option<Stop> {
        let orders = self.orders.read().unwrap_or_else(PoisonError::into_inner);
        let namespaces = [&*self.operator_namespace, policy.namespace.as_str()];
        let ordered = namespaces.into_iter().find_map(|namespace| {
            let order = orders.get(namespace).filter(|order| order.stops(policy))?;
            Some(said(
                format!("ConfigMap {namespace}/{OFF_CONFIG_MAP}"),
                order.reason_of(policy),
            ))
        });
        ordered.or_else(|| {
            let reason = annotations.get(OFF_ANNOTATION)?;
            Some(said(format!("annotation {OFF_ANNOTATION}"), Some(reason)))
        })
    }
}

/// What stopped a policy, and the reason that the person gave, cut to what a status can carry.
fn said(what: String, reason: Option<&str>) -> Stop {
    const LONGEST_REASON: usize = 200;
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    let message = match reason {
        Some(reason) => {
            let reason: String = reason
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .take(LONGEST_REASON)
                .collect();
            format!("{what}: {reason}")
        }
        None => what,
    };
    Stop {
        reason: Reason::Stopped,
        message,
    }
}

impl Cache for Stops {
    type Object = ConfigMap;

    fn known(&self) -> Vec<NamespacedName> {
        let orders = self.orders.read().unwrap_or_else(PoisonError::into_inner);
        orders
            .keys()
            .map(|namespace| NamespacedName::new(namespace, OFF_CONFIG_MAP))
            .collect()
    }

    fn set(&self, name: NamespacedName, object: Option<ConfigMap>) {
        let namespace = name.namespace;
        let everywhere = namespace == *self.operator_namespace;
        let breadth = if everywhere {
            Breadth::Cluster
        } else {
            Breadth::Namespace(&namespace)
        };
        let order = object.map(|object| StopOrder::read(&object, breadth));
        let before = {
            let mut orders = self.orders.write().unwrap_or_else(PoisonError::into_inner);
            match &order {
                Some(order) => orders.insert(namespace.clone(), order.clone()),
                None => orders.remove(&namespace),
            }
        };
        if before != order {
            self.changes.mark(if everywhere {
                self.policies.keys()
            } else {
                self.policies.keys_in(&namespace)
            });
        }
    }
}

/// The watch of stops in `namespace`, or in the cluster.
pub(super) fn source(client: &Client, namespace: Option<String>) -> Source<ConfigMap> {
    let api: Api<ConfigMap> = match &namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    Source {
        what: "hedgerow-off ConfigMaps",
        matters: "an emergency stop by ConfigMap does not act: stop policies by the annotation hedgerow.dev/off, or by \
                  mode: Disabled",
        namespace,
        api,
        labels: None,
        fields: Some(format!("metadata.name={OFF_CONFIG_MAP}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops() -> Stops {
        Stops::new("hedgerow-system", Policies::default(), Changes::default())
    }

    fn create(stops: &Stops, namespace: &str, data: &[(&str, &str)]) {
        let data = data
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let config_map = ConfigMap {
            data: Some(data.collect()),
            ..ConfigMap::default()
        };
        stops.set(NamespacedName::new(namespace, OFF_CONFIG_MAP), Some(config_map));
    }

    fn message(stops: &Stops, policy: &str) -> Option<String> {
        let policy = PolicyKey::parse(policy).unwrap();
        stops.stop_for(&policy, &BTreeMap::new()).map(|stop| stop.message)
    }

    #[test]
    fn in_a_namespace_it_stops_that_namespace_alone() {
        let stops = stops();
        create(&stops, "helpdesk", &[("reason", "INC-7\n")]);
        assert_eq!(
            message(&stops, "helpdesk/kb").as_deref(),
            Some("ConfigMap helpdesk/hedgerow-off: INC-7")
        );
        assert_eq!(message(&stops, "shop/kb"), None);
    }

    #[test]
    fn in_the_operators_namespace_it_stops_everything() {
        let stops = stops();
        create(&stops, "hedgerow-system", &[]);
        assert_eq!(
            message(&stops, "shop/kb").as_deref(),
            Some("ConfigMap hedgerow-system/hedgerow-off")
        );
    }

    #[test]
    fn removing_it_lifts_the_stop() {
        let stops = stops();
        create(&stops, "helpdesk", &[]);
        stops.set(NamespacedName::new("helpdesk", OFF_CONFIG_MAP), None);
        assert_eq!(message(&stops, "helpdesk/kb"), None);
    }

    #[test]
    fn one_that_is_missing_from_a_new_list_is_lifted_and_others_stay() {
        let stops = stops();
        create(&stops, "helpdesk", &[]);
        create(&stops, "shop", &[]);
        stops.listed(Some("helpdesk"), vec![]);
        assert_eq!(message(&stops, "helpdesk/kb"), None);
        assert!(message(&stops, "shop/kb").is_some());
    }

    #[test]
    fn the_annotation_stops_by_its_presence() {
        let policy = PolicyKey::new("helpdesk", "kb");
        for (value, expected) in [
            ("", "annotation hedgerow.dev/off"),
            ("false", "annotation hedgerow.dev/off: false"),
        ] {
            let annotations = BTreeMap::from([(OFF_ANNOTATION.to_owned(), value.to_owned())]);
            let stop = stops().stop_for(&policy, &annotations);
            assert_eq!(stop.map(|stop| stop.message).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_long_reason_is_cut_and_made_one_line() {
        let stop = said("x".into(), Some(&"a\nb".repeat(100)));
        assert_eq!(stop.message.len(), "x: ".len() + 200);
        assert!(!stop.message.contains('\n'));
    }
}
