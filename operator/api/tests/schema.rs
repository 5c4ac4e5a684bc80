//! The generated definition.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail as a test may")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hedgerow_api::{crd, crd_yaml};
use serde_json::Value;

const COMMITTED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../crds/hedgepolicies.hedgerow.dev.yaml"
);

#[test]
fn the_committed_definition_is_the_generated_one() {
    let generated = crd_yaml().unwrap();
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        fs::create_dir_all(Path::new(COMMITTED).parent().unwrap()).unwrap();
        fs::write(COMMITTED, &generated).unwrap();
    }
    let committed = fs::read_to_string(COMMITTED).unwrap_or_default();
    assert!(
        committed == generated,
        "crds/hedgepolicies.hedgerow.dev.yaml is not what the types say; mend it with\n    \
         cargo run -p hedgerow -- crd > crds/hedgepolicies.hedgerow.dev.yaml"
    );
}

#[test]
fn the_yaml_says_the_same_as_the_definition() {
    let read: Value = serde_saphyr::from_str(&crd_yaml().unwrap()).unwrap();
    assert_eq!(read, serde_json::to_value(crd()).unwrap());
}

#[test]
fn the_definition_fits_into_an_annotation_of_kubectl_apply() {
    let size = serde_json::to_string(&crd()).unwrap().len();
    assert!(size < 100_000, "{size} bytes as compact JSON");
}

#[test]
fn an_object_that_nobody_has_seen_is_not_taken_for_ready() {
    let status = root_schema()["properties"]["status"]["default"].clone();
    let condition = &status["conditions"][0];
    assert_eq!(
        [&condition["type"], &condition["status"], &condition["reason"]],
        ["Ready", "Unknown", "Pending"]
    );
}

/// Server-side apply merges lists by their list type, and the cost of a rule is bounded by the limits: a part of the schema
/// that lacks one is refused by an API server, or treated as one value.
#[test]
fn every_part_of_the_spec_has_its_limits_and_a_description() {
    let mut bare = Vec::new();
    walk(
        &root_schema()["properties"]["spec"],
        "spec",
        &mut |path, schema| {
            let has = |name: &str| !schema[name].is_null();
            let complete = match schema["type"].as_str() {
                Some("string") => has("enum") || has("maxLength"),
                Some("array") => has("maxItems") && has("x-kubernetes-list-type"),
                Some("object") => has("properties") || has("maxProperties"),
                Some("integer") => has("minimum") && has("maximum"),
                Some("boolean") => true,
                _ => false,
            };
            let described = path.ends_with(']')
                || path.ends_with('}')
                || schema["description"].as_str().is_some_and(|text| text.len() > 20);
            if !complete || !described {
                bare.push(path.to_owned());
            }
        },
    );
    assert_eq!(bare, Vec::<String>::new());
}

#[test]
fn every_list_of_the_status_has_a_limit_and_a_list_type_and_nothing_is_a_float() {
    let mut bare = Vec::new();
    walk(
        &root_schema()["properties"]["status"],
        "status",
        &mut |path, schema| {
            let bad = match schema["type"].as_str() {
                Some("array") => schema["maxItems"].is_null() || schema["x-kubernetes-list-type"].is_null(),
                Some("string" | "object" | "boolean") => false,
                Some("integer") => schema["format"] != "int64",
                _ => true,
            };
            if bad {
                bare.push(path.to_owned());
            }
        },
    );
    assert_eq!(bare, Vec::<String>::new());
}

/// kubectl reads YAML 1.1, where these are booleans.
#[test]
fn no_enum_value_is_a_boolean_to_kubectl() {
    let mut values = BTreeSet::new();
    walk(&root_schema()["properties"]["spec"], "spec", &mut |_, schema| {
        values.extend(
            schema["enum"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|value| value.as_str().unwrap().to_lowercase()),
        );
    });
    assert!(values.contains("enforce"));
    assert!(
        values.is_disjoint(
            &["on", "off", "yes", "no", "y", "n", "true", "false"]
                .map(String::from)
                .into()
        )
    );
}

fn root_schema() -> Value {
    serde_json::to_value(crd()).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &format!("{path}.{name}"), visit);
    }
    if schema["items"].is_object() {
        walk(&schema["items"], &format!("{path}[]"), visit);
    }
    if schema["additionalProperties"].is_object() {
        walk(&schema["additionalProperties"], &format!("{path}{{}}"), visit);
    }
}
