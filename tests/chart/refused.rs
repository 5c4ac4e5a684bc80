//! Values that mean nothing, or nothing good, are refused with what to do about it.

use hedgerow_tests::{Helm, HelmVersion};
use serde_json::{Value, json};

use crate::shared::{least, text, with};

/// What each Helm says to these values, which it must refuse.
async fn refusals(values: &Value) -> Vec<String> {
    let mut said = Vec::new();
    for version in HelmVersion::ALL {
        let helm = Helm::new(version).unwrap();
        let arguments = ["template", "hedgerow", "charts/hedgerow", "-f", "-"];
        let output = helm.output(&arguments, &values.to_string()).await.unwrap();
        assert!(!output.success, "{version:?} takes {values}");
        said.push(output.stderr);
    }
    said
}

async fn refused(values: Value, parts: &[&str]) {
    for said in refusals(&values).await {
        for part in parts {
            assert!(said.contains(part), "{part:?} is not in: {said}");
        }
    }
}

#[tokio::test]
async fn what_has_to_be_said_is_asked_for_with_an_example() {
    let without_image = json!({ "sources": least()["sources"] });
    refused(
        without_image,
        &["image.repository", "make image", "--set image.repository="],
    )
    .await;
    let without_sources = json!({ "image": least()["image"] });
    refused(without_sources, &["sources: declare", "sources[0].url=http://"]).await;
}

#[tokio::test]
async fn a_misspelt_value_is_refused_at_every_depth() {
    for (misspelt, key) in [
        (json!({ "replica": 3 }), "replica"),
        (json!({ "image": { "registry": "x" } }), "registry"),
        (json!({ "leaderElection": { "enable": false } }), "enable"),
        (json!({ "networkPolicy": { "from": [] } }), "from"),
        (json!({ "resources": { "limit": {} } }), "limit"),
        (
            json!({ "topologySpread": [{ "topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "x": 1 }] }),
            "x",
        ),
    ] {
        refused(with(least(), misspelt), &[key]).await;
    }
}

#[tokio::test]
async fn a_misspelt_key_of_a_source_is_refused() {
    for (misspelt, key) in [
        (json!({ "uri": "x" }), "uri"),
        (json!({ "ceilings": { "maxBudget": "20" } }), "maxBudget"),
        (
            json!({ "ca": { "configMap": { "name": "x", "file": "y" } } }),
            "file",
        ),
        (
            json!({ "authentication": { "bearer": { "token": "secret" } } }),
            "token",
        ),
        (
            json!({ "authentication": { "mtls": { "secret": { "name": "x", "key": "y" } } } }),
            "key",
        ),
    ] {
        let mut values = least();
        let source = with(values["sources"][0].clone(), misspelt);
        values["sources"] = json!([source]);
        refused(values, &[key]).await;
    }
}

#[tokio::test]
async fn a_source_that_the_operator_would_refuse_is_refused_here() {
    for wrong in [
        json!({ "namespaces": [] }),
        json!({ "url": "prometheus:9090" }),
        json!({ "timeout": "soon" }),
        json!({ "enforceNamespaceLabel": "a\"}" }),
        json!({ "ceilings": { "maxBudgetPercent": 20 } }),
        json!({ "ca": { "secret": { "name": "a" } }, "caFile": "/b" }),
        json!({ "authentication": {
            "bearer": { "tokenFile": "/t" }, "basic": { "username": "u", "secret": { "name": "p" } },
        } }),
    ] {
        let mut values = least();
        values["sources"] = json!([with(values["sources"][0].clone(), wrong)]);
        refused(values, &["sources"]).await;
    }
}

#[tokio::test]
async fn replicas_that_would_all_write_are_refused() {
    let values = with(least(), json!({ "leaderElection": { "enabled": false } }));
    refused(values, &["replicas: 1"]).await;
}

#[tokio::test]
async fn a_monitor_without_the_service_that_it_selects_is_refused() {
    let values = with(
        least(),
        json!({ "service": { "enabled": false }, "serviceMonitor": { "enabled": true } }),
    );
    refused(values, &["service.enabled: true"]).await;
}

/// A parent chart hands down `global`, and the condition by which it turns us off.
#[tokio::test]
async fn it_can_be_part_of_another_chart() {
    let values = with(
        least(),
        json!({ "global": { "imageRegistry": "x" }, "enabled": true }),
    );
    for version in HelmVersion::ALL {
        Helm::new(version)
            .unwrap()
            .objects("hedgerow", "home", &values)
            .await
            .unwrap();
    }
}

/// Objects of Kubernetes' own types are open, and say so; every other one is closed.
#[test]
fn every_object_of_the_schema_is_closed() {
    let schema: Value = serde_json::from_str(&text("charts/hedgerow/values.schema.json")).unwrap();
    let mut open = Vec::new();
    look_into(&schema, "", &mut open);
    let expected = [
        "affinity",
        "extraEnv/items",
        "extraVolumeMounts/items",
        "extraVolumes/items",
        "global",
        "networkPolicy/egress/items",
        "networkPolicy/metricsFrom/items",
        "resources/claims/items",
        "serviceMonitor/metricRelabelings/items",
        "serviceMonitor/relabelings/items",
        "tolerations/items",
    ];
    assert_eq!(open, expected);
}

fn look_into(schema: &Value, path: &str, open: &mut Vec<String>) {
    let Value::Object(map) = schema else { return };
    if schema["type"] == "object" && !map.contains_key("additionalProperties") {
        assert!(
            schema["description"].is_string(),
            "{path} is open and does not say why"
        );
        open.push(path.to_owned());
    }
    for (key, inner) in map {
        match key.as_str() {
            "properties" | "definitions" => {
                for (name, inner) in inner.as_object().unwrap() {
                    look_into(inner, format!("{path}/{name}").trim_start_matches('/'), open);
                }
            }
            "items" => look_into(inner, &format!("{path}/items"), open),
            _ => {}
        }
    }
}
