//! From what a person wrote to a spec, with the path of what does not fit.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use serde_json::Value;

use crate::{FieldError, HedgePolicySpec, crd, validate};

/// Reads a spec from a file as strictly as an API server does on `kubectl apply`: a field that does not exist is refused and
/// not ignored, since a misspelt limit is no limit.
///
/// # Errors
/// Every field that is unknown or missing; else the first value of a wrong type; else all that [`validate`] finds.
pub fn decode_spec(written: &Value) -> Result<HedgePolicySpec, Vec<FieldError>> {
    let mut errors = Vec::new();
    if let Some(schema) = &*SPEC_SCHEMA {
        compare_fields(schema, written, "spec", &mut errors);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let spec = typed(written).map_err(|error| vec![error])?;
    validate(&spec)?;
    Ok(spec)
}

/// The schema of `spec`. Generating it takes longer than all the rest.
static SPEC_SCHEMA: LazyLock<Option<JSONSchemaProps>> = LazyLock::new(|| {
    let version = crd().spec.versions.into_iter().next()?;
    version.schema?.open_api_v3_schema?.properties?.remove("spec")
});

fn typed(written: &Value) -> Result<HedgePolicySpec, FieldError> {
    serde_path_to_error::deserialize(written).map_err(|error| {
        let path = match error.path().to_string().as_str() {
            "." => "spec".to_owned(),
            path => format!("spec.{path}"),
        };
        let mut message = error.inner().to_string();
        let is_number =
            message.starts_with("invalid type: integer") || message.starts_with("invalid type: floating");
        if is_number && message.ends_with("expected a string") {
            message.push_str(": put it in quotes");
        }
        error_at(path, message)
    })
}

/// Which fields are there that should not be, and which are not there that should.
fn compare_fields(schema: &JSONSchemaProps, written: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match (written, &schema.properties, &schema.items) {
        (Value::Object(fields), Some(known), _) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match known.get(name) {
                    Some(schema) => compare_fields(schema, value, &path, errors),
                    None => errors.push(error_at(
                        path,
                        format!("unknown field; there are {}", names(known.keys())),
                    )),
                }
            }
            let required = schema.required.iter().flatten();
            for missing in required.filter(|name| !fields.contains_key(*name)) {
                errors.push(error_at(format!("{path}.{missing}"), "must be set".to_owned()));
            }
        }
        (Value::Array(items), _, Some(JSONSchemaPropsOrArray::Schema(schema))) => {
            for (index, item) in items.iter().enumerate() {
                compare_fields(schema, item, &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn error_at(path: String, message: String) -> FieldError {
    FieldError {
        path,
        message,
        value: None,
    }
}
