//! Helm, and the chart.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::process::Command;

use crate::output::{Output, output_of};
use crate::{Part, part, repository, scratch};

/// Which Helm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelmVersion {
    /// Helm 3, that many still use.
    V3,
    /// Helm 4.
    V4,
}

impl HelmVersion {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V3, Self::V4];
}

/// The real helm, with settings of its own: it neither sees nor changes those of the person who runs the tests.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    home: PathBuf,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// Without a cluster: it renders and lints.
    ///
    /// # Errors
    /// When it is not built.
    pub fn new(version: HelmVersion) -> Result<Self> {
        let program = part(match version {
            HelmVersion::V3 => Part::Helm3,
            HelmVersion::V4 => Part::Helm4,
        })?;
        Ok(Self {
            program,
            home: scratch("helm")?,
            kubeconfig: None,
        })
    }

    /// As the user of `kubeconfig`.
    #[must_use]
    pub fn on(mut self, kubeconfig: &Path) -> Self {
        self.kubeconfig = Some(kubeconfig.to_owned());
        self
    }

    /// The chart's folder.
    pub fn chart() -> PathBuf {
        repository().join("charts/hedgerow")
    }

    /// Runs it with `input` on standard input, and returns what it said, be it a failure.
    ///
    /// # Errors
    /// When it cannot be run at all.
    pub async fn output(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("HOME", &self.home)
            .args(arguments)
            .current_dir(repository());
        match &self.kubeconfig {
            Some(kubeconfig) => command.env("KUBECONFIG", kubeconfig),
            None => command.env("KUBECONFIG", "/nonexistent"),
        };
        output_of(command, input).await
    }

    /// Runs it and returns what it printed.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn run(&self, arguments: &[&str], input: &str) -> Result<String> {
        let output = self.output(arguments, input).await?;
        if !output.success {
            bail!("helm {} failed: {}", arguments.join(" "), output.stderr.trim());
        }
        Ok(output.stdout)
    }

    /// The text of what the chart holds for a release of this name in this namespace, without the hooks.
    ///
    /// # Errors
    /// When it does not render, with what Helm said.
    pub async fn template(&self, release: &str, namespace: &str, values: &Value) -> Result<String> {
        let chart = Self::chart();
        let chart = chart.to_str().context("the chart's path is not UTF-8")?;
        let arguments = [
            "template",
            release,
            chart,
            "--namespace",
            namespace,
            "--no-hooks",
            "--values",
            "-",
        ];
        self.run(&arguments, &values.to_string()).await
    }

    /// The objects of [`template`](Self::template).
    ///
    /// # Errors
    /// When it does not render, with what Helm said.
    pub async fn objects(&self, release: &str, namespace: &str, values: &Value) -> Result<Vec<Value>> {
        objects(&self.template(release, namespace, values).await?)
    }
}

/// The objects in a manifest of several documents.
///
/// # Errors
/// When it is not YAML.
pub fn objects(manifest: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(manifest).context("what was rendered is not YAML")?;
    Ok(documents.into_iter().filter(|object| !object.is_null()).collect())
}
