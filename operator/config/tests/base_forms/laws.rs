//! What holds for any orders and any base.

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow_config::{DotnetClient, EnvoyCluster, Form, GrpcMethod, KitexMethod, Limits, Part, RenderError};
use hedgerow_tuner::{Hedging, Orders, Reason};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The kinds of documents; the last is that of Kitex.
const KINDS: std::ops::Range<usize> = 0..4;
const GRPC: usize = 0;
const ENVOY: usize = 1;
const DOTNET: usize = 2;

/// Orders and limits, most of them such as a policy may say.
fn any_orders() -> impl Strategy<Value = (Orders, Limits)> {
    let delay = prop_oneof![8 => 0.001..1000.0_f64, 1 => 0.0..4e6_f64, 1 => any::<f64>()];
    let percent = prop_oneof![9 => 0.01..=100.0_f64, 1 => any::<f64>()];
    let hedging = (delay, percent).prop_map(|(delay_ms, percent)| Hedging {
        delay_ms,
        min_remaining_ms: 0.0,
        percent,
        min_per_second: 0.0,
    });
    let reason = prop_oneof![
        Just(Reason::Tuned),
        Just(Reason::Ramping),
        proptest::sample::select(Reason::ALL)
    ];
    let deadline = proptest::option::of((1_u64..=3_600_000).prop_map(Duration::from_millis));
    let attempts = prop_oneof![3 => 2_u8..=3, 1 => any::<u8>()];
    (proptest::option::of(hedging), reason, deadline, attempts).prop_map(
        |(hedging, reason, deadline, max_attempts)| {
            let limits = Limits {
                deadline,
                max_attempts,
                max_concurrent: 100,
            };
            (Orders { hedging, reason }, limits)
        },
    )
}

fn may_hedge(orders: &Orders) -> bool {
    orders.hedging.is_some() && matches!(orders.reason, Reason::Tuned | Reason::Ramping)
}

/// A document of that kind for the targets a and b.
fn form(kind: usize, parts: &[(Orders, Limits)]) -> Form {
    fn of<P>(parts: &[(Orders, Limits)], place: impl Fn(&str) -> P) -> Vec<Part<P>> {
        let part = |((orders, limits), name): (&(Orders, Limits), &str)| Part {
            target: name.to_owned(),
            orders: orders.clone(),
            limits: *limits,
            place: place(name),
        };
        parts.iter().zip(["a", "b"]).map(part).collect()
    }
    match kind {
        GRPC => Form::GrpcServiceConfig(of(parts, |name| GrpcMethod {
            service: "s".to_owned(),
            method: Some(name.to_owned()),
        })),
        ENVOY => Form::EnvoyRoute(of(parts, |name| EnvoyCluster {
            cluster: name.to_owned(),
        })),
        DOTNET => Form::DotnetHedging(of(parts, |name| DotnetClient {
            client: name.to_owned(),
        })),
        _ => Form::Kitex(of(parts, |name| KitexMethod {
            client: "c".to_owned(),
            server: "s".to_owned(),
            method: name.to_owned(),
        })),
    }
}

/// A base for the two targets, with any values beside what matters.
fn any_base(kind: usize) -> impl Strategy<Value = Value> {
    (any_json(), any_json(), any_json()).prop_map(move |(x, y, z)| match kind {
        GRPC => json!({ "methodConfig": [
            { "x": x, "name": [{}] },
            { "name": [{ "service": "s", "method": "a" }, { "service": "s", "method": "c" }], "y": y },
        ], "z": z }),
        ENVOY => json!({ "x": x, "resources": [{ "virtual_hosts": [{ "y": y, "routes": [
            { "route": { "cluster": "a", "timeout": "0s", "z": z } },
            { "redirect": {} },
            { "route": { "cluster": "b", "timeout": "0s", "retry_policy": { "per_try_timeout": "2s", "y": y } } },
        ] }] }] }),
        DOTNET => json!({ "x": x, "HttpClients": {
            "a": { "y": y, "Hedging": { "Hedging": { "Delay": "-00:00:01" } } },
            "b": { "Hedging": { "Hedging": { "Delay": "-00:00:01", "MaxHedgedAttempts": 7, "z": z } } },
        } }),
        _ => json!({ "x": x, "c/s": { "y": y, "retry": {
            "a": { "enable": false, "type": 0, "backup_policy": { "retry_delay_ms": 7, "stop_policy": {
                "max_retry_times": 1, "z": z, "cb_policy": { "error_rate": 0.25 } } } },
        } } }),
    })
}

/// Any JSON without fractions, which Envoy's bases have to quote.
fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "\\PC{0,12}",
        "(yes|no|on|off|null|~|true|1e3|0x1F|010|1_000|1:30|2001-01-01|<<|- a|a: b|#c|\\.inf|)"
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from),
        "[\\x00-\\x7e\u{85}\u{2028}\u{feff}\n]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-zA-Z@.: /-]{0,8}", inner, 0..4)
                .prop_map(|map| Value::from(serde_json::Map::from_iter(map))),
        ]
    })
}

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

fn any_case() -> impl Strategy<Value = (usize, Vec<(Orders, Limits)>, Value)> {
    KINDS.prop_flat_map(|kind| {
        (
            Just(kind),
            proptest::collection::vec(any_orders(), 0..=2),
            any_base(kind),
        )
    })
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
                    let ordered = may_hedge(orders).then(|| orders.hedging.unwrap().delay_ms);
                    let written = delays.get(name).copied();
                    prop_assert_eq!(written.is_some(), ordered.is_some(), "{}", document);
                    if let (Some(written), Some(ordered)) = (written, ordered) {
                        let written = written.round(); // Whole milliseconds, but for the parsing above.
                        prop_assert!(written >= 1.0 && written >= ordered && written - 1.0 < ordered);
                    }
                }
                prop_assert_eq!(untouched(kind, value), untouched(kind, base), "{}", document);
                if parts.iter().all(|(orders, _)| !may_hedge(orders)) {
                    prop_assert_eq!(document, text, "off is the base");
                }
            }
            Err(RenderError::Orders { .. }) => prop_assert!(parts.iter().any(|(orders, _)| may_hedge(orders))),
            Err(why) => prop_assert!(false, "{why} in {text}"),
        }
    }

    #[test]
    fn without_a_base_a_document_says_the_orders(kind in KINDS, parts in proptest::collection::vec(any_orders(), 1..=2)) {
        match form(kind, &parts).render(None) {
            Ok(document) => {
                let delays = delays(kind, &read(kind, &document));
                for ((orders, _), name) in parts.iter().zip(["a", "b"]) {
                    prop_assert_eq!(delays.contains_key(name), may_hedge(orders), "{}", document);
                }
            }
            Err(RenderError::Orders { .. }) => prop_assert!(parts.iter().any(|(orders, _)| may_hedge(orders))),
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
