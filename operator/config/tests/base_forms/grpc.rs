//! The service config of gRPC.

use std::time::Duration;

use hedgerow_config::{Form, GrpcMethod, Part};
use hedgerow_tuner::{Orders, Reason};
use serde_json::{Value, json};

use crate::{assert_fits, golden, off, on, part, refused_base, refused_orders, with_attempts, with_deadline};

const SCHEMA: &str = include_str!("../schemas/grpc-service-config.schema.json");
const BASE: &str = include_str!("../golden/grpc-service-config/base.json");

fn method(service: &str, method: &str) -> GrpcMethod {
    GrpcMethod {
        service: service.to_owned(),
        method: (!method.is_empty()).then(|| method.to_owned()),
    }
}

fn form(parts: Vec<Part<GrpcMethod>>) -> Form {
    Form::GrpcServiceConfig(parts)
}

fn read(orders: Orders) -> Form {
    form(vec![part("shard-read", orders, method("search.Shard", "Read"))])
}

fn rendered(form: &Form, base: Option<&str>) -> Value {
    let document = crate::json(&form.render(base).unwrap());
    assert_fits(SCHEMA, &document);
    document
}

/// The entries of a document.
fn entries(document: &Value) -> &[Value] {
    document["methodConfig"].as_array().unwrap()
}

#[test]
fn the_documents_read_as_the_golden_files() {
    let read_hedges = |name: &str, orders, delay: &str| {
        let document = golden(
            &format!("grpc-service-config/{name}.json"),
            &read(orders),
            Some(BASE),
        );
        let document = crate::json(&document);
        assert_fits(SCHEMA, &document);
        assert_eq!(
            document["retryThrottling"],
            json!({ "maxTokens": 10, "tokenRatio": 0.1 })
        );
        assert_eq!(
            entries(&document)[1]["name"],
            json!([{ "service": "search.Shard", "method": "Count" }])
        );
        assert_eq!(
            entries(&document)[3],
            json!({
                "name": [{ "service": "search.Shard", "method": "Read" }],
                "waitForReady": true,
                "timeout": "1s",
                "hedgingPolicy": { "maxAttempts": 2, "hedgingDelay": delay, "nonFatalStatusCodes": [] },
            })
        );
    };
    read_hedges("on", on(512.0, 10.0), "0.512s");
    read_hedges("changed", on(600.25, 10.0), "0.601s");
    golden(
        "grpc-service-config/without-base-on.json",
        &read(on(512.0, 10.0)),
        None,
    );
    golden("grpc-service-config/without-base-off.json", &read(off()), None);
}

#[test]
fn a_budget_that_ramps_up_and_cannot_be_told_is_off() {
    assert_eq!(read(on(512.0, 2.5)).render(Some(BASE)).unwrap(), BASE);
    assert!(!read(on(512.0, 2.5)).ramps());
}

#[test]
fn off_is_the_base_byte_for_byte() {
    assert_eq!(read(off()).render(Some(BASE)).unwrap(), BASE);
    let for_a_reason_to_be_off = Orders {
        reason: Reason::Saturated,
        ..on(512.0, 10.0)
    };
    assert_eq!(read(for_a_reason_to_be_off).render(Some(BASE)).unwrap(), BASE);
}

#[test]
fn without_a_base_an_entry_has_the_deadline_on_and_off() {
    let name = json!([{ "service": "search.Shard", "method": "Read" }]);
    let policy = json!({ "maxAttempts": 2, "hedgingDelay": "0.512s", "nonFatalStatusCodes": [] });
    assert_eq!(
        rendered(&read(on(512.0, 10.0)), None),
        json!({ "methodConfig": [{ "name": name, "timeout": "1s", "hedgingPolicy": policy }] })
    );
    assert_eq!(
        rendered(&read(off()), None),
        json!({ "methodConfig": [{ "name": name, "timeout": "1s" }] })
    );
    let endless = with_deadline(None, part("all", off(), method("search.Shard", "")));
    assert_eq!(
        rendered(&form(vec![endless]), None),
        json!({ "methodConfig": [{ "name": [{ "service": "search.Shard" }] }] })
    );
}

#[test]
fn a_delay_is_rounded_up_to_milliseconds() {
    for (delay_ms, written) in [
        (0.001, "0.001s"),
        (1.0, "0.001s"),
        (1.2, "0.002s"),
        (1000.0, "1s"),
        (1000.001, "1.001s"),
        (3_600_000.0, "3600s"),
    ] {
        let document = rendered(&read(on(delay_ms, 10.0)), None);
        assert_eq!(
            entries(&document)[0]["hedgingPolicy"]["hedgingDelay"],
            written,
            "{delay_ms}"
        );
    }
}

#[test]
fn a_new_entry_repeats_what_held_before() {
    let write = form(vec![part("find", on(20.0, 10.0), method("search.Index", "Find"))]);
    let document = rendered(&write, Some(BASE));
    assert_eq!(entries(&document)[3]["timeout"], "10s", "of the default entry");
    assert_eq!(entries(&document)[..3], entries(&crate::json(BASE))[..3]);
}

#[test]
fn a_method_that_is_off_stays_off_under_a_service_that_hedges() {
    let parts = |count| {
        form(vec![
            part("all", on(20.0, 10.0), method("search.Shard", "")),
            part("read", off(), method("search.Shard", "Read")),
            part("count", count, method("search.Shard", "Size")),
        ])
    };
    for base in [None, Some(BASE)] {
        let document = rendered(&parts(off()), base);
        let of = |method: Value| {
            let has = |entry: &&Value| entry["name"].as_array().unwrap().contains(&method);
            entries(&document).iter().find(has).unwrap()
        };
        assert!(of(json!({ "service": "search.Shard" }))["hedgingPolicy"].is_object());
        for method in ["Read", "Size"] {
            let entry = of(json!({ "service": "search.Shard", "method": method }));
            assert_eq!(entry["hedgingPolicy"], Value::Null, "{method}");
        }
    }
}

#[test]
fn all_names_of_an_entry_may_hedge_each_with_its_own_delay() {
    let both = form(vec![
        part("read", on(20.0, 10.0), method("search.Shard", "Read")),
        part("count", on(30.0, 10.0), method("search.Shard", "Count")),
    ]);
    let document = rendered(&both, Some(BASE));
    let delays: Vec<_> = entries(&document)
        .iter()
        .map(|entry| &entry["hedgingPolicy"]["hedgingDelay"])
        .collect();
    assert_eq!(
        delays,
        [&Value::Null, &Value::Null, &json!("0.020s"), &json!("0.030s")]
    );
}

#[test]
fn a_base_that_hedges_or_retries_the_method_is_refused() {
    let hedging = r#"{ "methodConfig": [{ "name": [{ "service": "search.Shard" }], "hedgingPolicy": { "maxAttempts": 2 } }] }"#;
    for orders in [on(512.0, 10.0), off()] {
        let (at, problem) = refused_base(&read(orders), hedging);
        assert_eq!(at, "methodConfig[0]");
        assert!(problem.contains("has a hedgingPolicy: take it away"), "{problem}");
    }
    let write = form(vec![part(
        "write",
        on(512.0, 10.0),
        method("search.Index", "Write"),
    )]);
    let (at, problem) = refused_base(&write, BASE);
    assert_eq!(at, "methodConfig[2]");
    assert!(problem.contains("has a retryPolicy"), "{problem}");
}

#[test]
fn what_is_no_service_config_is_refused_at_its_place() {
    for (base, place) in [
        ("", "base"),
        ("[]", "base"),
        ("{", "base"),
        (r#"{ "methodConfig": [], "methodConfig": [] }"#, "base"),
        (r#"{ "methodConfig": {} }"#, "methodConfig"),
        (r#"{ "methodConfig": [1] }"#, "methodConfig[0]"),
        (r#"{ "methodConfig": [{ "name": 1 }] }"#, "methodConfig[0].name"),
        (
            r#"{ "methodConfig": [{ "name": [{ "service": 1 }] }] }"#,
            "methodConfig[0].name[0].service",
        ),
        (
            r#"{ "methodConfig": [{ "name": [{ "service": "a" }, { "service": "a", "method": "" }] }] }"#,
            "methodConfig[0].name[1]",
        ),
    ] {
        assert_eq!(refused_base(&read(off()), base).0, place, "{base}");
    }
    let large = format!("{{{}}}", " ".repeat(1 << 20));
    assert!(
        refused_base(&read(off()), &large)
            .1
            .contains("a ConfigMap holds 1048576")
    );
}

#[test]
fn what_grpc_cannot_be_told_is_refused() {
    for attempts in [0, 1, 6] {
        let part = with_attempts(
            attempts,
            part("shard-read", on(512.0, 10.0), method("search.Shard", "Read")),
        );
        let (target, problem) = refused_orders(&form(vec![part]), None);
        assert_eq!(target, "shard-read");
        assert!(problem.contains("must be 2 to 5"), "{problem}");
    }
    for delay_ms in [0.0, -1.0, f64::NAN, f64::INFINITY, 3_600_001.0] {
        let (_, problem) = refused_orders(&read(on(delay_ms, 10.0)), Some(BASE));
        assert!(problem.contains("a delay of"), "{problem}");
    }
    let anything = form(vec![part("any", on(512.0, 10.0), method("", ""))]);
    assert!(refused_orders(&anything, None).1.contains("names no service"));
    let twice = form(vec![
        part("one", off(), method("search.Shard", "Read")),
        part("two", on(512.0, 10.0), method("search.Shard", "Read")),
    ]);
    assert!(
        refused_orders(&twice, None)
            .1
            .contains("the target one has the same place")
    );
    let long = with_deadline(
        Some(Duration::from_millis(1500)),
        part("read", off(), method("search.Shard", "Read")),
    );
    assert_eq!(
        entries(&rendered(&form(vec![long]), None))[0]["timeout"],
        "1.500000000s"
    );
}

#[test]
fn an_entry_of_many_names_gives_up_one() {
    let names: Vec<_> = (0..8000)
        .map(|n| json!({ "service": "s", "method": n.to_string() }))
        .collect();
    let base = json!({ "methodConfig": [{ "name": names }] }).to_string();
    let one = form(vec![part("one", on(20.0, 10.0), method("s", "7999"))]);
    let document = crate::json(&one.render(Some(&base)).unwrap());
    assert_eq!(entries(&document)[0]["name"].as_array().unwrap().len(), 7999);
    assert_eq!(entries(&document)[1]["hedgingPolicy"]["hedgingDelay"], "0.020s");
}
