//! An object that the operator cannot decode, stored before the schema that forbids it.

use anyhow::ensure;
use hedgerow_tests::{Cluster, Mark, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::policy::policy;
use crate::scene::{SOON, Scene};
use crate::shared::{CRD, install_crd};

#[tokio::test]
async fn an_undecodable_policy_does_not_stop_the_others() {
    let cluster = Cluster::start().await.unwrap();
    let kubectl = cluster.kubectl().unwrap();
    kubectl.apply(&permissive_crd().to_string()).await.unwrap();
    kubectl.serves(&["crd", CRD], SOON).await.unwrap();
    kubectl.knows_policies(SOON).await.unwrap();
    let namespace = cluster.namespace("poison").await.unwrap();
    let poison = json!({
        "apiVersion": "hedgerow.dev/v1alpha1", "kind": "HedgePolicy", "metadata": { "name": "a-poison" },
        "spec": { "targets": "none", "publish": [7], "interval": { "seconds": 5 } },
    });
    namespace.apply(&poison.to_string()).await.unwrap();
    install_crd(&cluster).await;

    let scene = Scene::set(&cluster, namespace, &[]).await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    let stored = scene.policy("a-poison").await.unwrap();
    assert_eq!(
        stored["spec"]["targets"], "none",
        "the poison is there all the time"
    );

    let told = format!("update hedgepolicies/status {}/a-poison", scene.namespace.name());
    let writes = scene.writes(Mark::default());
    let tries = writes.iter().filter(|write| **write == told).count();
    assert_eq!(
        tries, 1,
        "a status that the schema refuses is not tried for ever: {writes:#?}"
    );
    eventually("people are told so, once", SOON, async || {
        let events = scene.namespace.api::<Event>().list(&Default::default()).await?;
        let refused = events
            .items
            .iter()
            .filter(|event| event.reason.as_deref() == Some("StatusRefused"));
        ensure!(refused.count() == 1, "there are {:#?}", events.items);
        Ok(())
    })
    .await
    .unwrap();
    a_document_of_the_policy_before_goes_off(&scene).await;
}

/// A policy of that name was deleted, and what nobody can read was put in its place: it will never take over.
async fn a_document_of_the_policy_before_goes_off(scene: &Scene) {
    let namespace = &scene.namespace;
    let written = namespace.api::<ConfigMap>().get("kb-hedging").await.unwrap();
    let instance = &written.metadata.annotations.unwrap()["hedgerow.dev/instance"];
    let left = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "left", "labels": { "hedgerow.dev/role": "output" },
            "annotations": {
                "hedgerow.dev/instance": instance, "hedgerow.dev/policy-uid": "the-policy-before",
                "hedgerow.dev/policy": format!("{}/a-poison", namespace.name()),
            },
        },
        "data": { "rds.yaml": "hedged", "rds.yaml.base": "as it was" },
    });
    let left: ConfigMap = serde_json::from_value(left).unwrap();
    let apply = PatchParams::apply("hedgerow");
    let config_maps = namespace.api::<ConfigMap>();
    config_maps
        .patch("left", &apply, &Patch::Apply(&left))
        .await
        .unwrap();
    eventually("it is off", SOON, async || {
        let live = config_maps.get("left").await?;
        let data = live.data.unwrap_or_default();
        ensure!(data["rds.yaml"] == "as it was", "it is {data:?}");
        Ok(())
    })
    .await
    .unwrap();
}

/// A CRD of the same names that accepts anything.
fn permissive_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": CRD },
        "spec": {
            "group": "hedgerow.dev", "scope": "Namespaced",
            "names": { "kind": "HedgePolicy", "plural": "hedgepolicies", "shortNames": ["hp"] },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}
