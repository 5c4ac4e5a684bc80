//! A status that another version wrote.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail as a test may")]

use hedgerow_api::{HedgePolicy, HedgePolicyStatus};
use serde_json::{Value, json};

fn decode(status: Value) -> HedgePolicyStatus {
    let object = json!({
        "apiVersion": "hedgerow.dev/v1alpha1",
        "kind": "HedgePolicy",
        "metadata": { "name": "kb", "namespace": "helpdesk" },
        "spec": { "targets": [], "publish": [] },
        "status": status,
    });
    serde_json::from_value::<HedgePolicy>(object)
        .unwrap()
        .status
        .unwrap()
}

#[test]
fn an_empty_status_decodes() {
    assert_eq!(decode(json!({})), HedgePolicyStatus::default());
}

#[test]
fn unknown_states_reasons_and_fields_decode() {
    let status = decode(json!({
        "conditions": [{
            "type": "Foreseen", "status": "Perhaps", "reason": "ByAnother", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "severity": 3
        }],
        "targets": [{ "name": "a", "state": "Levitating", "reason": "Novel", "altitude": { "metres": 1.5 } }],
        "weather": "fair"
    }));
    assert_eq!(status.conditions[0].type_, "Foreseen");
    assert_eq!(status.targets[0].state.as_deref(), Some("Levitating"));
}

#[test]
fn a_field_whose_type_changed_is_as_if_it_were_missing_and_harms_no_other() {
    let status = decode(json!({
        "observedGeneration": "seven",
        "summary": ["2/3"],
        "conditions": { "Ready": true },
        "targets": [{ "name": "a", "history": "long" }, { "name": "b", "state": "Hedging" }],
        "outputs": 4
    }));
    assert_eq!(
        status
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .collect::<Vec<_>>(),
        ["b"]
    );
    assert_eq!(
        HedgePolicyStatus {
            targets: Vec::new(),
            ..status
        },
        HedgePolicyStatus::default()
    );
}

#[test]
fn what_is_written_reads_back_the_same() {
    let written = json!({
        "observedGeneration": 3,
        "summary": { "hedging": "1/1", "delay": "512ms", "budget": "10%", "reason": "Tuned" },
        "targets": [{
            "name": "shard-read", "state": "Hedging", "reason": "Tuned", "revision": 17,
            "delay": { "applied": "512ms", "recommended": "498ms", "limitedBy": "HoldBand" },
            "signals": [{ "name": "queue", "state": "Fresh", "saturated": false, "value": "3", "offAbove": "50", "onBelow": "35" }],
            "history": [{ "time": "2026-01-01T00:00:00Z", "from": "off", "to": "512ms, 10%", "reason": "Tuned" }]
        }],
        "outputs": [{ "configMap": "kb-hedging", "key": "shard-read.json", "state": "Published", "revision": 17 }]
    });
    assert_eq!(serde_json::to_value(decode(written.clone())).unwrap(), written);
}
