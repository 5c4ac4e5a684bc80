//! A release lives: installed, upgraded, rolled back, removed with its policies left, and installed again. With both Helms.

use std::time::Duration;

use anyhow::ensure;
use hedgerow_tests::{Cluster, Helm, HelmVersion, Kubectl, Process, eventually, run_installed};
use serde_json::{Value, json};

use crate::shared::{CRD, established, least, listening, with};

const HOME: &str = "hedgerow-system";
const SOON: Duration = Duration::from_secs(60);

struct Release {
    cluster: Cluster,
    kubectl: Kubectl,
    helm: Helm,
}

impl Release {
    async fn helm(&self, arguments: &[&str], values: &Value) -> String {
        let common = ["--namespace", HOME, "--values", "-"];
        self.helm
            .run(&[arguments, &common].concat(), &values.to_string())
            .await
            .unwrap()
    }

    async fn bare(&self, arguments: &[&str]) -> String {
        self.helm
            .run(&[arguments, &["--namespace", HOME]].concat(), "")
            .await
            .unwrap()
    }

    async fn get(&self, object: &str, path: &str) -> anyhow::Result<String> {
        let path = format!("jsonpath={path}");
        self.kubectl.run(&["-n", HOME, "get", object, "-o", &path]).await
    }

    /// The operator, as the release's pods would run it.
    async fn operator(&self) -> Process {
        let config = self
            .get("configmap/hedgerow", r"{.data.operator\.yaml}")
            .await
            .unwrap();
        run_installed(&self.cluster, HOME, "hedgerow", &config)
            .await
            .unwrap()
    }

    /// The UID of what the policy publishes, once the operator says that this generation of it is ready.
    async fn published(&self, generation: &str) -> String {
        eventually("the policy is ready", SOON, async || {
            let seen = self.get("hedgepolicy/kb", "{.status.observedGeneration}").await?;
            let ready = self
                .get(
                    "hedgepolicy/kb",
                    "{.status.conditions[?(@.type=='Ready')].status}",
                )
                .await?;
            ensure!(
                (seen.as_str(), ready.as_str()) == (generation, "True"),
                "generation {seen}, ready {ready}"
            );
            self.get("configmap/kb-hedging", "{.metadata.uid}").await
        })
        .await
        .unwrap()
    }

    async fn gone(&self, objects: &[&str]) {
        for object in objects {
            let left = self
                .kubectl
                .run(&["-n", HOME, "get", object, "--ignore-not-found", "-o", "name"])
                .await
                .unwrap();
            assert_eq!(left, "", "{object} is left");
        }
    }
}

fn policy(percentile: &str) -> String {
    json!({
        "apiVersion": "hedgerow.dev/v1alpha1", "kind": "HedgePolicy", "metadata": { "name": "kb", "namespace": HOME },
        "spec": {
            "targets": [{
                "name": "read", "idempotent": true, "latency": { "metric": "read_seconds", "measures": "LogicalCall" },
                "delay": { "percentile": percentile },
            }],
            "publish": [{ "configMap": "kb-hedging", "key": "read.json", "targets": [{ "name": "read" }] }],
        },
    })
    .to_string()
}

async fn lives(version: HelmVersion) {
    let cluster = Cluster::start().await.unwrap().with_controllers().unwrap();
    let (kubectl, kubeconfig) = (
        cluster.kubectl().unwrap(),
        cluster.admin().kubeconfig().to_owned(),
    );
    let release = Release {
        cluster,
        kubectl,
        helm: Helm::new(version).unwrap().on(&kubeconfig),
    };
    let values = with(least(), listening());

    let said = release
        .helm(
            &["install", "hedgerow", "charts/hedgerow", "--create-namespace"],
            &values,
        )
        .await;
    assert!(said.contains("helm test hedgerow -n hedgerow-system"), "{said}");
    established(&release.kubectl).await;
    let operator = release.operator().await;
    release.kubectl.apply(&policy("95")).await.unwrap();
    let document = release.published("1").await;

    let checksum = r"{.spec.template.metadata.annotations.checksum/config}";
    let installed = release.get("deployment/hedgerow", checksum).await.unwrap();
    let changed = with(
        values.clone(),
        json!({ "nudge": true, "propagation": "10s", "watchNamespaces": [HOME] }),
    );
    release
        .helm(&["upgrade", "hedgerow", "charts/hedgerow"], &changed)
        .await;
    operator.terminate(SOON).await.unwrap();
    let upgraded = release.get("deployment/hedgerow", checksum).await.unwrap();
    assert_ne!(installed, upgraded, "pods are renewed for another configuration");
    release
        .gone(&[
            "clusterrole/hedgerow-policies",
            "clusterrolebinding/hedgerow-policies",
        ])
        .await;
    let operator = release.operator().await;
    release.kubectl.apply(&policy("96")).await.unwrap();
    assert_eq!(
        release.published("2").await,
        document,
        "the documents outlive an upgrade"
    );
    operator.terminate(SOON).await.unwrap();

    release.bare(&["rollback", "hedgerow", "1"]).await;
    assert_eq!(
        release.get("deployment/hedgerow", checksum).await.unwrap(),
        installed
    );
    release
        .gone(&["role/hedgerow-policies", "role/hedgerow-nudge"])
        .await;
    let operator = release.operator().await;
    release.kubectl.apply(&policy("97")).await.unwrap();
    assert_eq!(release.published("3").await, document, "and a rollback");
    operator.terminate(SOON).await.unwrap();

    let said = release.bare(&["uninstall", "hedgerow"]).await;
    assert!(said.contains(CRD), "it does not tell what is kept: {said}");
    let of_the_release = [
        "deployment/hedgerow",
        "configmap/hedgerow",
        "serviceaccount/hedgerow",
        "role/hedgerow-own",
        "service/hedgerow",
        "clusterrole/hedgerow-policies",
        "clusterrolebinding/hedgerow-policies",
        "clusterrole/hedgerow-policies-edit",
        "poddisruptionbudget/hedgerow",
    ];
    release.gone(&of_the_release).await;
    assert_eq!(
        release
            .get("hedgepolicy/kb", "{.metadata.generation}")
            .await
            .unwrap(),
        "3",
        "policies stay"
    );
    assert_eq!(
        release
            .get("configmap/kb-hedging", "{.metadata.uid}")
            .await
            .unwrap(),
        document,
        "documents stay"
    );

    release
        .helm(&["install", "hedgerow", "charts/hedgerow"], &values)
        .await;
    let _operator = release.operator().await;
    release.kubectl.apply(&policy("98")).await.unwrap();
    assert_eq!(
        release.published("4").await,
        document,
        "a new release takes on what the old one left"
    );
}

#[tokio::test]
async fn a_release_lives_with_helm_3() {
    lives(HelmVersion::V3).await;
}

#[tokio::test]
async fn a_release_lives_with_helm_4() {
    lives(HelmVersion::V4).await;
}
