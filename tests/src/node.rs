//! A node of this machine, with real pods.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use serde_json::json;

use crate::cluster::client_of;
use crate::scratch::target;
use crate::{Audit, Kubectl, Namespace, Process, eventually, repository, scratch};

/// About 5 s on an idle machine.
const READY_WITHIN: Duration = Duration::from_secs(180);

/// By which `up` says that the machine does not let us.
const REFUSED: i32 = 5;

/// A whole cluster of one node: API server, controllers, scheduler, kubelet, containerd, proxy and DNS, in namespaces of the
/// kernel of its own. Needs root. One at a time; it ends when dropped, and with the process that started it.
#[derive(Debug)]
pub struct Node {
    folder: PathBuf,
    process: Process,
}

/// An image that `make node-images` builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// The operator.
    Operator,
    /// A client that follows a mounted document: `examples/mounted-client`.
    MountedClient,
    /// The search cluster of the demo: `examples/search-cluster`.
    SearchCluster,
    /// Prometheus.
    Prometheus,
}

impl Image {
    const fn program(self) -> &'static str {
        match self {
            Self::Operator => "hedgerow",
            Self::MountedClient => "mounted-client",
            Self::SearchCluster => "search-cluster",
            Self::Prometheus => "prometheus",
        }
    }

    /// What a pod names it.
    pub fn name(self) -> String {
        format!("localhost/{}:dev", self.program())
    }

    /// Its archive.
    ///
    /// # Errors
    /// When it is not built, saying which command does that.
    pub fn archive(self) -> Result<PathBuf> {
        let path = target()
            .join("node-images")
            .join(format!("{}.tar", self.program()));
        ensure!(
            path.is_file(),
            "there is no {}; `make node-images` builds it",
            path.display()
        );
        Ok(path)
    }
}

impl Node {
    /// This machine, as pods reach it. They reach nothing beyond it.
    pub const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 200, 0, 254));

    /// Why this machine cannot have one; `None` when it can.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn refusal() -> Result<Option<String>> {
        let output = script("up")
            .arg("--check")
            .output()
            .context("cannot run tests/node/up")?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match output.status.code() {
            Some(0) => Ok(None),
            Some(REFUSED) => Ok(Some(said)),
            _ => bail!("tests/node/up --check failed: {said}"),
        }
    }

    /// Starts it with these images, and waits until pods can be started.
    ///
    /// # Errors
    /// When the machine refuses, a part or an image is not built, or it is not ready in time.
    pub async fn start(images: &[Image]) -> Result<Self> {
        let folder = scratch("node")?;
        let mut command = script("up");
        command.arg("--foreground").arg(&folder);
        for image in images {
            command.arg(image.archive()?);
        }
        // Where the parts are kept.
        for name in ["HOME", "XDG_CACHE_HOME", "HEDGEROW_PARTS_CACHE", "HEDGEROW_GO"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let process = Process::spawn("node", &command, &folder.join("up.log"))?;
        let mut node = Self { folder, process };
        eventually("the node is ready", READY_WITHIN, async || {
            node.process.must_run()?;
            ensure!(
                node.folder.join("ready").is_file(),
                "see {}",
                node.folder.display()
            );
            Ok(())
        })
        .await?;
        Ok(node)
    }

    /// Where data and logs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// A client of the administrator, for the async runtime that calls this.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub async fn client(&self) -> Result<Client> {
        client_of(&self.kubeconfig()).await
    }

    /// kubectl as the administrator.
    ///
    /// # Errors
    /// When it is not built.
    pub fn kubectl(&self) -> Result<Kubectl> {
        Kubectl::new(&self.kubeconfig())
    }

    /// The audit log.
    pub fn audit(&self) -> Audit {
        Audit::new(&self.folder.join("audit.log"))
    }

    /// A namespace that enforces Pod Security `restricted`; one that is there is kept.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn restricted_namespace(&self, name: &str) -> Result<()> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
        });
        self.kubectl()?.apply(&namespace.to_string()).await?;
        Ok(())
    }

    /// A new namespace, called `name` and a number.
    ///
    /// # Errors
    /// When it cannot be created.
    pub async fn namespace(&self, name: &str) -> Result<Namespace> {
        Namespace::create(self.client().await?, self.kubectl()?, name).await
    }

    /// Starts the search cluster of the demo, under a load of `rate` queries a second, and a Prometheus that scrapes it; in
    /// namespaces under Pod Security `restricted`.
    ///
    /// # Errors
    /// When a manifest is refused.
    pub async fn start_search_cluster(&self, rate: f64) -> Result<()> {
        for namespace in ["helpdesk", "monitoring"] {
            self.restricted_namespace(namespace).await?;
        }
        let kubectl = self.kubectl()?;
        for file in [
            "tests/node/prometheus.yaml",
            "examples/search-cluster/front-end.yaml",
            "examples/search-cluster/pods.yaml",
        ] {
            let manifest = std::fs::read_to_string(repository().join(file))?;
            let manifest = manifest.replace("--rate=50", &format!("--rate={rate}"));
            kubectl.apply(&manifest).await?;
        }
        Ok(())
    }

    /// Gives it another image.
    ///
    /// # Errors
    /// When the archive is not one.
    pub fn import(&self, archive: &Path) -> Result<()> {
        let output = script("import").arg(&self.folder).arg(archive).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "cannot import {}: {said}",
            archive.display()
        );
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Ends its first process, waits for it and removes what outlives it. What fails ends with us.
        let _ = script("down").arg(&self.folder).output();
    }
}

fn script(name: &str) -> Command {
    Command::new(repository().join("tests/node").join(name))
}
