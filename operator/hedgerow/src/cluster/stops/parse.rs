//! What one `hedgerow-off` ConfigMap orders.

use std::collections::BTreeSet;

use hedgerow_api::names::{OFF_POLICIES_KEY, OFF_REASON_KEY};
use k8s_openapi::api::core::v1::ConfigMap;

use super::super::name::PolicyKey;

/// What a ConfigMap can stop at most.
#[derive(Clone, Copy, Debug)]
pub enum Breadth<'a> {
    /// It is in the operator's namespace; entries are `namespace/name`.
    Cluster,
    /// It is in this one; entries are names.
    Namespace(&'a str),
}

/// What one ConfigMap orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopOrder {
    /// `None` stops everything in its breadth.
    policies: Option<BTreeSet<PolicyKey>>,
    /// What the person wrote.
    reason: Option<String>,
}

impl StopOrder {
    /// Reads a ConfigMap. Its presence means off; a list of policies that cannot be read for certain narrows nothing.
    pub fn read(config_map: &ConfigMap, breadth: Breadth<'_>) -> Self {
        let text = |key: &str| config_map.data.as_ref()?.get(key);
        Self {
            policies: text(OFF_POLICIES_KEY).and_then(|list| parse_policies(list, breadth)),
            reason: text(OFF_REASON_KEY).cloned(),
        }
    }

    /// The policies that it is narrowed to; `None` where it stops everything in its breadth.
    pub fn policies(&self) -> Option<&BTreeSet<PolicyKey>> {
        self.policies.as_ref()
    }

    /// Why it stops this policy. Where it names its policies, a line that begins with `namespace/name: ` is of that one.
    pub fn reason_of(&self, policy: &PolicyKey) -> Option<&str> {
        let reason = self.reason.as_deref()?;
        let own = |line| str::strip_prefix(line, &format!("{policy}: "));
        let named = self.policies.as_ref().and_then(|_| reason.lines().find_map(own));
        Some(named.unwrap_or(reason))
    }

    /// Whether it stops this policy, given that the policy is in its breadth.
    pub fn stops(&self, policy: &PolicyKey) -> bool {
        self.policies
            .as_ref()
            .is_none_or(|policies| policies.contains(policy))
    }
}

/// One entry a line. `None` when the list is empty or any line is no entry: then everything that it could mean is
/// stopped, since an operator in an incident must not find out that a typing error kept hedging on.
fn parse_policies(list: &str, breadth: Breadth<'_>) -> Option<BTreeSet<PolicyKey>> {
    let lines = list.lines().map(str::trim).filter(|line| !line.is_empty());
    let policies: Option<BTreeSet<_>> = lines.map(|line| parse_entry(line, breadth)).collect();
    policies.filter(|policies| !policies.is_empty())
}

fn parse_entry(line: &str, breadth: Breadth<'_>) -> Option<PolicyKey> {
    let entry = match (PolicyKey::parse(line), breadth) {
        (Some(entry), Breadth::Cluster) => entry,
        // The policy's own namespace may be said as well.
        (Some(entry), Breadth::Namespace(namespace)) if entry.namespace == namespace => entry,
        (None, Breadth::Namespace(namespace)) => PolicyKey::new(namespace, line),
        _ => return None,
    };
    (is_name(&entry.namespace) && is_name(&entry.name)).then_some(entry)
}

/// Whether this could be the name of an object.
fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 253 && text.chars().all(inner) && text.starts_with(edge) && text.ends_with(edge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(policies: Option<&str>, breadth: Breadth<'_>) -> StopOrder {
        let config_map = ConfigMap {
            data: policies.map(|list| [("policies".to_owned(), list.to_owned())].into()),
            ..ConfigMap::default()
        };
        StopOrder::read(&config_map, breadth)
    }

    fn stops(order: &StopOrder, policy: &str) -> bool {
        order.stops(&PolicyKey::parse(policy).unwrap())
    }

    #[test]
    fn presence_alone_stops_everything() {
        assert!(stops(&order(None, Breadth::Cluster), "shop/cart"));
        assert!(stops(&order(None, Breadth::Namespace("shop")), "shop/cart"));
    }

    #[test]
    fn a_list_of_names_narrows_it() {
        let order = order(Some("cart\n\n  search  \r\n"), Breadth::Namespace("shop"));
        assert!(stops(&order, "shop/cart"));
        assert!(stops(&order, "shop/search"));
        assert!(!stops(&order, "shop/checkout"));
    }

    #[test]
    fn in_the_operators_namespace_entries_name_the_namespace() {
        let order = order(Some("shop/cart\nhelpdesk/kb"), Breadth::Cluster);
        assert!(stops(&order, "shop/cart"));
        assert!(stops(&order, "helpdesk/kb"));
        assert!(!stops(&order, "helpdesk/cart"));
    }

    #[test]
    fn in_its_own_namespace_an_entry_may_say_it() {
        let order = order(Some("shop/cart"), Breadth::Namespace("shop"));
        assert!(stops(&order, "shop/cart"));
        assert!(!stops(&order, "shop/search"));
    }

    #[test]
    fn a_line_of_the_reason_may_be_of_one_policy() {
        let reason_of = |policies: Option<&str>| {
            let reason = Some(("reason", "shop/cart: INC-7\nshop/search: INC-8"));
            let data = policies.map(|list| ("policies", list)).into_iter().chain(reason);
            let config_map = ConfigMap {
                data: Some(
                    data.map(|(key, value)| (key.to_owned(), value.to_owned()))
                        .collect(),
                ),
                ..ConfigMap::default()
            };
            let order = StopOrder::read(&config_map, Breadth::Namespace("shop"));
            order
                .reason_of(&PolicyKey::new("shop", "search"))
                .map(str::to_owned)
        };
        assert_eq!(reason_of(Some("cart\nsearch")).as_deref(), Some("INC-8"));
        assert_eq!(
            reason_of(None).as_deref(),
            Some("shop/cart: INC-7\nshop/search: INC-8")
        );
    }

    #[test]
    fn a_list_that_cannot_be_read_stops_all_that_it_could_mean() {
        for list in [
            "",
            "  \n ",
            "cart, search",
            "cart search",
            "- cart",
            "Cart",
            "a/b/c",
            "shop/",
            "/cart",
            "other/cart",
        ] {
            let order = order(Some(list), Breadth::Namespace("shop"));
            assert!(stops(&order, "shop/anything"), "{list:?}");
        }
        for list in ["cart", "shop/cart\ncart", "shop/*", "[shop/cart]"] {
            let order = order(Some(list), Breadth::Cluster);
            assert!(stops(&order, "helpdesk/anything"), "{list:?}");
        }
    }
}
