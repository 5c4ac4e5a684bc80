//! Policies brought to what they shall be.

use std::time::Duration;

use anyhow::ensure;
use hedgerow::cluster::{Lane, Outcome, Work};
use hedgerow_api::HedgePolicy;
use hedgerow_tests::{Namespace, eventually};
use hedgerow_tuner::Reason;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::scene::{
    CONFIG_MAP, KEY, NOW, PATIENCE, View, control_plane, desired, document, namespace, policy,
    remembers_hedging, stage,
};

#[tokio::test]
async fn whatever_switches_clients_off_that_may_hedge_goes_first() {
    let (namespace, owner, view) = stage("lanes").await;
    let reconciler = view.reconciler();
    let goes = async |lane: Lane, why: &str| {
        view.sees(why, |_| reconciler.lane(&owner.policy) == lane).await;
    };
    let patch = async |patch: Value| {
        let patch = patch.to_string();
        namespace
            .kubectl(&["patch", "hedgepolicy", "kb", "--type=merge", "-p", &patch])
            .await
            .unwrap();
    };
    patch(json!({ "spec": { "mode": "Disabled" } })).await;
    view.sees("the edit", |view| {
        view.policies
            .get(&owner.policy)
            .is_some_and(|entry| entry.generation == 2)
    })
    .await;
    assert_eq!(
        reconciler.lane(&owner.policy),
        Lane::Document,
        "nobody hedges by it"
    );
    patch(json!({ "spec": { "mode": "Enforce" } })).await;

    let mut wanted = desired(&owner, 512.0);
    wanted.memory.insert("shard-read".to_owned(), remembers_hedging());
    view.publisher.publish(&wanted, NOW).await.unwrap();
    view.caught_up(&namespace, CONFIG_MAP).await;
    goes(Lane::Document, "it goes on as before").await;

    let output =
        |config_map| json!([{ "configMap": config_map, "key": KEY, "targets": [{ "name": "shard-read" }] }]);
    for (off, on) in [
        (
            json!({ "spec": { "mode": "Disabled" } }),
            json!({ "spec": { "mode": "Enforce" } }),
        ),
        (
            json!({ "spec": { "mode": "Observe" } }),
            json!({ "spec": { "mode": "Enforce" } }),
        ),
        (
            json!({ "spec": { "source": "undeclared" } }),
            json!({ "spec": { "source": "default" } }),
        ),
        (
            json!({ "metadata": { "annotations": { "hedgerow.dev/off": "drill" } } }),
            json!({ "metadata": { "annotations": { "hedgerow.dev/off": null } } }),
        ),
        (
            json!({ "spec": { "publish": output("other") } }),
            json!({ "spec": { "publish": output(CONFIG_MAP) } }),
        ),
    ] {
        let what = off.to_string();
        patch(off).await;
        goes(Lane::Safe, &what).await;
        patch(on).await;
        goes(Lane::Document, "it is as before").await;
    }

    namespace.kubectl(&["delete", "hedgepolicy", "kb"]).await.unwrap();
    goes(Lane::Safe, "it is gone, and its documents are not").await;
    view.publisher.release(&wanted.name, &owner, NOW).await.unwrap();
    goes(Lane::Document, "they are off").await;
}

#[tokio::test]
async fn a_younger_policy_is_refused_at_once_when_an_older_one_grows_and_accepted_when_it_shrinks() {
    let namespace = namespace("crowded").await;
    let with_targets = |name: &str, targets: usize| {
        let mut policy = policy(name);
        policy["spec"]["targets"] = (0..targets)
            .map(|number| {
                let mut target = policy["spec"]["targets"][0].clone();
                target["name"] = format!("t-{number}").into();
                target
            })
            .collect();
        policy["spec"]["publish"] = (0..targets)
            .map(|number| json!({ "configMap": name, "key": format!("k-{number}"), "targets": [{ "name": format!("t-{number}") }] }))
            .collect();
        policy.to_string()
    };
    namespace.apply(&with_targets("a-older", 1)).await.unwrap();
    namespace.apply(&with_targets("b-younger", 1)).await.unwrap();
    let view = View::of(&namespace).await;
    let reconciler = view.reconciler();
    // As the operator does: whatever is told to have changed is reconciled, and nothing else.
    let says = async |reason: Reason| {
        let probe = async || {
            if let Ok(changed) = timeout(Duration::from_millis(50), view.changes.take()).await {
                for policy in changed {
                    let work = Work {
                        lane: reconciler.lane(&policy),
                        policy,
                    };
                    ensure!(reconciler.reconcile(&work).await == Outcome::Done, "not written");
                }
            }
            let live = namespace.api::<ConfigMap>().get("b-younger").await?;
            let says = document(&live, "k-0").map(|document| document.reason);
            ensure!(says.as_deref() == Some(reason.as_str()), "it says {says:?}");
            Ok(())
        };
        eventually(&format!("the younger says {reason}"), PATIENCE, probe)
            .await
            .unwrap();
    };

    says(Reason::WarmingUp).await;
    namespace.apply(&with_targets("a-older", 2)).await.unwrap();
    says(Reason::SourceNotAvailable).await;
    namespace
        .kubectl(&["delete", "hedgepolicy", "a-older"])
        .await
        .unwrap();
    says(Reason::WarmingUp).await;
}

/// Every write of this ConfigMap waits for a webhook that never answers.
async fn hang(namespace: &Namespace, config_map: &str) -> TcpListener {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": namespace.name() },
        "webhooks": [{
            "name": "silent.example.com", "timeoutSeconds": 30, "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "url": format!("https://{}/", silent.local_addr().unwrap()) },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"] }],
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace.name() } },
            "matchConditions": [{ "name": "name", "expression": format!("object.metadata.name == '{config_map}'") }],
        }],
    });
    let kubectl = control_plane().await.kubectl().unwrap();
    kubectl.apply(&webhook.to_string()).await.unwrap();
    let mut any = ConfigMap::default();
    any.metadata.name = Some(config_map.to_owned());
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("the webhook is asked", PATIENCE, async || {
        let config_maps = namespace.api::<ConfigMap>();
        let write = config_maps.create(&dry_run, &any);
        ensure!(timeout(Duration::from_secs(2), write).await.is_err(), "not yet");
        Ok(())
    })
    .await
    .unwrap();
    silent
}

#[tokio::test]
async fn a_config_map_that_is_not_answered_keeps_no_other_of_its_policy_waiting() {
    let namespace = namespace("silent").await;
    let mut two = policy("kb");
    let output =
        |config_map| json!({ "configMap": config_map, "key": KEY, "targets": [{ "name": "shard-read" }] });
    two["spec"]["publish"] = json!([output("a-silent"), output("b-answered")]);
    namespace.apply(&two.to_string()).await.unwrap();
    let _silent = hang(&namespace, "a-silent").await;
    let view = View::of(&namespace).await;
    let reconciler = view.reconciler();
    let work = Work {
        policy: view.policies.keys().remove(0),
        lane: Lane::Document,
    };

    let mut reconciled = std::pin::pin!(reconciler.reconcile(&work));
    let written = eventually("the other is written", PATIENCE, async || {
        Ok(namespace.api::<ConfigMap>().get("b-answered").await?)
    });
    tokio::select! {
        biased;
        _ = &mut reconciled => panic!("it ended before the other was written"),
        written = written => drop(written.unwrap()),
    }
    let metrics = reconciler.metrics.open_metrics();
    let failed = |line: &&str| line.starts_with("hedgerow_publish_errors_total{") && !line.ends_with(" 0");
    assert_eq!(metrics.lines().find(failed), None, "it waited");

    assert_eq!(reconciled.await, Outcome::Retry);
    let live = namespace.api::<HedgePolicy>().get("kb").await.unwrap();
    let ready = live.status.unwrap().conditions;
    let ready = ready.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert!(ready.message.contains("a-silent"), "{}", ready.message);
}
