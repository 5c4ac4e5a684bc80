//! The chart on a node.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{Helm, HelmVersion, Image, Node};

/// A release of the chart with the image that `make node-images` builds, under Pod Security `restricted`.
#[derive(Debug)]
pub struct Release {
    helm: Helm,
}

impl Release {
    /// The namespace that the operator lives in.
    pub const HOME: &str = "hedgerow-system";

    /// Who the operator is in the audit log.
    pub const USER: &str = "system:serviceaccount:hedgerow-system:hedgerow";

    /// Installs it with these values, and waits until both replicas are ready.
    ///
    /// # Errors
    /// When Helm is not built, or says that it cannot be done.
    pub async fn install(node: &Node, version: HelmVersion, values: &Value) -> Result<Self> {
        node.restricted_namespace(Self::HOME).await?;
        let release = Self {
            helm: Helm::new(version)?.on(&node.kubeconfig()),
        };
        release.apply("install", values).await?;
        Ok(release)
    }

    /// Upgrades it to these values, and waits.
    ///
    /// # Errors
    /// When Helm says that it cannot be done.
    pub async fn upgrade(&self, values: &Value) -> Result<()> {
        self.apply("upgrade", values).await
    }

    /// Runs `helm` with these arguments in its namespace, and returns what it printed.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn helm(&self, arguments: &[&str]) -> Result<String> {
        let all = [arguments, &["--namespace", Self::HOME]].concat();
        self.helm.run(&all, "").await
    }

    async fn apply(&self, command: &str, values: &Value) -> Result<()> {
        let image = Image::Operator.name();
        let (repository, tag) = image.rsplit_once(':').context("an image has a tag")?;
        let mut values = values.clone();
        values["image"] = json!({ "repository": repository, "tag": tag });
        let arguments = [
            command,
            "hedgerow",
            "charts/hedgerow",
            "--namespace",
            Self::HOME,
            "--wait",
            "--timeout=3m",
            "--values",
            "-",
        ];
        self.helm.run(&arguments, &values.to_string()).await?;
        Ok(())
    }
}
