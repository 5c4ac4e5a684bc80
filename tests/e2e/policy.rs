//! Policies, as the tests write them: one that works, with short times, and what differs.

use serde_json::{Value, json};

/// The ConfigMap and key that [`policy`] publishes to.
pub(crate) const CONFIG_MAP: &str = "kb-hedging";
pub(crate) const KEY: &str = "shard-read.json";

/// A policy with one target and one saturation signal. It waits for what it cannot read as long as the API lets it, so that a
/// machine that stands still for some seconds turns nothing off.
pub(crate) fn policy(name: &str) -> Value {
    let policy = with(hasty(name), "/spec/maxStaleness", json!("1h"));
    with(policy, "/spec/targets/0/saturation/maxUnknown", json!("10m"))
}

/// The same with the shortest times that the API accepts throughout: for tests of what is not known.
pub(crate) fn hasty(name: &str) -> Value {
    json!({
        "apiVersion": "hedgerow.dev/v1alpha1", "kind": "HedgePolicy", "metadata": { "name": name },
        "spec": {
            "interval": "5s", "saturationInterval": "1s", "maxStaleness": "30s",
            "targets": [target("shard-read")],
            "publish": [{ "configMap": CONFIG_MAP, "key": KEY, "targets": [{ "name": "shard-read" }] }],
        },
    })
}

/// The target of [`hasty`].
pub(crate) fn target(name: &str) -> Value {
    json!({
        "name": name, "idempotent": true, "deadline": "1s",
        "latency": {
            "metric": "shard_read_duration_seconds", "measures": "LogicalCall",
            "matchLabels": { "index": "kb" }, "window": "1m",
        },
        "saturation": {
            "signals": [queue()], "maxUnknown": "10s", "cooldown": "1s", "rampStep": "1s",
        },
    })
}

/// The saturation signal of [`policy`].
pub(crate) fn queue() -> Value {
    json!({ "name": "queue", "metric": "shard_queue_depth", "matchLabels": { "index": "kb" }, "offAbove": "50" })
}

/// `object` with the value at `pointer` replaced, or with it added where there is none.
pub(crate) fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a JSON pointer");
    match object.pointer_mut(parent).expect("the parent exists") {
        Value::Array(items) => items[key.parse::<usize>().expect("an index")] = value,
        parent => parent[key] = value,
    }
    object
}

/// `object` without what is at `pointer`.
pub(crate) fn without(mut object: Value, pointer: &str) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a JSON pointer");
    let parent = object
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .expect("the parent is an object");
    parent.remove(key).expect("there is something to leave out");
    object
}
