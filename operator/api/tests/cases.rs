//! The cases that the real API server judges too (`tests/`): a spec that it accepts is accepted here, one that it refuses is
//! refused here, by the same words for the same field.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail as a test may")]

use std::collections::BTreeSet;

use hedgerow_api::{crd, decode_spec};
use serde::Deserialize;
use serde_json::Value;

const CASES: &str = include_str!("../../../tests/cases/crd-cases.jsonl");
const BAD_OBJECTS: &str = include_str!("../../../tests/cases/crd-bad-objects.jsonl");

/// How the messages begin by which the server refuses what does not fit the schema, where no rule does. Those without a
/// message are refused by the type alone.
const SERVERS_OWN: [&str; 6] = [
    "Required value",
    "Unsupported value",
    "must be of type",
    "should be ",
    "should have ",
    "unknown field",
];

#[derive(Deserialize)]
struct Case {
    case: String,
    accepted: bool,
    spec: Value,
    #[serde(default)]
    field: String,
    #[serde(default)]
    message: String,
}

fn cases(lines: &str) -> Vec<Case> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What is said about a spec: one line an error, nothing when it is accepted.
fn errors(spec: &Value) -> Vec<String> {
    decode_spec(spec)
        .err()
        .into_iter()
        .flatten()
        .map(|error| error.to_string())
        .collect()
}

#[test]
fn a_spec_is_accepted_exactly_when_the_schema_accepts_it() {
    let all: Vec<Case> = cases(CASES).into_iter().chain(cases(BAD_OBJECTS)).collect();
    assert!(all.len() > 300);
    let wrong: Vec<_> = all
        .iter()
        .map(|case| (&case.case, case.accepted, errors(&case.spec)))
        .filter(|(_, accepted, errors)| *accepted != errors.is_empty())
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_error_names_the_field_and_speaks_as_the_schema_does() {
    let wrong: Vec<_> = cases(BAD_OBJECTS)
        .into_iter()
        .filter(|case| !case.accepted)
        .map(|case| {
            let errors = errors(&case.spec);
            // The server words a few refusals itself. Any other message is a rule's: one that no rule has is out of date.
            let by_rule = !SERVERS_OWN.iter().any(|own| case.message.starts_with(own));
            let named = errors.iter().any(|error| {
                error.starts_with(&format!("{}: ", case.field)) && (!by_rule || error.contains(&case.message))
            });
            (case.case, case.field, case.message, errors, named)
        })
        .filter(|(.., named)| !named)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_rule_of_the_schema_has_a_bad_object() {
    let bad: Vec<Case> = cases(BAD_OBJECTS)
        .into_iter()
        .filter(|case| !case.accepted)
        .collect();
    let without: Vec<_> = rule_messages()
        .into_iter()
        .filter(|message| {
            !bad.iter()
                .any(|case| !case.message.is_empty() && message.contains(&case.message))
        })
        .collect();
    assert_eq!(without, Vec::<String>::new());
}

/// The messages of all rules in the schema.
fn rule_messages() -> BTreeSet<String> {
    fn collect(schema: &Value, messages: &mut BTreeSet<String>) {
        match schema {
            Value::Object(fields) => {
                let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array);
                messages.extend(
                    rules
                        .into_iter()
                        .flatten()
                        .map(|rule| rule["message"].as_str().unwrap().to_owned()),
                );
                fields.values().for_each(|value| collect(value, messages));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, messages)),
            _ => {}
        }
    }
    let mut messages = BTreeSet::new();
    collect(&serde_json::to_value(crd()).unwrap(), &mut messages);
    messages
}
