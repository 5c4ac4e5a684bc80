//! What a policy can make the operator ask of a source whose administrator enforces a namespace label: nothing that lacks the
//! label, whatever the policy says. The judge is Prometheus's own parser, on every query that is really sent: first questions,
//! witnesses, and the search for what is absent.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod asked;
mod parsed;
mod policies;

use std::collections::BTreeSet;

use hedgerow_api::decode_spec;
use hedgerow_api::preset::{LATENCY, SIGNALS};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use asked::Recorder;
use parsed::Parser;
use policies::{HOSTILE, spec, with_everything};

/// The label that the administrator enforces.
const LABEL: &str = "namespace";

/// Sends all that these policies make the operator ask, each of a namespace of its own, and returns the queries.
async fn queries(specs: &[(&str, Value)]) -> Vec<String> {
    let recorder = Recorder::start().await;
    recorder.read(specs).await;
    recorder.queries()
}

/// Whether a query reads series of one of these namespaces alone.
async fn assert_confined(parser: &Parser, query: &str, namespaces: &[&str]) {
    let selectors = parser.selectors(query).await;
    assert!(!selectors.is_empty(), "reads nothing: {query}");
    let confined: BTreeSet<_> = selectors
        .iter()
        .map(|matchers| {
            let enforced = matchers
                .iter()
                .find(|matcher| namespaces.iter().any(|namespace| matcher.is(LABEL, namespace)));
            enforced.unwrap_or_else(|| panic!("{matchers:?} is not confined in {query}"))
        })
        .collect();
    // And not of several: answers are told apart by the labels that were asked for, not by this one.
    assert_eq!(confined.len(), 1, "{query}");
}

#[tokio::test]
async fn every_query_of_every_kind_carries_the_enforced_label() {
    let parser = Parser::start().await;
    let queries = queries(&[("helpdesk", with_everything("kb", "index"))]).await;
    for query in &queries {
        assert_confined(&parser, query, &["helpdesk"]).await;
    }
    // Each thing that a policy names is among what was asked, and why it is absent, too.
    for metric in [
        "reads_seconds_bucket",
        "timeouts_total",
        "queue_depth",
        "rejected_total",
        "received_total",
        "calls_total",
        "hedges_total",
        "blocked_total",
        "wins_total",
        "ALERTS",
        "up",
    ] {
        assert!(
            queries.iter().any(|query| query.contains(&format!("{metric}{{"))),
            "{metric}: {queries:#?}"
        );
    }
    assert!(
        queries.iter().any(|query| query.contains("__name__")),
        "{queries:#?}"
    );
}

#[tokio::test]
async fn every_preset_carries_the_enforced_label() {
    let parser = Parser::start().await;
    for preset in LATENCY {
        let spec = spec(
            json!({ "preset": preset.name, "losersRunOn": preset.name == "LinkerdOutbound" }),
            json!([]),
        );
        for query in queries(&[("helpdesk", spec)]).await {
            assert_confined(&parser, &query, &["helpdesk"]).await;
        }
    }
    for preset in SIGNALS {
        let signals = json!([{ "name": "a", "preset": preset.name }]);
        let spec = spec(
            json!({ "metric": "reads_seconds", "measures": "LogicalCall" }),
            signals,
        );
        for query in queries(&[("helpdesk", spec)]).await {
            assert_confined(&parser, &query, &["helpdesk"]).await;
        }
    }
}

#[tokio::test]
async fn no_value_of_a_label_breaks_out() {
    let parser = Parser::start().await;
    // All at once: they share queries, and their values are alternatives of one pattern.
    let specs: Vec<_> = HOSTILE
        .iter()
        .map(|value| ("helpdesk", with_everything(value, "index")))
        .collect();
    for query in queries(&specs).await {
        assert_confined(&parser, &query, &["helpdesk"]).await;
    }
    for spec in specs {
        for query in queries(&[spec]).await {
            assert_confined(&parser, &query, &["helpdesk"]).await;
        }
    }
}

#[tokio::test]
async fn to_ask_for_the_enforced_label_itself_widens_nothing() {
    let parser = Parser::start().await;
    let expressions = [
        json!([{ "key": LABEL, "operator": "In", "values": ["other", "helpdesk"] }]),
        json!([{ "key": LABEL, "operator": "NotIn", "values": ["helpdesk"] }]),
        json!([{ "key": LABEL, "operator": "Exists" }]),
    ];
    let mut specs = vec![with_everything("other", LABEL), with_everything(".*", LABEL)];
    for expressions in expressions {
        let mut spec = with_everything("kb", "index");
        spec["targets"][0]["latency"]["matchExpressions"] = expressions.clone();
        spec["targets"][0]["saturation"]["signals"][0]["matchExpressions"] = expressions;
        specs.push(spec);
    }
    for spec in specs {
        for query in queries(&[("helpdesk", spec)]).await {
            assert_confined(&parser, &query, &["helpdesk"]).await;
        }
    }
}

/// Batches are for one namespace each, also where two ask for the very same.
#[tokio::test]
async fn no_query_is_for_two_namespaces() {
    let parser = Parser::start().await;
    let same = || with_everything("kb", "index");
    let queries = queries(&[
        ("helpdesk", same()),
        ("shop", same()),
        ("shop", with_everything("faq", "index")),
    ])
    .await;
    for query in &queries {
        assert_confined(&parser, query, &["helpdesk", "shop"]).await;
    }
    for namespace in ["helpdesk", "shop"] {
        assert!(
            queries.iter().any(|query| query.contains(namespace)),
            "{namespace}"
        );
    }
}

/// Words of PromQL are names like others.
#[tokio::test]
async fn no_name_breaks_out() {
    let parser = Parser::start().await;
    for word in [
        "or",
        "and",
        "unless",
        "by",
        "without",
        "on",
        "offset",
        "bool",
        "sum",
        "group_left",
        "inf",
        "nan",
        "start",
        "_",
    ] {
        let mut spec = with_everything("kb", word);
        spec["targets"][0]["saturation"]["signals"][0]["metric"] = json!(word);
        for query in queries(&[("helpdesk", spec)]).await {
            // What Prometheus takes for no query reads nothing, and the policy is told: a metric named `on`, say.
            if parser.try_selectors(&query).await.is_some() {
                assert_confined(&parser, &query, &["helpdesk"]).await;
            }
        }
    }
}

#[test]
fn a_name_that_is_none_is_refused() {
    for name in [
        "a{}",
        "a b",
        "a\"",
        "a or b",
        "a}",
        "a,b",
        "a[5m]",
        "a\n",
        "ü",
        "a.b",
        "http.server.duration",
        "0a",
        "",
        "a#",
        "a'",
        "{__name__=~\".+\"}",
    ] {
        let at_label = with_everything("kb", name);
        assert!(decode_spec(&at_label).is_err(), "a label {name:?}");
        for pointer in [
            "/targets/0/latency/metric",
            "/targets/0/latency/timeouts/rateOf",
            "/targets/0/hedging/wins/rateOf",
            "/targets/0/latency/timeouts/zeroWhenAbsent/witness/metric",
            "/targets/0/saturation/signals/0/metric",
            "/targets/0/saturation/signals/1/rateOf",
            "/targets/0/saturation/signals/1/per/rateOf",
            "/targets/0/latency/outcomes/label",
        ] {
            let mut spec = with_everything("kb", "index");
            *spec.pointer_mut(pointer).unwrap() = json!(name);
            assert!(decode_spec(&spec).is_err(), "{pointer}: {name:?}");
        }
    }
    let reserved = with_everything("kb", "__name__");
    assert!(decode_spec(&reserved).is_err());
}

#[test]
fn whatever_a_policy_says_it_stays_within_its_namespace() {
    let runtime = Runtime::new().unwrap();
    let parser = runtime.block_on(Parser::start());
    let several = prop::collection::vec(("(helpdesk|shop)", policies::anything()), 1..6);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 48,
        ..ProptestConfig::default()
    });
    let confined = |specs: Vec<(String, Value)>| {
        runtime.block_on(async {
            let specs: Vec<_> = specs
                .iter()
                .map(|(namespace, spec)| (namespace.as_str(), spec.clone()))
                .collect();
            for query in queries(&specs).await {
                assert_confined(&parser, &query, &["helpdesk", "shop"]).await;
            }
        });
        Ok(())
    };
    runner.run(&several, confined).unwrap();
}
