//! From what a person wrote to a spec, with the path of what does not fit.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use serde::Deserialize;
use serde_json::Value;

use crate::{FieldError, HedgePolicySpec, crd, validate};

/// Reads a spec from a file as strictly as an API server does on `kubectl apply`: a field that does not exist is refused and
/// not ignored, since a misspelt limit is no limit.
///
/// # Errors
/// Every unknown field; else the first value of a wrong type; else all that [`validate`] finds.
pub fn decode_spec(written: &Value) -> Result<HedgePolicySpec, Vec<FieldError>> {
    let mut unknown = Vec::new();
    if let Some(schema) = spec_schema() {
        find_unknown_fields(&schema, written, "spec", &mut unknown);
    }
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let spec = typed(written).map_err(|error| vec![error])?;
    validate(&spec)?;
    Ok(spec)
}

fn typed(written: &Value) -> Result<HedgePolicySpec, FieldError> {
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(written, &mut track);
    HedgePolicySpec::deserialize(tracked).map_err(|error| {
        let path = track.path().to_string();
        FieldError {
            path: if path == "." {
                "spec".to_owned()
            } else {
                format!("spec.{path}")
            },
            message: error.to_string(),
            value: None,
        }
    })
}

fn spec_schema() -> Option<JSONSchemaProps> {
    let version = crd().spec.versions.into_iter().next()?;
    version.schema?.open_api_v3_schema?.properties?.remove("spec")
}

fn find_unknown_fields(schema: &JSONSchemaProps, written: &Value, path: &str, unknown: &mut Vec<FieldError>) {
    match (written, &schema.properties, &schema.items) {
        (Value::Object(fields), Some(known), _) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match known.get(name) {
                    Some(schema) => find_unknown_fields(schema, value, &path, unknown),
                    None => unknown.push(FieldError {
                        message: format!(
                            "unknown field; known here: {}",
                            known.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
                        ),
                        path,
                        value: None,
                    }),
                }
            }
        }
        (Value::Array(items), _, Some(JSONSchemaPropsOrArray::Schema(schema))) => {
            for (index, item) in items.iter().enumerate() {
                find_unknown_fields(schema, item, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}
