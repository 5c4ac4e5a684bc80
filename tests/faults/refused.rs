//! Namespaces in which nothing may be written. One operator serves them all, and one in which all is well.

use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use hedgerow_tests::{Namespace, OperatorOptions, eventually, steadily};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::observer::{Observer, tell};
use crate::service::Service;
use crate::shared;
use crate::stage::{SOON, now, policy_of, says};

/// Names, as docs/faults.md has them.
pub(crate) const FAULTS: [&str; 3] = [
    "admission-denies-writes",
    "quota-reached",
    "namespace-terminating",
];

const A_WHILE: Duration = Duration::from_secs(5);

/// No more ConfigMaps than there are. What counts them is a controller; here the test says what it would say.
async fn quota(namespace: &Namespace) {
    let spec = json!({ "hard": { "count/configmaps": "1" } });
    let mut quota =
        json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few" }, "spec": spec });
    namespace.apply(&quota.to_string()).await.unwrap();
    quota["status"] = json!({ "hard": spec["hard"], "used": { "count/configmaps": "1" } });
    namespace.replace_status(&quota.to_string()).await.unwrap();
}

async fn is_refused(namespace: &Namespace) {
    let probe = ["create", "configmap", "probe", "--dry-run=server"];
    eventually("writes are refused", SOON, async || {
        anyhow::ensure!(namespace.kubectl(&probe).await.is_err());
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_refuses_writes_takes_no_other_along() {
    let cluster = shared::cluster().await;
    let home = shared::namespace("refused-operator").await;
    let [denied, full, ending, well] =
        ["denied", "full", "ending", "well"].map(|name| async move { shared::namespace(name).await });
    let (denied, full, ending, well) = (denied.await, full.await, ending.await, well.await);
    let service = Service::start().await;
    let prometheus = service.scraped().await;
    let operator = OperatorOptions::new(cluster, &home, &[&denied, &full, &ending, &well])
        .source(&prometheus.url())
        .start()
        .await
        .unwrap();
    let all = [&denied, &full, &ending, &well];
    for namespace in all {
        namespace.apply(&policy_of("kb").to_string()).await.unwrap();
    }
    join_all(all.map(async |namespace| says(namespace, "kb", &["Tuned"]).await.unwrap())).await;

    let fault = now();
    let rule = denied.refuse_config_maps().await.unwrap();
    quota(&full).await;
    // Its end waits for this one.
    let held = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "held", "finalizers": ["example.com/held"] } });
    ending.apply(&held.to_string()).await.unwrap();
    let kubectl = cluster.kubectl().unwrap();
    kubectl
        .run(&["delete", "namespace", ending.name(), "--wait=false"])
        .await
        .unwrap();
    join_all([&denied, &full, &ending].map(is_refused)).await;
    full.apply(&policy_of("late").to_string()).await.unwrap();
    service.queue(80.0);
    let mut results = Vec::new();
    for namespace in [&well, &full] {
        results.push(says(namespace, "kb", &["Saturated"]).await.map(drop));
    }
    results.push(is_told(&denied, "kb", "Denied").await);
    results.push(is_told(&full, "late", "").await);
    let gone = eventually("a namespace that ends is emptied", SOON, async || {
        let left = ending.api::<ConfigMap>().get_opt("kb").await?;
        anyhow::ensure!(left.is_none(), "{left:?}");
        Ok(())
    });
    results.push(gone.await);
    results.push(
        steadily("a namespace that ends gets nothing new", A_WHILE, async || {
            let late = ending.api::<ConfigMap>().get_opt("kb").await?;
            anyhow::ensure!(late.is_none(), "{late:?}");
            Ok(())
        })
        .await,
    );

    for kind in ["validatingadmissionpolicy", "validatingadmissionpolicybinding"] {
        kubectl.run(&["delete", kind, &rule]).await.unwrap();
    }
    full.kubectl(&["delete", "resourcequota", "few"]).await.unwrap();
    ending
        .kubectl(&[
            "patch",
            "configmap",
            "held",
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":null}}"#,
        ])
        .await
        .unwrap();
    results.push(says(&denied, "kb", &["Saturated"]).await.map(drop));
    let good = now();
    service.queue(3.0);
    for (namespace, name) in [(&denied, "kb"), (&full, "kb"), (&full, "late"), (&well, "kb")] {
        results.push(says(namespace, name, &["Tuned"]).await.map(drop));
    }

    let row = |name: &str, namespace: &Namespace| {
        Observer::of(&cluster.audit(), namespace, "kb").row(name, fault, good)
    };
    let mut rows: Vec<(&str, Result<String>)> = results
        .into_iter()
        .map(|result| {
            (
                "what is expected",
                result
                    .map_err(|error| error.context(operator.log_tail()))
                    .map(|()| "| | | | |".into()),
            )
        })
        .collect();
    rows.retain(|(_, row)| row.is_err());
    for (name, namespace) in FAULTS.iter().zip([&denied, &full, &ending]) {
        rows.push((name, row(name, namespace)));
    }
    rows.push(("the others", row("the others", &well)));
    tell(rows);
}

/// Waits until the policy says that it is not ready, and why (empty: for whatever reason).
async fn is_told(namespace: &Namespace, policy: &str, reason: &str) -> Result<()> {
    eventually(&format!("{policy} is not ready: {reason}"), SOON, async || {
        let text = namespace
            .kubectl(&["get", "hedgepolicies.hedgerow.dev", policy, "-o", "json"])
            .await?;
        let policy: Value = serde_json::from_str(&text)?;
        let conditions = policy["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
        let told = ready.is_some_and(|ready| {
            ready["status"] == "False" && (reason.is_empty() || ready["reason"] == reason)
        });
        anyhow::ensure!(told, "it says {conditions:?}");
        Ok(())
    })
    .await
}
