//! The control plane.

mod credentials;
mod namespace;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

pub use self::credentials::Credentials;
pub(crate) use self::credentials::client_of;
pub use self::namespace::Namespace;
use crate::audit::POLICY;
use crate::{Audit, Gate, Kubectl, Link, Part, Process, eventually, free_port, http_client, part, scratch};

/// About 3 s on an idle machine.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// etcd and kube-apiserver with RBAC and an audit log, and an administrator's kubeconfig. Stops when dropped.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    url: String,
    etcd_url: String,
    admin: Credentials,
    // Declared in the order in which they are to stop.
    controllers: Option<Process>,
    /// `None` while it was killed.
    api_server: Option<Process>,
    /// `None` while it was killed.
    etcd: Option<Process>,
}

/// How a [`Cluster`] is started.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    folder: Option<PathBuf>,
}

impl ClusterOptions {
    /// A control plane in a folder of the test run, on ports found free.
    #[expect(clippy::new_without_default, reason = "reads better where it is used")]
    pub const fn new() -> Self {
        Self { folder: None }
    }

    /// Keeps data and logs in `folder`.
    #[must_use]
    pub fn folder(mut self, folder: PathBuf) -> Self {
        self.folder = Some(folder);
        self
    }

    /// Starts it, and waits until it is ready.
    ///
    /// # Errors
    /// When a part is not built, or ends, or is not ready in time.
    pub async fn start(self) -> Result<Cluster> {
        let folder = self.folder.map_or_else(|| scratch("cluster"), Ok)?;
        fs::create_dir_all(&folder)?;
        let etcd_url = format!("http://127.0.0.1:{}", free_port()?);
        let url = format!("https://127.0.0.1:{}", free_port()?);
        let admin = Credentials::prepare(&folder, &url)?;
        let etcd = start_etcd(&folder, &etcd_url)?;
        let api_server = start_api_server(&folder, &url, &etcd_url)?;
        let mut cluster = Cluster {
            folder,
            url,
            etcd_url,
            admin,
            controllers: None,
            api_server: Some(api_server),
            etcd: Some(etcd),
        };
        cluster.wait_until_ready().await?;
        Ok(cluster)
    }
}

impl Cluster {
    /// Starts a control plane without controllers.
    ///
    /// # Errors
    /// See [`ClusterOptions::start`].
    pub async fn start() -> Result<Self> {
        ClusterOptions::new().start().await
    }

    /// Adds kube-controller-manager, with the controllers that work without nodes: garbage collection and the removal of
    /// namespaces. A kind of a CRD installed later is collected up to 30 s later, so install CRDs first.
    ///
    /// # Errors
    /// When it is not built or cannot be started.
    pub fn with_controllers(mut self) -> Result<Self> {
        let mut command = Command::new(part(Part::ControllerManager)?);
        command
            .arg(flag("--kubeconfig", self.admin.kubeconfig().display()))
            .arg(flag(
                "--service-account-private-key-file",
                self.folder.join("sa.key").display(),
            ))
            .arg(flag(
                "--root-ca-file",
                self.folder.join("certs/apiserver.crt").display(),
            ))
            .arg("--controllers=garbage-collector-controller,namespace-controller")
            .args(["--leader-elect=false", "--secure-port=0"]);
        self.controllers = Some(Process::spawn(
            "kube-controller-manager",
            &command,
            &self.folder.join("controllers.log"),
        )?);
        Ok(self)
    }

    /// `kill -9` for the API server; etcd keeps what it stored.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill_api_server(&mut self) -> Result<()> {
        self.api_server
            .take()
            .context("the API server does not run")?
            .kill();
        Ok(())
    }

    /// Has etcd forget what was before now, as it does by itself every few minutes: no watch may begin before.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn forget_history(&self) -> Result<()> {
        let http = http_client(Duration::from_secs(10))?;
        let ask = async |path: &str, body: Value| -> Result<Value> {
            let request = http.post(format!("{}/v3/{path}", self.etcd_url)).json(&body);
            Ok(request.send().await?.error_for_status()?.json().await?)
        };
        let status = ask("maintenance/status", json!({})).await?;
        let revision = &status["header"]["revision"];
        ask("kv/compaction", json!({ "revision": revision, "physical": true })).await?;
        Ok(())
    }

    /// Starts the API server again after it was killed, and waits until it is ready.
    ///
    /// # Errors
    /// When it ends, or is not ready in time.
    pub async fn start_api_server(&mut self) -> Result<()> {
        self.api_server = Some(start_api_server(&self.folder, &self.url, &self.etcd_url)?);
        self.wait_until_ready().await
    }

    /// The API server's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where data and logs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The administrator's credentials.
    pub const fn admin(&self) -> &Credentials {
        &self.admin
    }

    /// A client of the administrator, for the async runtime that calls this.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub async fn client(&self) -> Result<Client> {
        self.admin.client().await
    }

    /// kubectl as the administrator.
    ///
    /// # Errors
    /// When it is not built.
    pub fn kubectl(&self) -> Result<Kubectl> {
        Kubectl::new(self.admin.kubeconfig())
    }

    /// The audit log.
    pub fn audit(&self) -> Audit {
        Audit::new(&self.folder.join("audit.log"))
    }

    /// A new namespace, called `name` and a number.
    ///
    /// # Errors
    /// When it cannot be created.
    pub async fn namespace(&self, name: &str) -> Result<Namespace> {
        Namespace::create(self.client().await?, self.kubectl()?, name).await
    }

    /// A way to the API server that a test can break.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn link(&self) -> Result<Link> {
        Link::to(self.url.trim_start_matches("https://").parse()?).await
    }

    /// Leads a gate to the API server.
    ///
    /// # Errors
    /// When its certificate cannot be read.
    pub fn behind(&self, gate: &Gate) -> Result<()> {
        gate.lead_to(
            &self.url,
            Some(&fs::read(self.folder.join("certs/apiserver.crt"))?),
        )
    }

    /// `kill -9` for etcd; what it stored stays.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill_etcd(&mut self) -> Result<()> {
        self.etcd.take().context("etcd does not run")?.kill();
        Ok(())
    }

    /// Starts etcd again after it was killed.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_etcd(&mut self) -> Result<()> {
        self.etcd = Some(start_etcd(&self.folder, &self.etcd_url)?);
        Ok(())
    }

    /// Stores everything in the state of a copy (`keep`) or takes it back: etcd's data as files. etcd must not run.
    ///
    /// # Errors
    /// When it runs, or files cannot be copied.
    pub fn copy_store(&self, keep: bool) -> Result<()> {
        if self.etcd.is_some() {
            bail!("etcd runs");
        }
        let (store, copy) = (self.folder.join("etcd"), self.folder.join("etcd-copy"));
        let (from, to) = if keep { (store, copy) } else { (copy, store) };
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        copy_folder(&from, &to)
    }

    /// The pids of its processes.
    pub fn pids(&self) -> Vec<u32> {
        let controllers = self.controllers.as_ref().map(Process::pid);
        controllers
            .into_iter()
            .chain(self.api_server.as_ref().map(Process::pid))
            .chain(self.etcd.as_ref().map(Process::pid))
            .collect()
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        eventually("the API server is ready", READY_WITHIN, async || {
            self.etcd.as_mut().context("etcd does not run")?.must_run()?;
            let api_server = self.api_server.as_mut().context("the API server does not run")?;
            api_server.must_run()?;
            self.admin.write_kubeconfig()?;
            ready(&self.admin).await.with_context(|| api_server.log_tail())
        })
        .await
    }
}

async fn ready(admin: &Credentials) -> Result<()> {
    let request = Request::get("/readyz").body(Vec::new())?;
    admin.client().await?.request_text(request).await?;
    Ok(())
}

fn start_etcd(folder: &Path, url: &str) -> Result<Process> {
    let peers = format!("http://127.0.0.1:{}", free_port()?);
    let mut command = Command::new(part(Part::Etcd)?);
    command
        .arg(flag("--data-dir", folder.join("etcd").display()))
        .arg(flag("--listen-client-urls", url))
        .arg(flag("--advertise-client-urls", url))
        .arg(flag("--listen-peer-urls", peers))
        // Nothing here must survive the machine.
        .arg("--unsafe-no-fsync")
        .arg("--log-level=warn");
    Process::spawn("etcd", &command, &folder.join("etcd.log"))
}

fn start_api_server(folder: &Path, url: &str, etcd: &str) -> Result<Process> {
    fs::write(folder.join("audit.yaml"), POLICY)?;
    let port = url.rsplit(':').next().unwrap_or_default();
    let mut command = Command::new(part(Part::ApiServer)?);
    command
        .arg(flag("--etcd-servers", etcd))
        .arg(flag("--secure-port", port))
        .args([
            "--bind-address=127.0.0.1",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
        ])
        .arg(flag("--cert-dir", folder.join("certs").display()))
        .arg(flag("--token-auth-file", folder.join("tokens.csv").display()))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(flag(
            "--service-account-key-file",
            folder.join("sa.pub").display(),
        ))
        .arg(flag(
            "--service-account-signing-key-file",
            folder.join("sa.key").display(),
        ))
        .arg(flag("--audit-policy-file", folder.join("audit.yaml").display()))
        .arg(flag("--audit-log-path", folder.join("audit.log").display()))
        // One file for the whole run.
        .arg("--audit-log-maxsize=10000");
    Process::spawn("kube-apiserver", &command, &folder.join("apiserver.log"))
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("{name}={value}")
}
