//! What one ConfigMap `hedgerow-off` orders, as a set that stops are added to and taken from.
//!
//! The operator reads two states: everything in its breadth, or the policies that it names. People order both at once: one
//! stops a policy, another the namespace, and lifting either must leave the other. So while everything is stopped the named
//! ones are kept under a key of their own.

use std::collections::BTreeSet;

use hedgerow::cluster::{Breadth, PolicyKey, StopOrder};
use hedgerow_api::names::{OFF_NAMED_KEY, OFF_POLICIES_KEY, OFF_REASON_KEY};
use k8s_openapi::api::core::v1::ConfigMap;

/// The stops that one ConfigMap holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// Everything in its breadth is stopped.
    pub(super) whole: bool,
    /// These are stopped by name, beside that.
    pub(super) named: BTreeSet<PolicyKey>,
    /// Why: a line that begins with `namespace/name: ` is of that policy, any other of the whole.
    reasons: Vec<String>,
}

impl Order {
    /// Reads it as the operator does.
    pub(super) fn read(config_map: &ConfigMap, breadth: Breadth<'_>) -> Self {
        let text = |key: &str| config_map.data.as_ref().and_then(|data| data.get(key));
        let lines = |key: &str| text(key).into_iter().flat_map(|text| text.lines()).map(str::trim);
        let read = StopOrder::read(config_map, breadth);
        Self {
            whole: read.policies().is_none(),
            named: match read.policies() {
                Some(named) => named.clone(),
                None => lines(OFF_NAMED_KEY).filter_map(PolicyKey::parse).collect(),
            },
            reasons: lines(OFF_REASON_KEY)
                .filter(|line| !line.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Writes it over what is in `config_map`; keys of others stay.
    pub(super) fn write(&self, config_map: &mut ConfigMap) {
        let data = config_map.data.get_or_insert_default();
        let (used, other) = if self.whole {
            (OFF_NAMED_KEY, OFF_POLICIES_KEY)
        } else {
            (OFF_POLICIES_KEY, OFF_NAMED_KEY)
        };
        data.remove(other);
        let mut put = |key: &str, text: String| {
            if text.is_empty() {
                data.remove(key);
            } else {
                data.insert(key.to_owned(), text);
            }
        };
        put(used, self.named.iter().map(|name| format!("{name}\n")).collect());
        put(OFF_REASON_KEY, self.reasons.join("\n"));
    }

    /// Whether nothing is stopped: then there must be no ConfigMap, since its presence means off.
    pub(super) fn is_empty(&self) -> bool {
        !self.whole && self.named.is_empty()
    }

    /// Stops everything in its breadth.
    pub(super) fn stop_all(&mut self, why: &str) {
        if !self.whole {
            self.whole = true;
            self.reasons.insert(0, why.to_owned());
        }
    }

    /// Stops a policy.
    pub(super) fn stop(&mut self, policy: &PolicyKey, why: &str) {
        if self.named.insert(policy.clone()) {
            self.reasons.push(format!("{policy}: {why}"));
        }
    }

    /// Takes the stop of everything away. Those of named policies stay.
    pub(super) fn lift_all(&mut self) {
        self.whole = false;
        let of_named = |line: &String| self.named.iter().any(|name| is_of(line, name));
        self.reasons.retain(of_named);
    }

    /// Takes the stop of a policy away.
    pub(super) fn lift(&mut self, policy: &PolicyKey) {
        self.named.remove(policy);
        self.reasons.retain(|line| !is_of(line, policy));
    }

    /// Why everything in its breadth is stopped.
    pub(super) fn why_all(&self) -> Option<&str> {
        let of_none = |line: &&String| !self.named.iter().any(|name| is_of(line, name));
        self.reasons.iter().find(of_none).map(String::as_str)
    }

    /// Why a policy is stopped by name.
    pub(super) fn why(&self, policy: &PolicyKey) -> Option<&str> {
        let prefix = format!("{policy}: ");
        self.reasons.iter().find_map(|line| line.strip_prefix(&prefix))
    }
}

fn is_of(line: &str, policy: &PolicyKey) -> bool {
    line.starts_with(&format!("{policy}: "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SHOP: Breadth<'static> = Breadth::Namespace("shop");

    fn cart() -> PolicyKey {
        PolicyKey::new("shop", "cart")
    }

    fn search() -> PolicyKey {
        PolicyKey::new("shop", "search")
    }

    fn config_map(data: &[(&str, &str)]) -> ConfigMap {
        let data = data
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()));
        ConfigMap {
            data: Some(data.collect()),
            ..ConfigMap::default()
        }
    }

    fn written(order: &Order, over: &[(&str, &str)]) -> BTreeMap<String, String> {
        let mut config_map = config_map(over);
        order.write(&mut config_map);
        // Whatever is written is read back as it was meant.
        assert_eq!(&Order::read(&config_map, SHOP), order);
        config_map.data.unwrap()
    }

    /// Whether the operator stops a policy that finds this.
    fn stops(data: &BTreeMap<String, String>, policy: &PolicyKey) -> bool {
        let config_map = ConfigMap {
            data: Some(data.clone()),
            ..ConfigMap::default()
        };
        StopOrder::read(&config_map, SHOP).stops(policy)
    }

    #[test]
    fn a_name_is_added_to_names() {
        let mut order = Order::default();
        order.stop(&cart(), "INC-7");
        order.stop(&search(), "INC-8");
        let data = written(&order, &[]);
        assert_eq!(data["policies"], "shop/cart\nshop/search\n");
        assert_eq!(data["reason"], "shop/cart: INC-7\nshop/search: INC-8");
        order.lift(&cart());
        assert_eq!(written(&order, &[])["policies"], "shop/search\n");
        order.lift(&search());
        assert!(order.is_empty());
    }

    #[test]
    fn a_name_never_narrows_a_stop_of_everything() {
        let mut order = Order::read(&config_map(&[("reason", "INC-1")]), SHOP);
        order.stop(&cart(), "INC-7");
        let data = written(&order, &[("reason", "INC-1")]);
        assert!(stops(&data, &cart()) && stops(&data, &search()), "{data:?}");
        assert_eq!(order.why_all(), Some("INC-1"));
    }

    #[test]
    fn lifting_the_stop_of_everything_leaves_those_of_names() {
        let mut order = Order::default();
        order.stop(&cart(), "INC-7");
        order.stop_all("INC-9");
        let data = written(&order, &[]);
        assert!(stops(&data, &search()));
        order.lift_all();
        let data = written(&order, &[("named", "shop/cart")]);
        assert!(stops(&data, &cart()) && !stops(&data, &search()), "{data:?}");
        assert_eq!(data["reason"], "shop/cart: INC-7");
    }

    #[test]
    fn a_list_that_the_operator_cannot_read_is_a_stop_of_everything() {
        let mut order = Order::read(&config_map(&[("policies", "cart, search")]), SHOP);
        assert!(order.whole && order.named.is_empty());
        order.stop(&cart(), "x");
        let data = written(&order, &[("policies", "cart, search")]);
        assert!(stops(&data, &search()), "{data:?}");
    }

    #[test]
    fn keys_of_others_stay() {
        let mut order = Order::default();
        order.stop_all("INC-1");
        assert_eq!(written(&order, &[("ticket", "7")])["ticket"], "7");
    }

    #[test]
    fn a_stop_that_is_there_already_changes_nothing() {
        let mut order = Order::default();
        order.stop(&cart(), "INC-7");
        order.stop_all("INC-9");
        let before = order.clone();
        order.stop(&cart(), "again");
        order.stop_all("again");
        assert_eq!(order, before);
    }
}
