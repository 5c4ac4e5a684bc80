//! The config file of Kitex.

use hedgerow_config::{Form, KitexMethod, Part};
use hedgerow_tuner::Orders;
use serde_json::{Value, json};

use crate::{assert_fits, golden, off, on, part, refused_base, refused_orders, with_attempts};

const SCHEMA: &str = include_str!("../schemas/kitex.schema.json");
const BASE: &str = include_str!("../golden/kitex/base.json");

fn method(server: &str, method: &str) -> KitexMethod {
    KitexMethod {
        client: "front".to_owned(),
        server: server.to_owned(),
        method: method.to_owned(),
    }
}

fn form(parts: Vec<Part<KitexMethod>>) -> Form {
    Form::Kitex(parts)
}

fn read(orders: Orders) -> Form {
    form(vec![part("read", orders, method("search", "Read"))])
}

fn rendered(form: &Form, base: Option<&str>) -> Value {
    let document = crate::json(&form.render(base).unwrap());
    assert_fits(SCHEMA, &document);
    document
}

/// A base whose section has these entries.
fn entries(retry: &Value) -> String {
    json!({ "front/search": { "retry": retry } }).to_string()
}

#[test]
fn the_documents_read_as_the_golden_files() {
    for (name, orders, delay_ms, rate) in [
        ("on", on(512.0, 10.0), 512, 0.1),
        ("ramping", on(512.0, 2.5), 512, 0.025),
        ("changed", on(600.25, 10.0), 601, 0.1),
    ] {
        let document = crate::json(&golden(&format!("kitex/{name}.json"), &read(orders), Some(BASE)));
        assert_fits(SCHEMA, &document);
        let mut wanted = crate::json(BASE);
        let entry = &mut wanted["front/search"]["retry"]["Read"];
        entry["enable"] = json!(true);
        entry["backup_policy"]["retry_delay_ms"] = json!(delay_ms);
        entry["backup_policy"]["stop_policy"]["cb_policy"]["error_rate"] = json!(rate);
        assert_eq!(document, wanted);
    }
    golden("kitex/without-base-on.json", &read(on(512.0, 10.0)), None);
    golden("kitex/without-base-off.json", &read(off()), None);
}

#[test]
fn an_entry_says_all_that_kitex_needs() {
    let entry = |enable, delay_ms, rate| {
        json!({ "front/search": { "retry": { "Read": {
            "enable": enable,
            "type": 1,
            "backup_policy": {
                "retry_delay_ms": delay_ms,
                "stop_policy": { "max_retry_times": 1, "disable_chain_stop": false, "cb_policy": { "error_rate": rate } },
                "retry_same_node": false,
            },
        } } } })
    };
    assert_eq!(rendered(&read(on(512.0, 5.0)), None), entry(true, 512, 0.05));
    assert_eq!(rendered(&read(off()), None), entry(false, 1000, 0.01));
}

#[test]
fn off_is_the_base_byte_for_byte() {
    assert_eq!(read(off()).render(Some(BASE)).unwrap(), BASE);
}

#[test]
fn a_method_without_an_entry_gets_one() {
    let parts = form(vec![
        part("read", off(), method("search", "Read")),
        part("suggest", on(20.0, 10.0), method("suggest", "Complete")),
    ]);
    let document = rendered(&parts, Some(BASE));
    assert_eq!(document["front/search"], crate::json(BASE)["front/search"]);
    assert_eq!(
        document["front/suggest"]["retry"]["Complete"]["backup_policy"]["retry_delay_ms"],
        20
    );
}

#[test]
fn the_share_of_hedges_is_the_budget_within_what_kitex_takes() {
    for (percent, rate) in [(0.5, 0.005), (10.0, 0.1), (30.0, 0.3), (31.0, 0.3), (100.0, 0.3)] {
        let document = rendered(&read(on(512.0, percent)), None);
        let stop = &document["front/search"]["retry"]["Read"]["backup_policy"]["stop_policy"];
        assert_eq!(stop["cb_policy"]["error_rate"], rate, "{percent}");
    }
    for percent in [0.0, -1.0, 100.5, f64::NAN] {
        assert!(
            refused_orders(&read(on(512.0, percent)), None)
                .1
                .contains("a budget of")
        );
    }
}

#[test]
fn kitex_hedges_twice_at_most() {
    let with = |attempts| {
        form(vec![with_attempts(
            attempts,
            part("read", on(512.0, 10.0), method("search", "Read")),
        )])
    };
    let document = rendered(&with(3), None);
    let stop = &document["front/search"]["retry"]["Read"]["backup_policy"]["stop_policy"];
    assert_eq!(stop["max_retry_times"], 2);
    for attempts in [4, 5] {
        assert!(
            refused_orders(&with(attempts), None)
                .1
                .contains("set maxAttempts to 3 or 2")
        );
    }
}

#[test]
fn a_base_that_retries_the_method_or_that_kitex_skips_is_refused_at_its_place() {
    let policy = json!({ "retry_delay_ms": 5, "stop_policy": { "max_retry_times": 1 } });
    for (base, at, problem) in [
        ("{}".to_owned(), "base", "has no front/search"),
        ("[]".to_owned(), "base", "is no map"),
        (r#"{ "front/search": 1 }"#.to_owned(), "front/search", "is no map"),
        (
            entries(&json!({ "Read": { "enable": true, "type": 1, "backup_policy": policy } })),
            "front/search.retry.Read",
            "is enabled",
        ),
        (
            entries(&json!({ "Read": { "enable": true, "failure_policy": {} } })),
            "front/search.retry.Read",
            "is enabled",
        ),
        (
            entries(&json!({ "*": { "enable": true, "failure_policy": {} } })),
            "front/search.retry.*",
            "is enabled",
        ),
        (
            entries(&json!({ "Read": { "enable": false } })),
            "front/search.retry.Read",
            "has no backup_policy",
        ),
        (
            entries(&json!({ "Read": { "enable": false, "backup_policy": policy, "failure_policy": {} } })),
            "front/search.retry.Read.failure_policy",
            "stands beside",
        ),
        (
            entries(&json!({ "Read": { "enable": false, "backup_policy": { "stop_policy": 1 } } })),
            "front/search.retry.Read.backup_policy.stop_policy",
            "is no map",
        ),
    ] {
        for orders in [on(512.0, 10.0), off()] {
            let (found, why) = refused_base(&read(orders), &base);
            assert_eq!(found, at, "{base}");
            assert!(why.contains(problem), "{why}");
        }
    }
}
