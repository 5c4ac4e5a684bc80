//! Objects that are wrong, or too many. One operator serves them all; the policy `kb`, which is well, is to notice nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use futures::{StreamExt as _, stream};
use hedgerow_tests::{Namespace, OperatorOptions, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::observer::{Observer, tell};
use crate::policy::{CONFIG_MAP, KEY, hasty as policy, with};
use crate::scene::{Scene, document};
use crate::service::Service;
use crate::shared;
use crate::stage::{SOON, now, policy_of, says};

/// Names, as docs/faults.md has them.
pub(crate) const FAULTS: [&str; 6] = [
    "objects-of-1-mb",
    "names-at-their-limits",
    "two-policies-swap-config-maps",
    "made-immutable",
    "taken-over",
    "edited-without-a-pause",
];

fn policies(client: Client, namespace: &Namespace) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("hedgerow.dev", "v1alpha1", "HedgePolicy");
    let resource = ApiResource::from_gvk_with_plural(&kind, "hedgepolicies");
    Api::namespaced_with(client, namespace.name(), &resource)
}

async fn stage(name: &str) -> Scene {
    let cluster = shared::cluster().await;
    let (namespace, home) = (
        shared::namespace(name).await,
        shared::namespace(&format!("{name}-operator")).await,
    );
    // A namespace's name may have 63 characters, the number that it is given included.
    let longest = shared::namespace(&"n".repeat(59)).await;
    let service = Service::start().await;
    let prometheus = service.scraped().await;
    let begun = cluster.audit().mark().unwrap();
    let operator = OperatorOptions::new(cluster, &home, &[&namespace, &longest])
        .source(&prometheus.url())
        .set("writesPerSecond", json!(200))
        .start()
        .await
        .unwrap();
    let scene = Scene {
        audit: cluster.audit(),
        begun,
        namespace,
        service,
        prometheus,
        operator,
    };
    scene.apply(&policy("kb")).await;
    says(&scene.namespace, CONFIG_MAP, &["Tuned"]).await.unwrap();
    scene
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_object_makes_hedging_less_safe_or_takes_others_along() {
    let scene = stage("objects").await;
    let pid = scene.operator.pid().unwrap();
    let begun = now();
    let results = tokio::join!(
        large(&scene),
        long_names(&scene),
        swaps(&scene),
        immutable(&scene),
        taken_over(&scene),
        storm(&scene),
    );
    let (a, b, c, d, e, f) = results;
    let mut rows: Vec<(&str, Result<String>)> = FAULTS.into_iter().zip([a, b, c, d, e, f]).collect();
    rows.push(("the others", untouched(&scene, begun)));
    tell(rows);
    assert_eq!(scene.operator.pid().unwrap(), pid);
}

/// The policy that is well was left as it is.
fn untouched(scene: &Scene, begun: k8s_openapi::jiff::Timestamp) -> Result<String> {
    let observer = Observer::of(&scene.audit, &scene.namespace, CONFIG_MAP);
    let (_, meanwhile) = observer.judge(begun, now())?;
    ensure!(meanwhile.is_empty(), "{meanwhile:?}");
    observer.row("the others", begun, now())
}

/// A stop that names another policy in a list of nearly 1 MB, and a policy that carries 250 KB of notes.
async fn large(scene: &Scene) -> Result<String> {
    let others = "another-policy-of-this-namespace\n".repeat(30_000);
    let stop = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "hedgerow-off" },
        "data": { "policies": others } });
    let maps = scene.namespace.api::<ConfigMap>();
    maps.create(&Default::default(), &serde_json::from_value(stop)?)
        .await?;
    let noted = with(
        policy_of("large"),
        "/metadata/annotations",
        json!({ "example.com/notes": "x".repeat(250_000) }),
    );
    let created = policies(shared::cluster().await.client().await?, &scene.namespace);
    created
        .create(&Default::default(), &serde_json::from_value(noted)?)
        .await?;
    says(&scene.namespace, "large", &["Tuned"]).await?;
    maps.delete("hedgerow-off", &Default::default()).await?;
    let observer = Observer::of(&scene.audit, &scene.namespace, "large");
    Ok(format!(
        "| {} | nothing | by the ramp | {} |",
        FAULTS[0],
        last(&observer)?
    ))
}

fn last(observer: &Observer) -> Result<String> {
    let versions = observer.versions();
    for pair in versions.windows(2) {
        ensure!(pair[1].revision > pair[0].revision, "{versions:?}");
    }
    Ok(versions.last().context("nothing was published")?.to_string())
}

async fn long_names(scene: &Scene) -> Result<String> {
    let name = |length: usize| format!("{}z", "a".repeat(length - 1));
    let (policy_name, config_map, key) = (name(253), name(253), name(248));
    let mut long = with(
        policy(&policy_name),
        "/spec/publish/0/configMap",
        json!(config_map),
    );
    long["spec"]["publish"][0]["key"] = json!(key);
    scene.apply(&long).await;
    eventually("it is tuned", SOON, async || {
        let document = document(&scene.namespace, &config_map, &key).await?;
        ensure!(document["reason"] == "Tuned", "{document}");
        Ok(())
    })
    .await?;
    let told = scene.policy(&policy_name).await?;
    ensure!(!told["status"]["conditions"].is_null(), "no status: {told}");
    scene
        .namespace
        .kubectl(&["delete", "hedgepolicies.hedgerow.dev", &policy_name])
        .await?;
    Ok(format!("| {} | nothing | by the ramp | tuned |", FAULTS[1]))
}

/// Two policies that have each other's ConfigMap from now on, over and over.
async fn swaps(scene: &Scene) -> Result<String> {
    let publish = |policy: &str, config_map: &str| {
        with(policy_of(policy), "/spec/publish/0/configMap", json!(config_map))
    };
    scene.apply(&publish("left", "left")).await;
    scene.apply(&publish("right", "right")).await;
    for name in ["left", "right"] {
        says(&scene.namespace, name, &["Tuned"]).await?;
    }
    let fault = now();
    for _ in 0..3 {
        for (left, right) in [("right", "left"), ("left", "right")] {
            scene.apply(&publish("left", left)).await;
            scene.apply(&publish("right", right)).await;
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
    }
    for name in ["left", "right"] {
        let document = says(&scene.namespace, name, &["Tuned"]).await?;
        let owner = format!("{}/{name}", scene.namespace.name());
        ensure!(document["policy"] == owner, "{document}");
    }
    // Whose clients these are changes, and nothing else is wrong: by the ramp, or as it was.
    let mut shown = Vec::new();
    for name in ["left", "right"] {
        for pair in Observer::of(&scene.audit, &scene.namespace, name)
            .versions()
            .windows(2)
        {
            let steps = match (pair[0].hedging, pair[1].hedging) {
                (None, Some((_, percent))) => percent <= 2.5,
                (Some((_, before)), Some((_, after))) => after <= 2.0 * before + 1e-6,
                _ => true,
            };
            ensure!(steps, "not by the ramp: {} then {}", pair[0], pair[1]);
            if pair[1].written > fault {
                shown.push(pair[1].to_string());
            }
        }
    }
    Ok(format!(
        "| {} | tuned, both | {} documents, each by the ramp | tuned, both |",
        FAULTS[2],
        shown.len()
    ))
}

async fn immutable(scene: &Scene) -> Result<String> {
    let name = "fixed";
    scene.apply(&policy_of(name)).await;
    says(&scene.namespace, name, &["Tuned"]).await?;
    let fault = now();
    scene
        .namespace
        .kubectl(&[
            "patch",
            "configmap",
            name,
            "--type=merge",
            "-p",
            r#"{"immutable":true}"#,
        ])
        .await?;
    // A change that cannot be written.
    let off = with(policy_of(name), "/spec/mode", json!("Disabled"));
    scene.apply(&off).await;
    ready_false(scene, name, "Immutable").await?;
    let good = now();
    scene.namespace.kubectl(&["delete", "configmap", name]).await?;
    says(&scene.namespace, name, &["Stopped"]).await?;
    Observer::of(&scene.audit, &scene.namespace, name).row(FAULTS[3], fault, good)
}

/// Somebody puts a ConfigMap of their own in its place, and takes it away again.
async fn taken_over(scene: &Scene) -> Result<String> {
    let name = "taken";
    scene.apply(&policy_of(name)).await;
    says(&scene.namespace, name, &["Tuned"]).await?;
    let fault = now();
    let theirs = json!({ "metadata": {
        "labels": { "hedgerow.dev/role": null },
        "annotations": { "hedgerow.dev/instance": null, "hedgerow.dev/policy": null, "hedgerow.dev/policy-uid": null },
        "ownerReferences": null,
    } });
    let maps = scene.namespace.api::<ConfigMap>();
    maps.patch(name, &PatchParams::default(), &Patch::Merge(&theirs))
        .await?;
    scene
        .apply(&with(policy_of(name), "/spec/mode", json!("Disabled")))
        .await;
    ready_false(scene, name, "NameConflict").await?;
    let good = now();
    maps.delete(name, &Default::default()).await?;
    says(&scene.namespace, name, &["Stopped"]).await?;
    Observer::of(&scene.audit, &scene.namespace, name).row(FAULTS[4], fault, good)
}

async fn ready_false(scene: &Scene, policy: &str, reason: &str) -> Result<()> {
    eventually(&format!("{policy} is not ready: {reason}"), SOON, async || {
        let policy = scene.policy(policy).await?;
        let conditions = policy["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let told = conditions.iter().any(|condition| {
            condition["type"] == "Ready" && condition["status"] == "False" && condition["reason"] == reason
        });
        ensure!(told, "it says {conditions:?}");
        Ok(())
    })
    .await
}

/// A policy whose shortest delay is edited, as fast as the API server takes it: on two cores 3 to 8 times a second, as the CRD is
/// checked each time.
async fn storm(scene: &Scene) -> Result<String> {
    const EDITS: u32 = 200;
    let name = "storm";
    scene.apply(&policy_of(name)).await;
    says(&scene.namespace, name, &["Tuned"]).await?;
    let fault = now();
    let api = policies(shared::cluster().await.client().await?, &scene.namespace);
    let asked = scene.prometheus.queries_answered().await?;
    let begun = Instant::now();
    let edit = async |edit: u32| {
        let edit = json!({ "spec": { "targets": [with_least(1 + edit % 7)] } });
        let edit = Patch::Merge(&edit);
        api.patch(name, &PatchParams::default(), &edit).await.map(drop)
    };
    // As many at once as it takes.
    let edits = stream::iter(1..EDITS).map(edit).buffer_unordered(32);
    for result in edits.collect::<Vec<_>>().await {
        result?;
    }
    edit(0).await?;
    let took = begun.elapsed();
    let asked = scene.prometheus.queries_answered().await? - asked;
    says(&scene.namespace, name, &["Tuned"]).await?;
    let observer = Observer::of(&scene.audit, &scene.namespace, name);
    // Nothing of it was off, and nothing moved: the edits are about what does not bind.
    let (_, meanwhile) = observer.judge(fault, now())?;
    ensure!(u32::try_from(meanwhile.len())? < EDITS / 10, "{meanwhile:?}");
    println!(
        "{EDITS} edits in {took:?}: {asked} queries, {} documents",
        meanwhile.len()
    );
    observer.row(FAULTS[5], fault, now())
}

fn with_least(milliseconds: u32) -> Value {
    let mut target = crate::policy::target("shard-read");
    target["delay"] = json!({ "min": format!("{milliseconds}ms") });
    target
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make test-faults"]
async fn a_thousand_policies_created_and_deleted_at_once_take_no_other_along() {
    const MANY: usize = 1000;
    let scene = stage("thousand").await;
    let begun = now();
    let api = policies(shared::cluster().await.client().await.unwrap(), &scene.namespace);
    let names: Vec<_> = (0..MANY).map(|number| format!("many-{number}")).collect();
    let created = stream::iter(&names).map(async |name| {
        let object = serde_json::from_value(policy_of(name)).unwrap();
        api.create(&Default::default(), &object).await.map(drop)
    });
    for result in created.buffer_unordered(50).collect::<Vec<_>>().await {
        result.unwrap();
    }
    let tuned = Instant::now();
    join_all(
        [&names[0], &names[MANY - 1]]
            .map(async |name| says(&scene.namespace, name, &["Tuned"]).await.unwrap()),
    )
    .await;
    println!(
        "the first and the last of {MANY} are tuned after {:?}",
        tuned.elapsed()
    );
    let deleted =
        stream::iter(&names).map(async |name| api.delete(name, &Default::default()).await.map(drop));
    for result in deleted.buffer_unordered(50).collect::<Vec<_>>().await {
        result.unwrap();
    }
    eventually("their documents are gone", SOON * 3, async || {
        let left = scene
            .namespace
            .api::<ConfigMap>()
            .list_metadata(&Default::default())
            .await?
            .items;
        let left = left.iter().filter(|map| {
            map.metadata
                .name
                .as_ref()
                .is_some_and(|name| name.starts_with("many-"))
        });
        ensure!(left.count() == 0, "some are left");
        Ok(())
    })
    .await
    .unwrap();
    let row = untouched(&scene, begun);
    tell(vec![("1,000 created and deleted", row)]);
    // It still serves the one that is left.
    scene.service.queue(80.0);
    assert_eq!(
        document(&scene.namespace, CONFIG_MAP, KEY).await.unwrap()["policy"],
        format!("{}/kb", scene.namespace.name())
    );
    says(&scene.namespace, CONFIG_MAP, &["Saturated"]).await.unwrap();
}
