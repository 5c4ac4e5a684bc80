//! The hedging handler of .NET.

use std::time::Duration;

use hedgerow_config::{DotnetClient, Form, Part};
use hedgerow_tuner::Orders;
use serde_json::{Value, json};

use crate::{assert_fits, golden, off, on, part, refused_base, refused_orders, with_attempts, with_deadline};

const SCHEMA: &str = include_str!("../schemas/dotnet-hedging.schema.json");
const BASE: &str = include_str!("../golden/dotnet-hedging/base.json");

fn client(name: &str) -> DotnetClient {
    DotnetClient {
        client: name.to_owned(),
    }
}

fn form(parts: Vec<Part<DotnetClient>>) -> Form {
    Form::DotnetHedging(parts)
}

fn search(orders: Orders) -> Form {
    form(vec![part("search", orders, client("search"))])
}

/// A base whose client has these settings.
fn settings(hedging: &Value) -> String {
    json!({ "HttpClients": { "search": { "Hedging": hedging } } }).to_string()
}

fn rendered(form: &Form, base: Option<&str>) -> Value {
    let document = crate::json(&form.render(base).unwrap());
    assert_fits(SCHEMA, &document);
    document
}

#[test]
fn the_documents_read_as_the_golden_files() {
    for (name, orders, delay) in [
        ("on", on(512.0, 10.0), "00:00:00.5120000"),
        ("ramping", on(512.0, 2.5), "00:00:00.5120000"),
        ("changed", on(600.25, 10.0), "00:00:00.6010000"),
    ] {
        let document = crate::json(&golden(
            &format!("dotnet-hedging/{name}.json"),
            &search(orders),
            Some(BASE),
        ));
        assert_fits(SCHEMA, &document);
        let mut wanted = crate::json(BASE);
        wanted["HttpClients"]["search"]["Hedging"]["Hedging"] =
            json!({ "Delay": delay, "MaxHedgedAttempts": 1 });
        assert_eq!(document, wanted);
    }
    golden(
        "dotnet-hedging/without-base-on.json",
        &search(on(512.0, 10.0)),
        None,
    );
    golden("dotnet-hedging/without-base-off.json", &search(off()), None);
}

#[test]
fn off_is_the_base_and_without_one_a_delay_below_zero() {
    assert_eq!(search(off()).render(Some(BASE)).unwrap(), BASE);
    let hedging = &rendered(&search(off()), None)["HttpClients"]["search"]["Hedging"];
    assert_eq!(
        hedging["Hedging"],
        json!({ "MaxHedgedAttempts": 1, "Delay": "-00:00:00.0010000" })
    );
}

#[test]
fn without_a_base_the_deadline_is_the_timeout_of_call_and_attempt() {
    let of = |deadline_ms| {
        let deadline = Duration::from_millis(deadline_ms);
        let part = with_deadline(Some(deadline), part("search", on(5.0, 10.0), client("search")));
        let hedging = rendered(&form(vec![part]), None)["HttpClients"]["search"]["Hedging"].clone();
        (
            hedging["TotalRequestTimeout"]["Timeout"].clone(),
            hedging["Endpoint"]["Timeout"]["Timeout"].clone(),
        )
    };
    assert_eq!(of(1000), (json!("00:00:01"), json!("00:00:01")));
    // The breaker samples for 30 s, which has to be twice an attempt's timeout.
    assert_eq!(of(60_000), (json!("00:01:00"), json!("00:00:15")));
    let none = with_deadline(None, part("search", on(5.0, 10.0), client("search")));
    assert_eq!(
        rendered(&form(vec![none]), None),
        json!({ "HttpClients": { "search": { "Hedging": {
            "Hedging": { "MaxHedgedAttempts": 1, "Delay": "00:00:00.0050000" } } } } })
    );
}

#[test]
fn keys_are_found_whatever_their_case() {
    let base = r#"{ "httpclients": { "SEARCH": { "hedging": { "HEDGING": { "delay": "-00:00:01" } } } } }"#;
    assert_eq!(
        rendered_freely(&search(on(512.0, 10.0)), base),
        json!({ "httpclients": { "SEARCH": { "hedging": { "HEDGING": {
            "delay": "00:00:00.5120000", "MaxHedgedAttempts": 1 } } } } })
    );
    let (at, problem) = refused_base(&search(off()), r#"{ "HttpClients": {}, "httpClients": {} }"#);
    assert_eq!(at, "base");
    assert!(problem.contains("both HttpClients and httpClients"), "{problem}");
}

fn rendered_freely(form: &Form, base: &str) -> Value {
    crate::json(&form.render(Some(base)).unwrap())
}

#[test]
fn a_base_that_hedges_or_that_dotnet_throws_at_is_refused_at_its_place() {
    let off_delay = json!({ "Delay": "-00:00:00.0010000" });
    for (base, at, problem) in [
        ("{}".to_owned(), "base", "has no HttpClients"),
        (
            r#"{ "HttpClients": {} }"#.to_owned(),
            "HttpClients",
            "has no search",
        ),
        (
            r#"{ "HttpClients": { "search": {} } }"#.to_owned(),
            "HttpClients.search",
            "has no Hedging",
        ),
        (
            settings(&json!({})),
            "HttpClients.search.Hedging",
            "has no Hedging",
        ),
        (
            settings(&json!({ "Hedging": {} })),
            "HttpClients.search.Hedging.Hedging",
            "hedges after 2 s",
        ),
        (
            settings(&json!({ "Hedging": { "Delay": "00:00:02" } })),
            "HttpClients.search.Hedging.Hedging.Delay",
            "hedges",
        ),
        (
            settings(&json!({ "Hedging": { "Delay": "00:00:00" } })),
            "HttpClients.search.Hedging.Hedging.Delay",
            "hedges",
        ),
        (
            settings(&json!({ "Hedging": { "Delay": "soon" } })),
            "HttpClients.search.Hedging.Hedging.Delay",
            "is no time",
        ),
        (
            settings(&json!({ "Hedging": { "Delay": -1 } })),
            "HttpClients.search.Hedging.Hedging.Delay",
            "is no text",
        ),
        (
            settings(&json!({ "Hedging": off_delay, "TotalRequestTimeout": { "Timeout": "00:00:01" } })),
            "HttpClients.search.Hedging",
            "an attempt take 00:00:10, but the whole call 00:00:01",
        ),
        (
            settings(
                &json!({ "Hedging": off_delay, "Endpoint": { "CircuitBreaker": { "SamplingDuration": "00:00:19" } } }),
            ),
            "HttpClients.search.Hedging",
            "under twice the 00:00:10 of an attempt",
        ),
        ("// mine\n{}".to_owned(), "base", "without comments"),
    ] {
        for orders in [on(5.0, 10.0), off()] {
            let (found, why) = refused_base(&search(orders), &base);
            assert_eq!(found, at, "{base}");
            assert!(why.contains(problem), "{why}");
        }
    }
}

#[test]
fn hedges_times_the_delay_are_within_the_whole_timeout() {
    for base in [None, Some(BASE)] {
        let hedges = |delay_ms, attempts| {
            form(vec![with_attempts(
                attempts,
                part("search", on(delay_ms, 10.0), client("search")),
            )])
        };
        assert!(hedges(1000.0, 2).render(base).is_ok());
        assert!(hedges(250.0, 5).render(base).is_ok());
        for form in [hedges(1000.5, 2), hedges(250.5, 5)] {
            let (target, problem) = refused_orders(&form, base);
            assert_eq!(target, "search");
            assert!(
                problem.contains("more than the whole call may take, 00:00:01"),
                "{problem}"
            );
        }
    }
}

#[test]
fn a_deadline_that_is_no_timeout_is_refused_and_can_be_off() {
    let short = |orders| {
        form(vec![with_deadline(
            Some(Duration::from_millis(9)),
            part("search", orders, client("search")),
        )])
    };
    assert!(refused_orders(&short(on(5.0, 10.0)), None).1.contains("10 ms"));
    assert_eq!(
        rendered(&short(off()), None)["HttpClients"]["search"]["Hedging"],
        json!({ "Hedging": { "MaxHedgedAttempts": 1, "Delay": "-00:00:00.0010000" } })
    );
}

#[test]
fn two_clients_that_differ_by_case_are_one() {
    let twice = form(vec![
        part("one", on(5.0, 10.0), client("search")),
        part("two", on(5.0, 10.0), client("Search")),
    ]);
    assert!(
        refused_orders(&twice, None)
            .1
            .contains("the target one has the same place")
    );
}
