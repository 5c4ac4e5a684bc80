//! kubectl.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use tokio::process::Command;

use crate::output::{Output, output_of};
use crate::{Part, eventually, part};

/// The real kubectl, bound to one kubeconfig.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    cache: PathBuf,
    /// Where it looks for plugins.
    plugins: Option<PathBuf>,
}

impl Kubectl {
    /// kubectl as the user of `kubeconfig`.
    ///
    /// # Errors
    /// When kubectl is not built.
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        Ok(Self {
            program: part(Part::Kubectl)?,
            kubeconfig: kubeconfig.to_owned(),
            cache: kubeconfig.with_extension("cache"),
            plugins: None,
        })
    }

    /// The same, which finds plugins in this folder.
    #[must_use]
    pub fn with_plugins(mut self, folder: &Path) -> Self {
        self.plugins = Some(folder.to_owned());
        self
    }

    /// Where it lies.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Runs it and returns what it printed.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        self.succeed(arguments, "").await
    }

    /// Applies a manifest, whose objects say which namespace they are for.
    ///
    /// # Errors
    /// When it is refused, with what kubectl said.
    pub async fn apply(&self, manifest: &str) -> Result<String> {
        self.succeed(&["apply", "--server-side", "-f", "-"], manifest)
            .await
    }

    /// Applies a manifest in a namespace.
    ///
    /// # Errors
    /// When it is refused, with what kubectl said.
    pub async fn apply_in(&self, namespace: &str, manifest: &str) -> Result<String> {
        self.run_in(namespace, &["apply", "--server-side"], manifest)
            .await
    }

    /// Does something in a namespace with the objects of a manifest.
    pub(crate) async fn run_in(&self, namespace: &str, command: &[&str], manifest: &str) -> Result<String> {
        let arguments = [&["--namespace", namespace], command, &["-f", "-"]].concat();
        self.succeed(&arguments, manifest).await
    }

    /// Asks the API server, without storing anything, whether it would take a manifest, unknown fields refused.
    ///
    /// # Errors
    /// When it is refused, with what kubectl said.
    pub async fn try_apply_in(&self, namespace: &str, manifest: &str) -> Result<String> {
        let dry = ["--dry-run=server", "--validate=strict"];
        let arguments = [
            &["--namespace", namespace, "apply", "--server-side"],
            &dry[..],
            &["-f", "-"],
        ];
        self.succeed(&arguments.concat(), manifest).await
    }

    /// Runs it with `input` on standard input, and returns what it said, be it a failure.
    ///
    /// # Errors
    /// When it cannot be run at all.
    pub async fn output(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", &self.cache)
            // Its `diff` runs the one that is there.
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.plugins.iter().map(|folder| ("PATH", folder)))
            .args(arguments);
        output_of(command, input).await
    }

    /// Waits until it knows what a policy is: discovery follows a new CRD by a second or two.
    ///
    /// # Errors
    /// When it does not within that time.
    pub async fn knows_policies(&self, within: Duration) -> Result<()> {
        eventually("the new kind is told of", within, async || {
            let kinds = self.run(&["api-resources", "--api-group=hedgerow.dev"]).await?;
            ensure!(kinds.contains("hedgepolicies"), "it tells of {kinds}");
            Ok(())
        })
        .await
    }

    /// Waits until the API server serves the kinds of this CRD, or of those in a file (`-f FILE`).
    ///
    /// # Errors
    /// When it does not within that time.
    pub async fn serves(&self, crd: &[&str], within: Duration) -> Result<()> {
        let wait = [&["wait", "--for=condition=Established"], crd].concat();
        // `kubectl wait` fails at once where there are no conditions yet.
        let served = eventually("the CRD is established", within, async || self.run(&wait).await);
        served.await.map(|_| ())
    }

    async fn succeed(&self, arguments: &[&str], input: &str) -> Result<String> {
        let output = self.output(arguments, input).await?;
        if !output.success {
            bail!("kubectl {} failed: {}", arguments.join(" "), output.stderr.trim());
        }
        Ok(output.stdout)
    }
}
