//! Whether the CRD that the cluster serves has the fields that this binary needs.
//!
//! A field that the CRD lacks is dropped on admission without a word: the policy that somebody wrote is not the one that
//! the operator reads. Read through OpenAPI, which every authenticated client may, and not from the CRD itself, which
//! would need a right on the whole cluster.

use std::collections::BTreeSet;

use http::Request;
use kube::Client;
use serde_json::Value;

use super::write::{WriteError, bounded};

const OPENAPI_PATH: &str = "/openapi/v3/apis/hedgerow.dev/v1alpha1";
const SCHEMA_NAME: &str = ".HedgePolicy";

/// Why the served schema does not fit.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The CRD is not installed.
    #[error(
        "the cluster does not serve HedgePolicy: install its CRD (hedgerow crd | kubectl apply --server-side -f -)"
    )]
    NotServed,
    /// The CRD is older than this binary.
    #[error(
        "the cluster's HedgePolicy CRD lacks {}: update it (hedgerow crd | kubectl apply --server-side -f -)",
        missing.join(", ")
    )]
    Missing {
        /// The paths of the fields.
        missing: Vec<String>,
    },
    /// It could not be read.
    #[error("cannot read the schema of HedgePolicy: {}", .0.with_remedy())]
    Unreadable(#[from] WriteError),
}

impl SchemaError {
    /// Whether it says nothing about the schema, and may pass by itself: nobody answered, or not yet.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NotServed | Self::Missing { .. } | Self::Unreadable(WriteError::NotLeading(_)) => false,
            Self::Unreadable(WriteError::Timeout | WriteError::Unreachable(_)) => true,
            Self::Unreadable(WriteError::Refused(status)) => status.code == 429 || status.code >= 500,
        }
    }
}

/// Checks the schema that the cluster serves.
///
/// # Errors
///
/// When it is not served, lacks fields, or cannot be read.
pub async fn check_served_schema(client: &Client) -> Result<(), SchemaError> {
    let request = Request::get(OPENAPI_PATH)
        .body(Vec::new())
        .map_err(kube::Error::HttpError);
    let request = request.map_err(WriteError::from)?;
    let document: Value = match bounded(client.request(request)).await {
        Ok(document) => document,
        Err(error) if error.is_not_found() => return Err(SchemaError::NotServed),
        Err(error) => return Err(error.into()),
    };
    let served = served_schema(&document).ok_or(SchemaError::NotServed)?;
    let missing = missing_fields(&needed_schema(), served);
    if missing.is_empty() {
        Ok(())
    } else {
        Err(SchemaError::Missing {
            missing: missing.into_iter().collect(),
        })
    }
}

fn served_schema(document: &Value) -> Option<&Value> {
    let schemas = document.pointer("/components/schemas")?.as_object()?;
    let found = schemas.iter().find(|(name, _)| name.ends_with(SCHEMA_NAME));
    found.map(|(_, schema)| schema)
}

fn needed_schema() -> Value {
    let crd = serde_json::to_value(hedgerow_api::crd()).unwrap_or_default();
    let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema");
    schema.cloned().unwrap_or_default()
}

/// The fields of `spec` and `status` that `served` lacks; of a field that is missing, not those in it.
fn missing_fields(needed: &Value, served: &Value) -> BTreeSet<String> {
    let mut missing = BTreeSet::new();
    for root in ["spec", "status"] {
        let within = |schema: &Value| schema.pointer(&format!("/properties/{root}")).cloned();
        let Some(needed) = within(needed) else { continue };
        match within(served) {
            Some(served) => compare(root, &needed, &served, &mut missing),
            None => drop(missing.insert(root.to_owned())),
        }
    }
    missing
}

fn compare(path: &str, needed: &Value, served: &Value, missing: &mut BTreeSet<String>) {
    let properties = needed.get("properties").and_then(Value::as_object);
    for (name, needed) in properties.into_iter().flatten() {
        let path = format!("{path}.{name}");
        match served
            .get("properties")
            .and_then(|properties| properties.get(name))
        {
            Some(served) => compare(&path, needed, served, missing),
            None => drop(missing.insert(path)),
        }
    }
    if let Some(needed) = needed.get("items") {
        // The server wraps some items: `{"allOf": [...], "default": {}}` only for references, which a CRD has none of.
        compare(path, needed, served.get("items").unwrap_or(&Value::Null), missing);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(spec: Value) -> Value {
        json!({ "properties": { "spec": spec, "status": { "properties": {} } } })
    }

    fn missing(needed: Value, served: Value) -> Vec<String> {
        missing_fields(&object(needed), &object(served))
            .into_iter()
            .collect()
    }

    #[test]
    fn a_schema_lacks_nothing_of_itself() {
        let schema = needed_schema();
        assert!(schema.pointer("/properties/spec/properties/targets").is_some());
        assert_eq!(missing_fields(&schema, &schema), BTreeSet::new());
    }

    #[test]
    fn a_missing_field_is_named_with_its_path() {
        let needed = json!({ "properties": { "targets": { "items": { "properties": { "name": {}, "fanOut": {} } } } } });
        let served = json!({ "properties": { "targets": { "items": { "properties": { "name": {} } } } } });
        assert_eq!(missing(needed, served), ["spec.targets.fanOut"]);
    }

    #[test]
    fn of_a_missing_object_its_fields_are_not_named() {
        let needed = json!({ "properties": { "delay": { "properties": { "min": {} } } } });
        assert_eq!(missing(needed, json!({ "properties": {} })), ["spec.delay"]);
    }

    #[test]
    fn a_token_that_is_not_taken_has_its_remedy() {
        let status = kube::core::Status::failure("Unauthorized", "Unauthorized").with_code(401);
        let told = SchemaError::from(WriteError::Refused(status.boxed())).to_string();
        assert!(
            told.contains("Unauthorized; the token") && told.contains("tokenFile"),
            "{told}"
        );
        assert!(
            SchemaError::from(WriteError::Timeout)
                .to_string()
                .ends_with("within 5 s")
        );
    }

    #[test]
    fn who_does_not_answer_is_waited_for_and_a_wrong_answer_is_none() {
        let refused = |code| {
            let status = kube::core::Status::failure("no", "no").with_code(code);
            SchemaError::from(WriteError::Refused(status.boxed())).may_pass()
        };
        assert!(SchemaError::from(WriteError::Timeout).may_pass());
        assert!(SchemaError::from(WriteError::Unreachable("connection refused".to_owned())).may_pass());
        assert_eq!(
            [429, 500, 503, 401, 403].map(refused),
            [true, true, true, false, false]
        );
        assert!(!SchemaError::NotServed.may_pass());
        assert!(!SchemaError::Missing { missing: Vec::new() }.may_pass());
    }

    #[test]
    fn a_newer_crd_with_more_fields_fits() {
        let served = json!({ "properties": { "mode": {}, "later": {} } });
        assert_eq!(
            missing(json!({ "properties": { "mode": {} } }), served),
            Vec::<String>::new()
        );
    }
}
