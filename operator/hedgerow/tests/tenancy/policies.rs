//! Policies of people who try to read what is not theirs.

use proptest::prelude::*;
use serde_json::{Value, json};

/// Values of labels that mean something to PromQL, to a regular expression, or to a careless quoter.
pub(crate) const HOSTILE: &[&str] = &[
    "\"",
    "\\",
    "\\\"",
    "'",
    "`",
    "\"} or up{job=\"",
    "\"}) or vector(1) #",
    "\\\"} or up #",
    "a\"} or {__name__=~\".+\"} #",
    "}",
    "{",
    "{}",
    "a}b",
    "a,namespace=\"other\"",
    "\",namespace=\"other",
    "\n",
    "a\nb",
    "\r\n",
    "\t",
    "\0",
    "\u{1}",
    "\u{7f}",
    ".*",
    ".+",
    "a|b",
    "|",
    "(a",
    "a)",
    "[",
    "]",
    "[^a]",
    "^",
    "$",
    "a$|.*",
    "\\d+",
    "\\Q.*\\E",
    "a\\|b",
    "a{2}",
    "(?i)a",
    "?",
    "+",
    "ü",
    "→",
    "🦔",
    "\u{2028}",
    "\u{feff}",
    "\u{202e}rtl",
    "e\u{301}",
    "#",
    "a # b",
    "{{.Namespace}}",
    "$1",
    "${1}",
    "%22",
    "&query=up",
    "other",
    "helpdesk",
];

/// A policy with this latency and these signals.
pub(crate) fn spec(latency: Value, signals: Value) -> Value {
    json!({
        "targets": [{
            "name": "a", "idempotent": true, "latency": latency, "delay": { "add": "1ms" }, "saturation": { "signals": signals },
        }],
        "publish": [{ "configMap": "a", "key": "a.json", "targets": [{ "name": "a" }] }],
    })
}

/// A policy that names everything that can be named: `value` as the value of every label, and `label` as the name of each.
pub(crate) fn with_everything(value: &str, label: &str) -> Value {
    let labels = json!({ label: value });
    let expressions = json!([
        { "key": label, "operator": "In", "values": [value, "b"] },
        { "key": label, "operator": "NotIn", "values": [value] },
        { "key": label, "operator": "NotIn", "values": [value, "b"] },
        { "key": label, "operator": "Exists" },
    ]);
    let absent = json!({ "witness": { "metric": "up", "matchLabels": labels } });
    let counter = |name: &str| json!({ "rateOf": name, "matchLabels": labels, "matchExpressions": expressions, "zeroWhenAbsent": absent });
    let latency = json!({
        "metric": "reads_seconds", "measures": "LogicalCall", "matchLabels": labels, "matchExpressions": expressions,
        "outcomes": { "label": "status", "cancelled": [value], "ignored": ["ignored"] },
        "timeouts": counter("timeouts_total"),
    });
    let signals = json!([
        { "name": "gauge", "metric": "queue_depth", "matchLabels": labels, "matchExpressions": expressions, "offAbove": "1",
          "zeroWhenAbsent": absent },
        { "name": "ratio", "rateOf": "rejected_total", "matchLabels": labels, "offAbove": "1", "zeroWhenAbsent": absent,
          "per": counter("received_total") },
        { "name": "rate", "rateOf": "rejected_total", "matchLabels": labels, "matchExpressions": expressions, "offAbove": "1",
          "zeroWhenAbsent": absent },
        { "name": "alert", "alert": value, "zeroWhenAbsent": absent },
    ]);
    let mut spec = spec(latency, signals);
    spec["targets"][0]["hedging"] = json!({
        "calls": counter("calls_total"), "hedges": counter("hedges_total"), "blocked": counter("blocked_total"),
        "wins": counter("wins_total"),
    });
    spec
}

/// A policy that names everything with any value and any label.
pub(crate) fn anything() -> impl Strategy<Value = Value> {
    let hostile = prop::sample::select(HOSTILE).prop_map(str::to_owned);
    let fits = |value: &String| (1..=60).contains(&value.chars().count());
    let value = prop_oneof![
        hostile,
        "\\PC{1,12}",
        any::<String>().prop_filter("its length", fits)
    ];
    // One is reserved, and one tells outcomes apart.
    let free = |label: &String| label != "__name__" && label != "status";
    let label = prop_oneof![
        Just("namespace".to_owned()),
        "[a-zA-Z_][a-zA-Z0-9_]{0,8}".prop_filter("reserved", free)
    ];
    (value, label).prop_map(|(value, label)| with_everything(&value, &label))
}
