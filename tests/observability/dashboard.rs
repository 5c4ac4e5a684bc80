//! The dashboard for Grafana.

use std::fmt::Write as _;

use hedgerow_tests::scratch;
use serde_json::Value;

use crate::expression::Documented;
use crate::promtool::{promtool, read};

fn dashboard() -> Value {
    serde_json::from_str(&read("charts/hedgerow/files/dashboard.json")).unwrap()
}

/// Every object in it that has a key, wherever it is.
fn with_key<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(object) => {
            if object.contains_key(key) {
                found.push(value);
            }
            object.values().for_each(|inner| with_key(inner, key, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| with_key(inner, key, found)),
        _ => {}
    }
}

fn expressions(dashboard: &Value) -> Vec<&str> {
    let mut targets = Vec::new();
    with_key(dashboard, "expr", &mut targets);
    targets
        .iter()
        .filter_map(|target| target["expr"].as_str())
        .collect()
}

#[test]
fn every_expression_parses() {
    let dashboard = dashboard();
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (number, expression) in expressions(&dashboard).iter().enumerate() {
        // What Grafana puts in.
        let asked = expression
            .replace("$__rate_interval", "1m")
            .replace("$__range", "1h");
        let asked = Value::from(asked);
        writeln!(rules, "  - {{ record: 'panel:{number}', expr: {asked} }}").unwrap();
    }
    let file = scratch("dashboard").unwrap().join("rules.yaml");
    std::fs::write(&file, rules).unwrap();
    promtool(&["check", "rules", file.to_str().unwrap()]);
}

#[test]
fn every_expression_asks_for_what_is_exported() {
    let (dashboard, documented) = (dashboard(), Documented::read());
    let expressions = expressions(&dashboard);
    assert!(expressions.len() > 20, "there are {}", expressions.len());
    for expression in expressions {
        documented.knows_all_of(expression);
    }
}

#[test]
fn every_panel_has_a_title_a_unit_and_a_place_of_its_own() {
    let dashboard = dashboard();
    let mut panels = Vec::new();
    with_key(&dashboard, "gridPos", &mut panels);
    let mut taken = std::collections::BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(!title.is_empty(), "{panel}");
        if panel["type"] != "row" {
            assert!(panel["description"].is_string(), "{title} is not described");
            assert!(
                panel["fieldConfig"]["defaults"]["unit"].is_string(),
                "{title} has no unit"
            );
        }
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{title} is too wide");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "{title} lies over another");
            }
        }
    }
}
