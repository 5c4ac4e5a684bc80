//! What holds for any orders and any base.

use std::collections::BTreeMap;

use hedgerow_config::RenderError;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cases::{DOTNET, ENVOY, GRPC, KINDS, any_case, any_orders, form, may_hedge};

fn read(kind: usize, document: &str) -> Value {
    if kind == ENVOY {
        crate::yaml(document)
    } else {
        crate::json(document)
    }
}

/// Each target's delay in milliseconds; none where it does not hedge.
fn delays(kind: usize, document: &Value) -> BTreeMap<String, f64> {
    let seconds = |text: &Value| {
        text.as_str()
            .unwrap()
            .strip_suffix('s')
            .unwrap()
            .parse::<f64>()
            .unwrap()
            * 1000.0
    };
    let mut found = BTreeMap::new();
    for name in ["a", "b"] {
        let delay = match kind {
            GRPC => {
                let name = json!({ "service": "s", "method": name });
                let entry = document["methodConfig"].as_array().unwrap().iter();
                let mut policies = entry
                    .filter(|entry| entry["name"] == json!([name]))
                    .map(|entry| &entry["hedgingPolicy"]);
                policies
                    .find(|policy| !policy.is_null())
                    .map(|policy| seconds(&policy["hedgingDelay"]))
            }
            ENVOY => {
                let routes = document["resources"][0]["virtual_hosts"][0]["routes"]
                    .as_array()
                    .unwrap()
                    .iter();
                let mut actions = routes
                    .map(|route| &route["route"])
                    .filter(|action| action["cluster"] == name);
                let hedges = |action: &&Value| action["hedge_policy"]["hedge_on_per_try_timeout"] == true;
                actions
                    .find(hedges)
                    .map(|action| seconds(&action["retry_policy"]["per_try_timeout"]))
            }
            DOTNET => {
                let delay = document["HttpClients"][name]["Hedging"]["Hedging"]["Delay"]
                    .as_str()
                    .unwrap_or("-");
                let mut fields = delay.split(':').map(|field| field.parse::<f64>().unwrap().abs());
                let mut next = || fields.next().unwrap();
                (!delay.starts_with('-')).then(|| ((next() * 60.0 + next()) * 60.0 + next()) * 1000.0)
            }
            _ => {
                let entry = &document["c/s"]["retry"][name];
                (entry["enable"] == true).then(|| entry["backup_policy"]["retry_delay_ms"].as_f64().unwrap())
            }
        };
        if let Some(delay) = delay {
            found.insert(name.to_owned(), delay);
        }
    }
    found
}

/// The document without what a renderer may touch.
fn untouched(kind: usize, mut document: Value) -> Value {
    fn remove(value: &mut Value, path: &[&str]) {
        let Some((last, path)) = path.split_last() else {
            return;
        };
        let parent = path.iter().try_fold(value, |value, key| value.get_mut(*key));
        if let Some(map) = parent.and_then(Value::as_object_mut) {
            map.remove(*last);
        }
    }
    match kind {
        GRPC => return of_each_method(document),
        ENVOY => {
            for route in document["resources"][0]["virtual_hosts"][0]["routes"]
                .as_array_mut()
                .unwrap()
            {
                remove(route, &["route", "hedge_policy"]);
                for field in [
                    "retry_on",
                    "num_retries",
                    "per_try_timeout",
                    "retry_host_predicate",
                    "host_selection_retry_max_attempts",
                ] {
                    remove(route, &["route", "retry_policy", field]);
                }
                if route["route"]["retry_policy"] == json!({}) {
                    remove(route, &["route", "retry_policy"]);
                }
            }
        }
        DOTNET => {
            for client in ["a", "b"] {
                for field in ["Delay", "MaxHedgedAttempts"] {
                    remove(
                        &mut document,
                        &["HttpClients", client, "Hedging", "Hedging", field],
                    );
                }
            }
        }
        _ => {
            let policy = ["c/s", "retry", "a", "backup_policy"];
            for field in ["enable", "type"] {
                remove(&mut document, &["c/s", "retry", "a", field]);
            }
            remove(&mut document, &[&policy[..], &["retry_delay_ms"]].concat());
            remove(
                &mut document,
                &[&policy[..], &["stop_policy", "max_retry_times"]].concat(),
            );
            remove(
                &mut document,
                &[&policy[..], &["stop_policy", "cb_policy"]].concat(),
            );
            remove(&mut document, &["c/s", "retry", "b"]);
        }
    }
    document
}

/// What holds for each method but for hedging, and the fields beside the entries.
fn of_each_method(mut document: Value) -> Value {
    let entries = document["methodConfig"].take();
    let holds = |method: &str| {
        let names = [json!({ "service": "s", "method": method }), json!({})];
        let entries = entries.as_array().unwrap().iter();
        let mut found = names.iter().filter_map(|name| {
            entries
                .clone()
                .find(|entry| entry["name"].as_array().unwrap().contains(name))
        });
        let mut entry = found.next().unwrap().clone();
        for field in ["name", "hedgingPolicy"] {
            entry.as_object_mut().unwrap().remove(field);
        }
        entry
    };
    let methods = ["a", "b", "c", "other"].map(holds);
    json!({ "methods": methods, "rest": document })
}

proptest! {
    #[test]
    fn over_a_base_a_document_says_the_orders_and_nothing_else_changes((kind, parts, base) in any_case()) {
        let text = format!("{base:#}");
        let form = form(kind, &parts);
        match form.render(Some(&text)) {
            Ok(document) => {
                prop_assert_eq!(&form.render(Some(&text)).unwrap(), &document, "twice the same");
                let value = read(kind, &document);
                let delays = delays(kind, &value);
                for ((orders, _), name) in parts.iter().zip(["a", "b"]) {
                    let ordered = may_hedge(kind, orders).then(|| orders.hedging.unwrap().delay_ms);
                    let written = delays.get(name).copied();
                    prop_assert_eq!(written.is_some(), ordered.is_some(), "{}", document);
                    if let (Some(written), Some(ordered)) = (written, ordered) {
                        let written = written.round(); // Whole milliseconds, but for the parsing above.
                        prop_assert!(written >= 1.0 && written >= ordered && written - 1.0 < ordered);
                    }
                }
                prop_assert_eq!(untouched(kind, value), untouched(kind, base), "{}", document);
                if parts.iter().all(|(orders, _)| !may_hedge(kind, orders)) {
                    prop_assert_eq!(document, text, "off is the base");
                }
            }
            Err(RenderError::Orders { .. }) => prop_assert!(parts.iter().any(|(orders, _)| orders.hedging.is_some())),
            Err(why) => prop_assert!(false, "{why} in {text}"),
        }
    }

    #[test]
    fn without_a_base_a_document_says_the_orders(kind in KINDS, parts in proptest::collection::vec(any_orders(), 1..=2)) {
        match form(kind, &parts).render(None) {
            Ok(document) => {
                let delays = delays(kind, &read(kind, &document));
                for ((orders, _), name) in parts.iter().zip(["a", "b"]) {
                    prop_assert_eq!(delays.contains_key(name), may_hedge(kind, orders), "{}", document);
                }
            }
            Err(RenderError::Orders { .. }) => prop_assert!(parts.iter().any(|(orders, _)| orders.hedging.is_some())),
            Err(why) => prop_assert!(kind == ENVOY, "{why}"),
        }
    }

    /// Whatever the orders were, a target can be told off.
    #[test]
    fn a_document_that_hedges_is_no_base((kind, parts, base) in any_case()) {
        let text = format!("{base:#}");
        if let Ok(document) = form(kind, &parts).render(Some(&text)) && document != text {
            let again = form(kind, &parts).render(Some(&document));
            prop_assert!(matches!(again, Err(RenderError::Base { .. })), "{again:?}");
        }
    }

    #[test]
    fn no_text_makes_a_renderer_panic(kind in KINDS, parts in proptest::collection::vec(any_orders(), 0..=2), base in "\\PC{0,200}") {
        let _ = form(kind, &parts).render(Some(&base));
    }

    /// A base with some of its characters replaced: nearer to what a person leaves behind.
    #[test]
    fn a_damaged_base_makes_no_renderer_panic(
        (kind, parts, base) in any_case(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<char>()), 1..4),
    ) {
        let mut text: Vec<char> = base.to_string().chars().collect();
        for (at, char) in damage {
            let at = at.index(text.len());
            text[at] = char;
        }
        let _ = form(kind, &parts).render(Some(&String::from_iter(text)));
    }
}
