//! The native document as it is written: its JSON, and the JSON Schema of that.

use hedgerow_tuner::Timestamp;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The document version that this crate writes. A client refuses a newer major version.
pub const API_VERSION: &str = "hedgerow.dev/v1";

/// Tells a client of a service whether, when and how much to hedge. The Hedgerow operator writes it into a key of a
/// ConfigMap. A client that finds it missing, malformed, of a newer major version or past `validUntil` does not hedge.
/// Fields that a client does not know are to be ignored.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "HedgerowDocument", transform = on_or_off)]
pub(crate) struct Wire {
    /// The version of this format. Minor additions keep it; a client refuses one that it does not know.
    #[schemars(schema_with = "api_version")]
    pub(crate) api_version: String,
    /// The HedgePolicy that it comes from, as `namespace/name`.
    pub(crate) policy: String,
    /// The UID of that policy.
    #[serde(rename = "policyUID")]
    pub(crate) policy_uid: String,
    /// The target of the policy: one kind of call.
    pub(crate) target: String,
    /// Rises by one with each change of content. A renewal is none. Compare content to see a change, and never order
    /// by this: it may start anew.
    #[schemars(range(min = 0))]
    pub(crate) revision: u64,
    /// When the document was written or renewed, RFC 3339.
    #[serde(with = "crate::rfc3339")]
    #[schemars(schema_with = "time")]
    pub(crate) issued_at: Timestamp,
    /// Do not hedge from this moment on, RFC 3339. The operator renews it in time; without an operator hedging ends
    /// here. Left out when the document never expires.
    #[serde(
        default,
        with = "crate::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "time")]
    pub(crate) valid_until: Option<Timestamp>,
    /// Whether to hedge.
    pub(crate) enabled: bool,
    /// Why, as one bounded name: `Tuned` or `Ramping` when enabled; else what turned hedging off, such as `Saturated`,
    /// `CoolingDown`, `LatencyUnknown` or `Stopped`.
    #[schemars(length(min = 1))]
    pub(crate) reason: String,
    /// Send a hedge when the primary attempt has not answered after this many milliseconds. Only when enabled.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "positive_ms")]
    pub(crate) delay_ms: Option<f64>,
    /// What one call may take in all, its hedges included, in milliseconds. Left out when there is no deadline.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "positive_ms")]
    pub(crate) deadline_ms: Option<f64>,
    /// Do not send a hedge with less of the deadline left than this, in milliseconds: about the time that a usual
    /// answer takes. Only when enabled.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "ms")]
    pub(crate) min_remaining_ms: Option<f64>,
    /// Attempts per call at most, the primary included.
    #[schemars(range(min = 2, max = 5))]
    pub(crate) max_attempts: u8,
    /// What hedging may cost, for each client process. Only when enabled.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "budget")]
    pub(crate) budget: Option<WireBudget>,
}

/// A token bucket and a limit on concurrency, for each client process. The bucket starts empty, gains `percent`/100 per
/// call, holds at most the larger of `burst` and `percent`/100 x the calls of the last second, and loses the excess. A
/// hedge takes one token; without one it is skipped, never queued.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Budget")]
pub(crate) struct WireBudget {
    /// Hedges per 100 calls.
    #[schemars(range(max = 100), extend("exclusiveMinimum" = 0))]
    pub(crate) percent: f64,
    /// Tokens that the bucket may hold in any case.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) burst: u32,
    /// Tokens that the bucket gains per second beside those for calls, for services with little traffic.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub(crate) min_per_second: f64,
    /// Hedges in flight at once.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) max_concurrent: u32,
}

/// Reads a field that may be left out but is not `null`.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The JSON Schema (draft 2020-12) of the native document.
///
/// What is enabled and what is off have different fields; the schema says so. Unknown fields are allowed, so that a
/// minor version can add some.
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(Wire);
    unwrap_descriptions(&mut schema);
    schema.to_value()
}

/// Descriptions come from comments that are wrapped for reading here: joins their lines.
fn unwrap_descriptions(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    transform_subschemas(&mut unwrap_descriptions, schema);
}

/// An enabled document has everything that hedging needs; an off one has none of it, so that no client can take a delay
/// from it by mistake.
fn on_or_off(schema: &mut Schema) {
    schema.insert(
        "$id".to_owned(),
        json!("https://hedgerow.dev/schemas/native-document.v1.json"),
    );
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|field| !OPTIONAL.iter().any(|optional| field == optional));
    }
    schema.insert(
        "if".to_owned(),
        json!({ "properties": { "enabled": { "const": true } } }),
    );
    schema.insert(
        "then".to_owned(),
        json!({
            "required": ["delayMs", "minRemainingMs", "budget"],
            "properties": { "reason": { "enum": ["Tuned", "Ramping"] } },
        }),
    );
    schema.insert(
        "else".to_owned(),
        json!({ "properties": { "delayMs": false, "minRemainingMs": false, "budget": false } }),
    );
}

/// The fields that not every document has.
const OPTIONAL: [&str; 5] = ["validUntil", "delayMs", "deadlineMs", "minRemainingMs", "budget"];

fn api_version(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "const": API_VERSION })
}

fn time(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "string", "format": "date-time" })
}

fn ms(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "number", "minimum": 0, "maximum": 3_600_000 })
}

fn positive_ms(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "number", "exclusiveMinimum": 0, "maximum": 3_600_000 })
}

fn budget(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<WireBudget>()
}
