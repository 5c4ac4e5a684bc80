//! A Kubernetes control plane with Hedgerow installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use hedgerow_tests::{
    Cluster, ClusterOptions, Credentials, Kubectl, Process, Prometheus, eventually, free_port, repository,
    scratch,
};
use serde_json::json;

use crate::{NAMESPACE, program, text};

/// Where the operator lives.
const OPERATOR_NAMESPACE: &str = "hedgerow-system";

/// etcd and kube-apiserver, with the CRD, the operator's RBAC and the front end's. They end when this is dropped.
#[derive(Debug)]
pub struct ControlPlane {
    cluster: Cluster,
    kubectl: Kubectl,
    folder: PathBuf,
}

impl ControlPlane {
    /// Starts it, and installs what a person would. Data and logs are in a new folder for `name`.
    ///
    /// # Errors
    /// When a part is not built or does not come up.
    pub async fn set(name: &str) -> Result<Self> {
        let folder = scratch(name)?;
        let cluster = ClusterOptions::new().start().await?;
        let kubectl = cluster.kubectl()?;
        install(&kubectl).await?;
        Ok(Self {
            cluster,
            kubectl,
            folder,
        })
    }

    /// The cluster.
    pub const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// kubectl as the administrator.
    pub const fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Where data and logs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The credentials of front ends.
    ///
    /// # Errors
    /// When the API server gives none.
    pub async fn front_end(&self) -> Result<Credentials> {
        let file = self.folder.join("front.kubeconfig");
        self.cluster
            .admin()
            .of_service_account(NAMESPACE, "front", file)
            .await
    }

    /// Starts the operator under its own ServiceAccount, with its metrics at this address, and waits until it is ready.
    ///
    /// # Errors
    /// When it is not built, or not ready in time.
    pub async fn operator(&self, prometheus: &Prometheus, metrics: &str) -> Result<Process> {
        let account = self
            .cluster
            .admin()
            .of_service_account(
                OPERATOR_NAMESPACE,
                "hedgerow",
                self.folder.join("operator.kubeconfig"),
            )
            .await?;
        let config = self.folder.join("operator.yaml");
        // JSON is YAML. The front end watches its ConfigMap through the API, which takes well under a second; 2 s leave room.
        let settings = json!({
            "namespace": OPERATOR_NAMESPACE,
            "propagation": "2s",
            "listen": { "address": metrics, "explain": format!("127.0.0.1:{}", free_port()?) },
            "sources": [{ "name": "default", "url": prometheus.url(), "namespaces": [NAMESPACE] }],
        });
        fs::write(&config, settings.to_string())?;
        let mut command = Command::new(program("hedgerow")?);
        command
            .args(["run", "--log-format", "text", "--config"])
            .arg(&config)
            .env("KUBECONFIG", account.kubeconfig());
        let mut operator = Process::spawn("operator", &command, &self.folder.join("operator.log"))?;
        let ready = format!("http://{metrics}/readyz");
        eventually("the operator is ready", Duration::from_secs(20), async || {
            operator.must_run()?;
            reqwest::get(&ready).await?.error_for_status()?;
            Ok(())
        })
        .await?;
        Ok(operator)
    }
}

/// Installs the CRD, the operator's RBAC and the front end's, as a person would.
async fn install(kubectl: &Kubectl) -> Result<()> {
    for namespace in [OPERATOR_NAMESPACE, NAMESPACE] {
        kubectl.run(&["create", "namespace", namespace]).await?;
    }
    for file in [
        "crds/hedgepolicies.hedgerow.dev.yaml",
        "charts/plain/base/rbac.yaml",
        "examples/search-cluster/front-end.yaml",
    ] {
        kubectl
            .run(&["apply", "--server-side", "-f", text(&repository().join(file))?])
            .await?;
    }
    kubectl
        .run(&[
            "wait",
            "--for=condition=Established",
            "crd/hedgepolicies.hedgerow.dev",
        ])
        .await?;
    Ok(())
}
