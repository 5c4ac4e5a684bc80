//! The API on the real server: what it accepts, what it refuses and how, and how it reads.

use std::fs;
use std::time::Duration;

use hedgerow_tests::{Namespace, eventually, repository};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::shared;

/// A line of `tests/cases/*.jsonl`: a spec, and whether the server must accept it.
#[derive(Deserialize)]
struct Case {
    case: String,
    accepted: bool,
    spec: Value,
    /// The field that the refusal names.
    #[serde(default)]
    field: String,
    /// A part of the message that refuses it.
    #[serde(default)]
    message: String,
}

fn cases(file: &str) -> Vec<Case> {
    let path = repository().join("tests/cases").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let line = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{file}: {error}: {line}"));
    text.lines().map(line).collect()
}

/// What is wrong with the server's answer to a case, if anything.
async fn wrong(namespace: &Namespace, case: &Case) -> Option<String> {
    let policy = json!({
        "apiVersion": "hedgerow.dev/v1alpha1", "kind": "HedgePolicy", "metadata": { "name": "case" },
        "spec": case.spec,
    });
    let answer = namespace.try_create(policy).await;
    match (answer, case.accepted) {
        (Ok(()), false) => Some(format!("{}: accepted", case.case)),
        (Err(message), true) => Some(format!("{}: refused: {message}", case.case)),
        (Err(message), false) => {
            let missing = [&case.field, &case.message]
                .into_iter()
                .find(|part| !message.contains(*part))?;
            Some(format!("{}: {missing:?} is not in: {message}", case.case))
        }
        (Ok(()), true) => None,
    }
}

async fn judge(file: &str, at_least: usize) {
    let namespace = shared::namespace("cases").await;
    let cases = cases(file);
    assert!(cases.len() >= at_least, "{file} has {} cases", cases.len());
    let mut all_wrong = Vec::new();
    for case in &cases {
        all_wrong.extend(wrong(&namespace, case).await);
    }
    assert!(
        all_wrong.is_empty(),
        "{} of {} cases:\n{}",
        all_wrong.len(),
        cases.len(),
        all_wrong.join("\n")
    );
}

#[tokio::test]
async fn every_spec_is_accepted_or_refused_as_its_case_says() {
    judge("crd-cases.jsonl", 50).await;
}

#[tokio::test]
async fn every_bad_object_is_refused_with_its_field_and_the_remedy() {
    judge("crd-bad-objects.jsonl", 100).await;
}

#[tokio::test]
async fn every_field_is_explained() {
    let kubectl = shared::cluster().await.kubectl().unwrap();
    let latency = eventually("the schema is published", Duration::from_secs(60), async || {
        kubectl
            .run(&["explain", "hedgepolicy.spec.targets.latency"])
            .await
    })
    .await
    .unwrap();
    for field in [
        "preset",
        "metric",
        "measures",
        "outcomes",
        "losersRunOn",
        "window",
        "minSamples",
        "matchLabels",
    ] {
        assert!(
            latency.contains(&format!("\n  {field}\t")),
            "{field} is missing in:\n{latency}"
        );
    }
    assert!(!latency.contains("<no description>"), "{latency}");
    let all = kubectl
        .run(&["explain", "hedgepolicy", "--recursive"])
        .await
        .unwrap();
    assert!(all.contains("offAbove") && all.contains("publish"), "{all}");
}
