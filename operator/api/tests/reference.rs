//! `docs/api.md` is written from the definition.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail as a test may")]

use std::fmt::Write as _;
use std::fs;

use hedgerow_api::crd;
use serde_json::{Map, Value};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");
const HEAD: &str = "# Fields of a policy\n\n\
    <!-- Written by the tests from the types in operator/api: edit them, not this page. -->\n\n\
    `apiVersion: hedgerow.dev/v1alpha1`, `kind: HedgePolicy`, short `hp`. `[]` stands for each entry of a list, `{}` for each value of a\n\
    map. `kubectl explain hedgepolicy.spec` says the same of the version that is installed. A field that is not here is refused.\n";

#[test]
fn every_field_is_told_as_it_is_defined() {
    let told = page();
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        fs::write(PAGE, &told).unwrap();
    }
    assert!(
        fs::read_to_string(PAGE).unwrap_or_default() == told,
        "docs/api.md is not what the definition says; mend it with\n    \
         HEDGEROW_BLESS=1 cargo test -p hedgerow-api --test reference"
    );
}

fn page() -> String {
    let definition = serde_json::to_value(crd()).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut page = HEAD.to_owned();
    for part in ["spec", "status"] {
        let schema = &schema["properties"][part];
        write!(page, "\n## {part}\n").unwrap();
        if let Some(said) = schema["description"].as_str() {
            write!(page, "\n{said}\n").unwrap();
        }
        page += "\n| field | type | default | |\n| --- | --- | --- | --- |\n";
        rows(&mut page, part, schema);
    }
    page
}

/// A row for each field below this one, in the order of their names, the required ones first.
fn rows(page: &mut String, path: &str, schema: &Value) {
    let none = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&none);
    let required = |name: &str| {
        let names = schema["required"].as_array();
        names.is_some_and(|names| names.iter().any(|one| one == name))
    };
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| (!required(name), *name));
    for (name, field) in fields {
        let path = format!("{path}.{name}");
        let default = match &field["default"] {
            Value::Null if required(name) => "required".to_owned(),
            Value::Null => String::new(),
            // What an object that nobody has seen says: no default of a field.
            Value::Array(_) | Value::Object(_) => String::new(),
            value => format!("`{}`", value.to_string().trim_matches('"')),
        };
        let kind = kind(field);
        let said = description(field);
        writeln!(page, "| `{path}` | {kind} | {default} | {said} |").unwrap();
        rows(page, &path, field);
        rows(page, &format!("{path}[]"), &field["items"]);
        rows(page, &format!("{path}{{}}"), &field["additionalProperties"]);
    }
}

fn kind(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().filter_map(Value::as_str);
        return words
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", ");
    }
    match schema["type"].as_str().unwrap_or("any") {
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => "map".to_owned(),
        other => other.to_owned(),
    }
}

/// In one line, as a cell wants it.
fn description(schema: &Value) -> String {
    let said = schema["description"].as_str().unwrap_or_default();
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('|', "\\|")
}
