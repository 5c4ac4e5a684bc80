//! What a release before this one stored is taken on: its policies with their statuses, under its CRD, and its documents with
//! the memory in them. Whoever releases records it for those who come after (see CONTRIBUTING.md).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hedgerow_tests::{
    Cluster, Namespace, Operator, OperatorOptions, eventually, free_port, repository, steadily,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use regex_lite::{Captures, Regex};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::policy::{KEY, policy, with};
use crate::scene::{SOON, Scene, document};
use crate::shared::{CRD, install_crd, install_crd_from};

const CRD_FILE: &str = "crd.yaml";
const OBJECTS_FILE: &str = "objects.json";

/// What a release left in a cluster.
#[derive(Deserialize, Serialize)]
struct Left {
    recorded: Timestamp,
    instance: String,
    namespace: String,
    policies: Vec<Value>,
    config_maps: Vec<Value>,
}

fn releases() -> PathBuf {
    repository().join("tests/releases")
}

#[tokio::test]
async fn what_each_release_stored_is_taken_on_as_it_is() {
    let mut folders: Vec<_> = fs::read_dir(releases())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    assert!(!folders.is_empty());
    for folder in folders {
        is_taken_on(&folder).await;
    }
}

async fn is_taken_on(release: &Path) {
    let cluster = Cluster::start().await.unwrap();
    install_crd_from(&cluster, &release.join(CRD_FILE)).await;
    let (home, namespace) = (
        cluster.namespace("home").await.unwrap(),
        cluster.namespace("helpdesk").await.unwrap(),
    );
    let left = read(release, &namespace);
    let stored = store(&namespace, &left).await;
    install_crd(&cluster).await;
    // Nobody answers there, so whatever is published comes from what was stored.
    let nowhere = format!("http://127.0.0.1:{}", free_port().unwrap());
    let operator = OperatorOptions::new(&cluster, &home, &[&namespace])
        .set("instance", json!(left.instance))
        .source(&nowhere);
    let operator = operator.start().await.unwrap();

    for policy in &left.policies {
        is_carried_on(&operator, &namespace, policy).await;
    }
    steadily(
        "its documents are as they were",
        Duration::from_secs(15),
        async || {
            for before in &stored {
                let name = name_of(before);
                let now = config_map(&namespace, name).await?;
                ensure!(
                    now["data"] == before["data"],
                    "{name}: {} was {}",
                    now["data"],
                    before["data"]
                );
                ensure!(
                    now["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"],
                    "{name} belongs to another: {}",
                    now["metadata"]
                );
            }
            Ok(())
        },
    )
    .await
    .unwrap_or_else(|error| panic!("{}: {error:#}\n{}", release.display(), operator.log_tail()));
}

/// Waits until a status is written anew, and looks at what it must keep of the one before.
async fn is_carried_on(operator: &Operator, namespace: &Namespace, before: &Value) {
    let name = name_of(before);
    let status = eventually(&format!("{name} is looked at"), SOON, async || {
        let live = namespace.policy(name).await?;
        let signals = condition(&live, "SignalsAvailable").context("no such condition yet")?;
        // Of one that is not accepted nothing is read.
        let looked_at = ["SourceFailing", "Pending"]
            .iter()
            .any(|reason| signals["reason"] == *reason);
        ensure!(looked_at, "it says {signals}");
        Ok(live)
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", operator.log_tail()));
    for kind in ["Ready", "HedgingDisabled"] {
        let since = |policy: &Value| {
            let condition = condition(policy, kind).unwrap_or_else(|| panic!("{name} has no {kind}"));
            (
                condition["status"].clone(),
                condition["lastTransitionTime"].clone(),
            )
        };
        assert_eq!(since(&status), since(before), "{name}, {kind}");
    }
    let history = |policy: &Value| policy["status"]["targets"][0]["history"].clone();
    assert_eq!(history(&status), history(before), "{name}");
}

fn condition(policy: &Value, kind: &str) -> Option<Value> {
    let conditions = policy["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .cloned()
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

async fn config_map(namespace: &Namespace, name: &str) -> Result<Value> {
    let found = namespace.api::<ConfigMap>().get(name).await?;
    Ok(serde_json::to_value(found)?)
}

/// What a release left, as if it had been left here and now.
fn read(release: &Path, namespace: &Namespace) -> Left {
    let text = fs::read_to_string(release.join(OBJECTS_FILE)).unwrap();
    let left: Left = serde_json::from_str(&text).unwrap();
    let text = moved(&text, Timestamp::now().duration_since(left.recorded));
    let there = |end: char| {
        (
            format!("{}{end}", left.namespace),
            format!("{}{end}", namespace.name()),
        )
    };
    // As a value of its own, and before the name of an object in it.
    let text = ['"', '/'].into_iter().fold(text, |text, end| {
        let (before, now) = there(end);
        text.replace(&before, &now)
    });
    serde_json::from_str(&text).unwrap()
}

/// The same text with every time in it later by this much: those of Kubernetes and of documents, and the milliseconds of memory.
fn moved(text: &str, by: SignedDuration) -> String {
    let times = Regex::new(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z").unwrap();
    let text = times.replace_all(text, |found: &Captures<'_>| {
        let time: Timestamp = found[0].parse().unwrap();
        let digits = found.get(1).map_or(0, |fraction| fraction.as_str().len() - 1);
        format!("{:.digits$}", time + by)
    });
    let millis = Regex::new(r"\b1\d{12}\b").unwrap();
    let text = millis.replace_all(&text, |found: &Captures<'_>| {
        let time: i128 = found[0].parse().unwrap();
        (time + by.as_millis()).to_string()
    });
    text.into_owned()
}

#[test]
fn times_are_moved_in_every_form() {
    let text = r#"{"a": "2026-01-01T00:00:00Z", "b": "{\"at\":1767225600000,\"until\":\"2026-01-01T00:00:00.250Z\"}"}"#;
    let hour_later = r#"{"a": "2026-01-01T01:00:00Z", "b": "{\"at\":1767229200000,\"until\":\"2026-01-01T01:00:00.250Z\"}"}"#;
    assert_eq!(moved(text, SignedDuration::from_hours(1)), hour_later);
}

/// Stores the objects, and returns the ConfigMaps as they are then.
async fn store(namespace: &Namespace, left: &Left) -> Vec<Value> {
    let mut config_maps = serde_json::to_string(&left.config_maps).unwrap();
    for policy in &left.policies {
        namespace.apply(&created(policy).to_string()).await.unwrap();
        let mut live = namespace.policy(name_of(policy)).await.unwrap();
        config_maps = config_maps.replace(uid(policy), uid(&live));
        live["status"] = policy["status"].clone();
        namespace.replace_status(&live.to_string()).await.unwrap();
    }
    let config_maps: Vec<Value> = serde_json::from_str(&config_maps).unwrap();
    let mut stored = Vec::new();
    for config_map in config_maps {
        namespace
            .create_as("hedgerow", &created(&config_map).to_string())
            .await
            .unwrap();
        stored.push(self::config_map(namespace, name_of(&config_map)).await.unwrap());
    }
    stored
}

/// An object as one creates it.
fn created(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "generation", "creationTimestamp"] {
        metadata.remove(field);
    }
    object
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

/// Not a test by itself: keeps what this version stores, once, when it is released.
#[tokio::test]
#[ignore = "writes into the repository"]
async fn record_this_release() {
    let scene = Scene::start("release").await;
    let named = |name: &str| with(policy(name), "/spec/publish/0/configMap", json!(name));
    let mut others = named("tuned");
    others["spec"]["publish"].as_array_mut().unwrap().extend([
        json!({ "configMap": "others", "key": "sc.json", "format": "GrpcServiceConfig",
            "targets": [{ "name": "shard-read", "grpcServiceConfig": { "service": "search.Shard", "method": "Read" } }] }),
        json!({ "configMap": "others", "key": "kb.properties", "format": "Properties",
            "targets": [{ "name": "shard-read", "properties": { "prefix": "kb" } }] }),
    ]);
    scene.apply(&others).await;
    scene
        .apply(&with(
            named("stopped"),
            "/metadata/annotations",
            json!({ "hedgerow.dev/off": "drill" }),
        ))
        .await;
    let loaded = json!({ "name": "queue", "metric": "shard_queue_depth", "matchLabels": { "index": "kb" }, "offAbove": "1" });
    scene
        .apply(&with(
            named("saturated"),
            "/spec/targets/0/saturation/signals/0",
            loaded,
        ))
        .await;
    for (name, reason) in [
        ("tuned", "Tuned"),
        ("stopped", "Stopped"),
        ("saturated", "Saturated"),
    ] {
        let says = async || {
            let document = document(&scene.namespace, name, KEY).await?;
            ensure!(document["reason"] == reason, "it says {document}");
            Ok(())
        };
        eventually(&format!("{name} is {reason}"), SOON, says)
            .await
            .unwrap();
        scene.condition(name, "SignalsAvailable", "True", "Fresh").await;
    }
    let folder = releases().join(concat!(
        env!("CARGO_PKG_VERSION_MAJOR"),
        ".",
        env!("CARGO_PKG_VERSION_MINOR")
    ));
    fs::create_dir_all(&folder).unwrap();
    fs::copy(
        repository().join("crds").join(format!("{CRD}.yaml")),
        folder.join(CRD_FILE),
    )
    .unwrap();
    let all = async |kind: &str, selector: &str| -> Vec<Value> {
        let found = scene
            .namespace
            .kubectl(&["get", kind, "-l", selector, "-o", "json"])
            .await
            .unwrap();
        let mut list: Value = serde_json::from_str(&found).unwrap();
        serde_json::from_value(list["items"].take()).unwrap()
    };
    let config_maps = all("configmaps", "hedgerow.dev/role=output").await;
    let instance = config_maps[0]["metadata"]["annotations"]["hedgerow.dev/instance"].as_str();
    let left = Left {
        recorded: Timestamp::now(),
        instance: instance.unwrap().to_owned(),
        namespace: scene.namespace.name().to_owned(),
        policies: all("hp", "").await,
        config_maps,
    };
    let text = serde_json::to_string_pretty(&left).unwrap();
    fs::write(folder.join(OBJECTS_FILE), text + "\n").unwrap();
}
