//! The examples, on the real server: each of their objects is one that it takes.

use std::fs;
use std::path::{Path, PathBuf};

use hedgerow_tests::{Namespace, program, repository};
use serde_json::{Value, json};

use crate::shared;

/// The objects of `examples/`, each with the file that it is in.
fn objects() -> Vec<(PathBuf, Value)> {
    let mut found = Vec::new();
    for file in yaml_files(&repository().join("examples")) {
        let text = fs::read_to_string(&file).unwrap();
        let objects = serde_saphyr::from_multiple::<Value>(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        // The operator's own configuration is no object.
        let objects = objects.into_iter().filter(|object| object.get("kind").is_some());
        found.extend(objects.map(|object| (file.clone(), object)));
    }
    found
}

fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(yaml_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files
}

/// What the server says to an object in a namespace of the test, without storing it.
async fn refusal(namespace: &Namespace, mut object: Value) -> Option<String> {
    object["metadata"]["namespace"] = namespace.name().into();
    let answer = namespace.try_apply(&object.to_string()).await;
    answer.err().map(|error| format!("{error:#}"))
}

/// Installs the CRDs of Flux and Argo CD for the examples that are of them.
async fn install_others() {
    let of = [
        ("flux", "kustomize.toolkit.fluxcd.io_kustomizations.yaml"),
        ("flux", "source.toolkit.fluxcd.io_gitrepositories.yaml"),
        ("argo-health", "application-crd.yaml"),
    ];
    for (name, file) in of {
        shared::install_crd_from(
            shared::cluster().await,
            &program(name).unwrap().with_file_name(file),
        )
        .await;
    }
}

#[tokio::test]
async fn every_object_of_the_examples_is_accepted() {
    let namespace = shared::namespace("examples").await;
    install_others().await;
    let objects = objects();
    let policies = objects
        .iter()
        .filter(|(_, object)| object["kind"] == "HedgePolicy")
        .count();
    assert!(policies >= 11, "only {policies} policies");
    let mut refused = Vec::new();
    for (file, object) in objects {
        if let Some(why) = refusal(&namespace, object).await {
            refused.push(format!("{}: {why}", file.display()));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[tokio::test]
async fn a_misspelt_field_would_be_refused() {
    let namespace = shared::namespace("examples").await;
    let misspelt =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "kb" }, "date": {} });
    let why = refusal(&namespace, misspelt).await.expect("it is refused");
    assert!(why.contains("date"), "{why}");
}
