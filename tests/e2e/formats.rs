//! Documents in the formats of other systems.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use hedgerow_tests::{eventually, steadily};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;

use crate::policy::{policy, with};
use crate::scene::{SOON, Scene};

const ENVOY: &str = "kb-envoy";
const OTHERS: &str = "kb-others";
const MANUAL: &str = "kb-manual";
const BASE: &str = "kb-envoy-base";
const ROUTES: &str = "rds.yaml";
const OFF_ROUTES: &str = "rds.yaml.base";

/// Several evaluations long.
const A_WHILE: Duration = Duration::from_secs(10);

/// The routes of a person's own, to the cluster `kb`, with this timeout.
fn routes(timeout: &str) -> String {
    format!(
        "# ours
resources:
- \"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: hedged_routes
  virtual_hosts:
  - name: search
    domains: [\"*\"]
    routes:
    - match: {{ prefix: /search }}
      route: {{ cluster: kb, timeout: {timeout} }}
"
    )
}

/// The ConfigMap with that text and those labels.
fn config_map(text: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": BASE, "labels": labels }, "data": { ROUTES: text },
    })
}

/// The ConfigMap with [`routes`].
pub(crate) fn base(timeout: &str, labels: &Value) -> Value {
    config_map(&routes(timeout), labels)
}

async fn give_base(scene: &Scene, text: &str, labels: Value) {
    let base = config_map(text, &labels);
    scene.namespace.apply(&base.to_string()).await.unwrap();
}

/// By these its owner agrees.
pub(crate) fn agreed() -> Value {
    json!({ "hedgerow.dev/role": "base" })
}

/// An output of that format with its block.
fn output(config_map: &str, key: &str, format: &str, block: Value) -> Value {
    let mut target = json!({ "name": "shard-read" });
    if let (Some(target), Some(block)) = (target.as_object_mut(), block.as_object()) {
        target.extend(block.clone());
    }
    json!({ "configMap": config_map, "key": key, "format": format, "targets": [target] })
}

/// An output over [`base`].
pub(crate) fn envoy() -> Value {
    let output = output(
        ENVOY,
        ROUTES,
        "EnvoyRoute",
        json!({ "envoyRoute": { "cluster": "kb" } }),
    );
    with(output, "/base", json!({ "configMap": BASE, "key": ROUTES }))
}

/// A policy that publishes to these outputs beside its native document.
pub(crate) fn publishing(outputs: &[Value]) -> Value {
    let mut policy = policy("kb");
    policy["spec"]["publish"]
        .as_array_mut()
        .expect("a list")
        .extend_from_slice(outputs);
    policy
}

/// Every other format, each with what only its document of a hedged target says.
fn others() -> Vec<(Value, &'static str)> {
    let live = |key, format, block, on| (output(OTHERS, key, format, block), on);
    let manual = |key, format, block, on| {
        let output = output(MANUAL, key, format, block);
        (with(output, "/manualOff", json!("Accepted")), on)
    };
    let method = json!({ "grpcServiceConfig": { "service": "search.Shard", "method": "Read" } });
    let kitex = json!({ "kitex": { "client": "front", "server": "search", "method": "Read" } });
    let table = json!({ "cassandra": { "keyspace": "kb", "table": "articles" } });
    let client = json!({ "dotnetHedging": { "client": "search" } });
    vec![
        live("sc.json", "GrpcServiceConfig", method, "hedgingDelay"),
        live("net.json", "DotnetHedging", client, "\"00:00:00."),
        live("kitex.json", "Kitex", kitex, "\"enable\": true"),
        live("kb.properties", "Properties", json!({}), "enabled=true"),
        manual(
            "driver.conf",
            "DataStax",
            json!({}),
            "ConstantSpeculativeExecutionPolicy",
        ),
        manual("reads.cql", "Cassandra", table, "ms'"),
        manual("hdfs.xml", "Hdfs", json!({}), "threshold.millis"),
        manual("loki.yaml", "Loki", json!({}), "up_to: 2"),
        manual("tempo.yaml", "Tempo", json!({}), "hedge_requests_up_to: 2"),
    ]
}

async fn data(scene: &Scene, config_map: &str) -> Result<BTreeMap<String, String>> {
    let found = scene.namespace.api::<ConfigMap>().get_opt(config_map).await?;
    let found = found.with_context(|| format!("no ConfigMap {config_map}"))?;
    Ok(found.data.unwrap_or_default())
}

/// Waits until the routes hedge, or do not.
async fn routes_hedge(scene: &Scene, hedge: bool) -> BTreeMap<String, String> {
    let what = format!("the routes hedge: {hedge}");
    eventually(&what, SOON, async || {
        let data = data(scene, ENVOY).await?;
        let text = data.get(ROUTES).context("no routes")?;
        ensure!(
            text.contains("hedge_on_per_try_timeout") == hedge,
            "they are {text}"
        );
        Ok(data)
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", scene.operator.log_tail()))
}

/// A scene whose routes hedge.
async fn hedged(name: &str) -> Scene {
    let scene = Scene::start(name).await;
    give_base(&scene, &routes("1s"), agreed()).await;
    scene.apply(&publishing(&[envoy()])).await;
    scene.reason("Tuned").await;
    routes_hedge(&scene, true).await;
    scene
}

#[tokio::test]
async fn every_format_is_published_on_off_and_changed() {
    let scene = Scene::start("formats").await;
    let (outputs, marks): (Vec<Value>, Vec<&str>) = others().into_iter().unzip();
    scene.apply(&publishing(&outputs)).await;
    scene.reason("Tuned").await;
    let texts = async |on: bool| {
        eventually(&format!("every document is on: {on}"), SOON, async || {
            let mut all = data(&scene, OTHERS).await?;
            all.extend(data(&scene, MANUAL).await?);
            for (output, mark) in outputs.iter().zip(&marks) {
                let key = output["key"].as_str().unwrap_or_default();
                let text = all.get(key).with_context(|| format!("no {key}"))?;
                ensure!(text.contains(mark) == on, "{key} is {text}");
            }
            Ok(all)
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", scene.operator.log_tail()))
    };
    let before = texts(true).await;

    let told = scene.policy("kb").await.unwrap()["status"]["outputs"].clone();
    let of = |key: &str| {
        let all = told.as_array().into_iter().flatten();
        all.clone()
            .find(|output| output["key"] == key)
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(
        (&of("sc.json")["delivery"], &of("sc.json")["expires"]),
        (&json!("Live"), &json!(false))
    );
    assert_eq!(of("sc.json")["budget"], "ByClient");
    assert_eq!(
        (&of("hdfs.xml")["delivery"], &of("hdfs.xml")["state"]),
        (&json!("Manual"), &json!("Published"))
    );
    assert!(
        of("hdfs.xml")["message"]
            .as_str()
            .is_some_and(|message| message.contains("restart")),
        "{told}"
    );

    scene.service.slowness(1.5);
    eventually("every document says the new delay", SOON * 2, async || {
        let mut all = data(&scene, OTHERS).await?;
        all.extend(data(&scene, MANUAL).await?);
        for output in &outputs {
            let key = output["key"].as_str().unwrap_or_default();
            ensure!(all.get(key) != before.get(key), "{key} is as before");
        }
        Ok(())
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", scene.operator.log_tail()));

    scene.service.queue(80.0);
    scene.reason("Saturated").await;
    texts(false).await;
}

#[tokio::test]
async fn a_deleted_base_keeps_nobody_from_being_switched_off() {
    let scene = hedged("base-deleted").await;
    scene
        .namespace
        .kubectl(&["delete", "configmap", BASE])
        .await
        .unwrap();
    scene.condition("kb", "Published", "False", "BaseMissing").await;
    scene.condition("kb", "Stalled", "True", "BaseMissing").await;
    routes_hedge(&scene, true).await;
    scene.service.queue(80.0);
    scene.reason("Saturated").await;
    let off = routes_hedge(&scene, false).await;
    assert_eq!((&off[ROUTES], &off[OFF_ROUTES]), (&routes("1s"), &routes("1s")));
}

#[tokio::test]
async fn a_base_that_cannot_be_used_is_named_with_its_place_and_orders_go_on() {
    let scene = hedged("base-bad").await;
    let before = data(&scene, ENVOY).await.unwrap();
    let elsewhere = routes("1s").replace("cluster: kb", "cluster: other");
    let hedges_itself = routes("1s").replace(
        "timeout: 1s",
        "timeout: 1s, hedge_policy: { hedge_on_per_try_timeout: true }",
    );
    for (bad, place) in [
        ("resources: [", ""),
        (&*elsewhere, "resources"),
        (&*hedges_itself, "virtual_hosts[0].routes[0]"),
    ] {
        give_base(&scene, bad, agreed()).await;
        eventually("the place is named", SOON, async || {
            let message = scene.condition("kb", "Published", "False", "BaseInvalid").await;
            ensure!(
                message.contains(BASE) && message.contains(place),
                "it says {message}"
            );
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(data(&scene, ENVOY).await.unwrap(), before);
    }
    give_base(&scene, &routes("2s"), json!({ "hedgerow.dev/role": null })).await;
    scene
        .condition("kb", "Published", "False", "BaseNotLabelled")
        .await;
    assert_eq!(data(&scene, ENVOY).await.unwrap(), before);

    give_base(&scene, &routes("2s"), agreed()).await;
    scene.condition("kb", "Published", "True", "Published").await;
    let after = routes_hedge(&scene, true).await;
    assert!(after[ROUTES].contains("2s"), "{}", after[ROUTES]);
    assert_eq!(after[OFF_ROUTES], routes("2s"));
}

#[tokio::test]
async fn without_a_base_the_other_documents_are_published() {
    let scene = Scene::start("base-none").await;
    let properties = output(OTHERS, "kb.properties", "Properties", json!({}));
    scene.apply(&publishing(&[envoy(), properties])).await;
    let message = scene.condition("kb", "Published", "False", "BaseMissing").await;
    assert!(message.contains(BASE), "{message}");
    scene.reason("Tuned").await;
    assert!(data(&scene, OTHERS).await.unwrap().contains_key("kb.properties"));
    data(&scene, ENVOY).await.unwrap_err();

    // Its clients come to hedging late, and by the ramp: the others go back with them.
    give_base(&scene, &routes("1s"), agreed()).await;
    routes_hedge(&scene, true).await;
    let history = scene.history();
    let ramping = history
        .iter()
        .filter(|document| document["budget"]["percent"] == 2.5);
    assert_eq!(ramping.count(), 2, "{history:?}");
}

#[tokio::test]
async fn a_policy_that_goes_leaves_its_documents_off_and_one_that_comes_takes_them_back() {
    let scene = hedged("released").await;
    scene.namespace.kubectl(&["delete", "hp", "kb"]).await.unwrap();
    let off = routes_hedge(&scene, false).await;
    assert_eq!(off[ROUTES], routes("1s"));
    let live = scene.namespace.api::<ConfigMap>().get(ENVOY).await.unwrap();
    assert!(
        live.metadata
            .annotations
            .unwrap()
            .contains_key("hedgerow.dev/released")
    );
    steadily("it is left", A_WHILE, async || {
        data(&scene, ENVOY).await?;
        Ok(())
    })
    .await
    .unwrap();

    scene.apply(&publishing(&[envoy()])).await;
    routes_hedge(&scene, true).await;
    let live = scene.namespace.api::<ConfigMap>().get(ENVOY).await.unwrap();
    assert!(
        !live
            .metadata
            .annotations
            .unwrap()
            .contains_key("hedgerow.dev/released")
    );

    // An output that leaves the spec ends likewise.
    scene.apply(&policy("kb")).await;
    assert_eq!(routes_hedge(&scene, false).await[ROUTES], routes("1s"));
}

#[tokio::test]
async fn a_policy_that_went_while_no_operator_ran_leaves_its_documents_off() {
    let mut scene = hedged("orphan").await;
    scene.operator.kill().unwrap();
    scene.namespace.kubectl(&["delete", "hp", "kb"]).await.unwrap();
    scene
        .namespace
        .kubectl(&["delete", "configmap", BASE])
        .await
        .unwrap();
    scene.operator.start().await.unwrap();
    assert_eq!(routes_hedge(&scene, false).await[ROUTES], routes("1s"));
}

#[tokio::test]
async fn neither_a_restart_nor_a_kill_changes_a_document_of_another_format() {
    let mut scene = hedged("formats-restart").await;
    scene.condition("kb", "HedgingDisabled", "False", "Hedging").await;
    let before = scene.namespace.api::<ConfigMap>().get(ENVOY).await.unwrap();
    scene.operator.stop().await.unwrap();
    scene.operator.start().await.unwrap();
    unchanged(&scene, &before).await;
    scene.operator.kill().unwrap();
    scene.operator.start().await.unwrap();
    unchanged(&scene, &before).await;
}

/// The ConfigMap stays as it is while the operator evaluates.
async fn unchanged(scene: &Scene, before: &ConfigMap) {
    steadily("nothing is written", A_WHILE, async || {
        let now = scene.namespace.api::<ConfigMap>().get(ENVOY).await?;
        ensure!(now.data == before.data, "it is {now:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn edits_of_a_document_and_of_its_base_in_it_are_put_back() {
    let scene = hedged("formats-edited").await;
    let before = data(&scene, ENVOY).await.unwrap();
    for key in [ROUTES, OFF_ROUTES] {
        let edit = json!({ "data": { key: "resources: []" } });
        let maps = scene.namespace.api::<ConfigMap>();
        maps.patch(ENVOY, &PatchParams::default(), &Patch::Merge(&edit))
            .await
            .unwrap();
        eventually("it is put back", SOON, async || {
            let now = data(&scene, ENVOY).await?;
            ensure!(now == before, "it is {now:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
}
