//! A person stops hedging, while Prometheus is down.

use anyhow::{Result, ensure};
use hedgerow_tests::{Namespace, OperatorOptions, eventually};
use serde_json::{Value, json};

use crate::policy::{KEY, policy, with};
use crate::scene::{SOON, document};
use crate::service::Service;
use crate::shared;

/// A policy that is published to a ConfigMap of its own name.
fn named(name: &str) -> String {
    with(policy(name), "/spec/publish/0/configMap", json!(name)).to_string()
}

async fn says(namespace: &Namespace, policy: &str, enabled: bool, reason: &str) -> Result<Value> {
    eventually(&format!("{policy} is {reason}"), SOON, async || {
        let document = document(namespace, policy, KEY).await?;
        ensure!(
            document["reason"] == reason && document["enabled"] == enabled,
            "it says {document}"
        );
        Ok(document)
    })
    .await
}

const OFF: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hedgerow-off"}, "data": {"reason": "drill"}}"#;

#[tokio::test]
async fn every_emergency_stop_works_while_prometheus_is_down() {
    let cluster = shared::cluster().await;
    let home = cluster.namespace("stop-operator").await.unwrap();
    let (here, there) = (
        cluster.namespace("here").await.unwrap(),
        cluster.namespace("there").await.unwrap(),
    );
    let service = Service::start().await;
    let mut prometheus = service.scraped().await;
    let _operator = OperatorOptions::new(cluster, &home, &[&here, &there, &home])
        .source(&prometheus.url())
        .start()
        .await
        .unwrap();
    here.apply(&named("a")).await.unwrap();
    here.apply(&named("b")).await.unwrap();
    there.apply(&named("c")).await.unwrap();
    let hedged = [(&here, "a"), (&here, "b"), (&there, "c")];
    for (namespace, policy) in hedged {
        says(namespace, policy, true, "Tuned").await.unwrap();
    }
    prometheus.stop().await.unwrap();

    here.kubectl(&["annotate", "hp", "a", "hedgerow.dev/off=drill"])
        .await
        .unwrap();
    says(&here, "a", false, "Stopped").await.unwrap();
    says(&here, "b", true, "Tuned").await.unwrap();

    here.apply(OFF).await.unwrap();
    says(&here, "b", false, "Stopped").await.unwrap();
    says(&there, "c", true, "Tuned").await.unwrap();

    home.apply(OFF).await.unwrap();
    says(&there, "c", false, "Stopped").await.unwrap();

    prometheus.start().await.unwrap();
    home.kubectl(&["delete", "configmap", "hedgerow-off"])
        .await
        .unwrap();
    here.kubectl(&["delete", "configmap", "hedgerow-off"])
        .await
        .unwrap();
    here.kubectl(&["annotate", "hp", "a", "hedgerow.dev/off-"])
        .await
        .unwrap();
    for (namespace, policy) in hedged {
        says(namespace, policy, true, "Tuned").await.unwrap();
    }
}

#[tokio::test]
async fn a_stop_may_name_its_policies() {
    let scene = crate::scene::Scene::start("named").await;
    for name in ["a", "b"] {
        scene.namespace.apply(&named(name)).await.unwrap();
        says(&scene.namespace, name, true, "Tuned").await.unwrap();
    }
    let off = with(serde_json::from_str(OFF).unwrap(), "/data/policies", json!("a\n"));
    scene.namespace.apply(&off.to_string()).await.unwrap();
    says(&scene.namespace, "a", false, "Stopped").await.unwrap();
    says(&scene.namespace, "b", true, "Tuned").await.unwrap();
}
