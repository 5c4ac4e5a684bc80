//! The health of a policy in each phase of its life, as the tools of GitOps see it on the live object.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, ensure};
use hedgerow_tests::{Cluster, Health, Namespace, eventually, repository};
use serde_json::{Value, json};

use crate::policy::{policy, with};
use crate::scene::{SOON, Scene};
use crate::shared::{CRD, install_crd};

/// Has the recorded statuses written anew.
const BLESS: &str = "HEDGEROW_BLESS";

#[tokio::test]
async fn each_phase_has_the_health_that_people_expect() {
    let cluster = Cluster::start().await.unwrap();
    let namespace = cluster.namespace("health").await.unwrap();
    store_what_the_schema_forbids(&cluster, &namespace).await;
    install_crd(&cluster).await;
    let unwatched = cluster.namespace("unwatched").await.unwrap();
    let mut scene = Scene::set(&cluster, namespace, &[]).await;

    let live = live_phases(&mut scene, &unwatched).await;
    if std::env::var_os(BLESS).is_some() {
        record(&live);
    }
    let mut found = BTreeMap::new();
    for (phase, policy) in &live {
        let health = Health::of(policy).await;
        let health = health.unwrap_or_else(|error| panic!("{phase}: {error:#}"));
        found.insert(phase.clone(), health);
    }
    assert_eq!(found, Health::expected().unwrap());
}

/// Takes policies through their phases, and returns each as it was then.
async fn live_phases(scene: &mut Scene, unwatched: &Namespace) -> BTreeMap<String, Value> {
    let mut live = BTreeMap::new();
    unwatched.apply(&of("first").to_string()).await.unwrap();
    live.insert("first".to_owned(), unwatched.policy("first").await.unwrap());

    for name in ["tuned", "saturated", "edited", "held"] {
        scene.apply(&of(name)).await;
    }
    let hedging = ("HedgingDisabled", "False", "Hedging");
    live.insert(
        "tuned".to_owned(),
        phase(scene, "tuned", &[READY, READABLE, hedging]).await,
    );

    let stalled = |reason| [("Stalled", "True", reason), ("Ready", "False", reason)];
    let off = |reason| [READY, READABLE, ("HedgingDisabled", "True", reason)];
    scene
        .apply(&with(
            of("nothing-to-read"),
            "/spec/targets/0/latency/metric",
            json!("absent_seconds"),
        ))
        .await;
    scene
        .apply(&with(
            of("stopped"),
            "/metadata/annotations",
            json!({ "hedgerow.dev/off": "drill" }),
        ))
        .await;
    scene
        .apply(&with(of("disabled"), "/spec/mode", json!("Disabled")))
        .await;
    scene
        .apply(&with(of("observed"), "/spec/mode", json!("Observe")))
        .await;
    scene
        .apply(&with(of("without-source"), "/spec/source", json!("elsewhere")))
        .await;
    scene
        .apply(&with(
            of("conflicted"),
            "/spec/publish/0/configMap",
            json!("tuned"),
        ))
        .await;
    // Kept by a finalizer of somebody else, so that it can be looked at.
    scene
        .apply(&with(
            of("deleted"),
            "/metadata/finalizers",
            json!(["example.com/kept"]),
        ))
        .await;
    let phases: [(&str, &[Said]); 9] = [
        (
            "nothing-to-read",
            &[READY, ("SignalsAvailable", "False", "MetricNotFound")],
        ),
        ("stopped", &off("Stopped")),
        ("disabled", &off("Stopped")),
        ("observed", &off("Observing")),
        ("without-source", &stalled("SourceNotAvailable")),
        ("conflicted", &stalled("Conflicted")),
        ("invalid", &stalled("Invalid")),
        ("not-understood", &stalled("Invalid")),
        ("deleted", &[READY, READABLE, hedging]),
    ];
    for (name, conditions) in phases {
        live.insert(name.to_owned(), phase(scene, name, conditions).await);
    }
    let delete = ["delete", "hp", "deleted", "--wait=false"];
    scene.namespace.kubectl(&delete).await.unwrap();
    live.insert(
        "deleted".to_owned(),
        phase(scene, "deleted", &[READY, READABLE, hedging]).await,
    );

    scene.service.queue(100.0);
    live.insert(
        "saturated".to_owned(),
        phase(scene, "saturated", &off("Saturated")).await,
    );
    scene.service.queue(3.0);
    for name in ["held", "edited"] {
        phase(scene, name, &[READY, hedging]).await;
    }
    scene.prometheus.stop().await.unwrap();
    let unread = ("SignalsAvailable", "False", "SourceFailing");
    live.insert(
        "held".to_owned(),
        phase(scene, "held", &[READY, hedging, unread]).await,
    );

    scene.operator.stop().await.unwrap();
    scene
        .apply(&with(of("edited"), "/spec/mode", json!("Observe")))
        .await;
    live.insert("edited".to_owned(), scene.policy("edited").await.unwrap());
    live
}

/// Type, status and reason of a condition.
type Said = (&'static str, &'static str, &'static str);
const READY: Said = ("Ready", "True", "Published");
/// The stricter way to judge wants it: see docs/gitops.md.
const READABLE: Said = ("SignalsAvailable", "True", "Fresh");

/// A policy with a ConfigMap of its own.
fn of(phase: &str) -> Value {
    with(policy(phase), "/spec/publish/0/configMap", json!(phase))
}

/// Waits until a policy as it is now says all of `conditions`, and returns it.
async fn phase(scene: &Scene, name: &str, conditions: &[Said]) -> Value {
    eventually(&format!("{name} says {conditions:?}"), SOON, async || {
        let policy = scene.policy(name).await?;
        let said = policy["status"]["conditions"]
            .as_array()
            .context("no conditions")?;
        let says = |&(kind, status, reason): &Said| {
            let mut said = said.iter();
            said.any(|said| said["type"] == kind && said["status"] == status && said["reason"] == reason)
        };
        ensure!(conditions.iter().all(says), "it says {said:?}");
        // Its deletion counts as an edit.
        let (seen, is) = (
            &policy["status"]["observedGeneration"],
            &policy["metadata"]["generation"],
        );
        ensure!(seen == is, "it says so of generation {seen}, and is {is}");
        Ok(policy)
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", scene.operator.log_tail()))
}

/// Stores what an older schema allowed, and what a later version knows and this one does not.
async fn store_what_the_schema_forbids(cluster: &Cluster, namespace: &Namespace) {
    let file = repository().join("crds").join(format!("{CRD}.yaml"));
    let mut lax: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    relax(&mut lax["spec"]["versions"][0]["schema"]);
    let kubectl = cluster.kubectl().unwrap();
    kubectl.apply(&lax.to_string()).await.unwrap();
    kubectl.serves(&["crd", CRD], SOON).await.unwrap();
    kubectl.knows_policies(SOON).await.unwrap();
    let invalid = with(
        of("invalid"),
        "/spec/targets/0/delay",
        json!({ "percentile": "0" }),
    );
    let later = with(of("not-understood"), "/spec/mode", json!("OfALaterVersion"));
    for policy in [invalid, later] {
        namespace.apply(&policy.to_string()).await.unwrap();
    }
}

/// Takes away what a schema forbids, its shape apart.
fn relax(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            // A field may be called so, too.
            if fields.get("enum").is_some_and(Value::is_array) {
                fields.remove("enum");
            }
            fields.values_mut().for_each(relax);
        }
        Value::Array(items) => items.iter_mut().for_each(relax),
        _ => (),
    }
}

fn record(live: &BTreeMap<String, Value>) {
    let folder = repository().join("tests/samples/status");
    fs::create_dir_all(&folder).unwrap();
    for (phase, policy) in live {
        let text = serde_json::to_string_pretty(policy).unwrap();
        fs::write(folder.join(format!("{phase}.json")), text + "\n").unwrap();
    }
}
