//! The alerts.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::expression::Documented;
use crate::promtool::{promtool, read};

const ALERTS: &str = "charts/hedgerow/files/alerts.yaml";
const TESTS: [&str; 2] = ["tests/alerts/operator.yaml", "tests/alerts/policies.yaml"];

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap()
}

fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn alerts() -> Vec<Value> {
    let file = yaml(ALERTS);
    items(&file, "groups")
        .flat_map(|group| items(group, "rules"))
        .cloned()
        .collect()
}

fn name(alert: &Value) -> &str {
    alert["alert"].as_str().unwrap()
}

#[test]
fn prometheus_understands_them() {
    promtool(&["check", "rules", "--lint=all", "--lint-fatal", ALERTS]);
}

#[test]
fn they_fire_when_they_should_and_not_otherwise() {
    promtool(&[&["test", "rules"], &TESTS[..]].concat());
}

#[test]
fn each_is_seen_to_fire_in_a_test() {
    let tests: String = TESTS.map(read).concat();
    for alert in alerts() {
        let fires = format!("ALERTS{{alertname=\"{}\", alertstate=\"firing\"", name(&alert));
        assert!(tests.contains(&fires), "no test of {}", name(&alert));
    }
}

#[test]
fn each_asks_for_what_is_exported() {
    let documented = Documented::read();
    for alert in alerts() {
        documented.knows_all_of(alert["expr"].as_str().unwrap());
    }
}

#[test]
fn they_are_tested_with_series_that_are_exported() {
    let documented = Documented::read();
    for file in TESTS.map(yaml) {
        for series in items(&file, "tests").flat_map(|test| items(test, "input_series")) {
            documented.knows_series(series["series"].as_str().unwrap());
        }
    }
}

#[test]
fn each_has_its_runbook_and_no_runbook_is_of_another_time() {
    let page = read("docs/runbooks.md");
    let sections: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let alerts = alerts();
    let names: BTreeSet<&str> = alerts.iter().map(name).collect();
    assert_eq!(sections, names);
    assert_eq!(names.len(), alerts.len(), "no name twice");
    for alert in &alerts {
        let anchor = format!("docs/runbooks.md#{}", name(alert).to_lowercase());
        assert_eq!(alert["annotations"]["runbook"], anchor);
    }
}

/// Somebody is woken only where clients may hedge and nothing turns them down.
#[test]
fn two_of_them_wake_somebody() {
    let alerts = alerts();
    let of = |severity: &str| -> Vec<&str> {
        let alerts = alerts.iter();
        alerts
            .filter(|alert| alert["labels"]["severity"] == severity)
            .map(name)
            .collect()
    };
    assert_eq!(of("critical"), ["HedgerowUnattended", "HedgerowOffNotWritten"]);
    let others = of("warning").len() + of("info").len();
    assert_eq!(others + 2, alerts.len(), "no other severity");
}
