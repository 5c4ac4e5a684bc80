//! The operator, as a cluster runs it.

mod binary;
mod rbac;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::{Value, json};

pub use self::binary::{Build, hedgerow};
use crate::{
    Cluster, Credentials, Gate, Link, Namespace, Process, eventually, free_port, http_client, scratch,
};

const READY_WITHIN: Duration = Duration::from_secs(60);

/// `hedgerow run`, with the rights that the chart grants and no others. Stops when dropped.
#[derive(Debug)]
pub struct Operator {
    program: PathBuf,
    folder: PathBuf,
    user: String,
    credentials: Credentials,
    wrapper: Wrapper,
    metrics_port: u16,
    explain_port: u16,
    http: reqwest::Client,
    process: Option<Process>,
}

/// How an [`Operator`] is installed.
#[derive(Clone, Debug)]
pub struct OperatorOptions<'a> {
    cluster: &'a Cluster,
    home: &'a Namespace,
    watched: Vec<String>,
    build: Build,
    nudging: bool,
    api_server: Option<String>,
    wrapper: Wrapper,
    config: Value,
}

/// What the program is started through: another program with its arguments, and variables of the environment.
#[derive(Clone, Debug, Default)]
struct Wrapper {
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

impl<'a> OperatorOptions<'a> {
    /// An operator in the namespace `home`, which is to have it alone, for the policies of `watched`; none: of all
    /// namespaces. Documents reach their clients at once (`propagation: 0s`).
    pub fn new(cluster: &'a Cluster, home: &'a Namespace, watched: &[&Namespace]) -> Self {
        let watched: Vec<_> = watched
            .iter()
            .map(|namespace| namespace.name().to_owned())
            .collect();
        let config = json!({
            "instance": home.name(), "namespace": home.name(), "watchNamespaces": watched, "propagation": "0s",
        });
        Self {
            cluster,
            home,
            watched,
            build: Build::Debug,
            nudging: false,
            api_server: None,
            wrapper: Wrapper::default(),
            config,
        }
    }

    /// Lets every namespace name the Prometheus at `url` as `source: default`.
    #[must_use]
    pub fn source(self, url: &str) -> Self {
        self.set(
            "sources",
            json!([{ "name": "default", "url": url, "namespaces": ["*"], "timeout": "2s" }]),
        )
    }

    /// Sets a key of the configuration file.
    #[must_use]
    pub fn set(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self
    }

    /// Lets it nudge pods: in its configuration, and by the rights that the chart ships for that.
    #[must_use]
    pub fn nudging(mut self) -> Self {
        self.nudging = true;
        self.set("nudge", json!(true))
    }

    /// Lets it reach the API server by this link alone.
    #[must_use]
    pub fn through(mut self, link: &Link) -> Self {
        self.api_server = Some(format!("https://{}", link.address()));
        self
    }

    /// Lets it reach the API server by this gate alone, without TLS.
    #[must_use]
    pub fn through_gate(mut self, gate: &Gate) -> Self {
        self.api_server = Some(gate.url());
        self
    }

    /// Starts it through a program with arguments, which is to become the operator in the end: one that keeps the pid.
    #[must_use]
    pub fn wrapped_in<A: Into<OsString>>(mut self, command: impl IntoIterator<Item = A>) -> Self {
        self.wrapper.command.extend(command.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.wrapper.environment.push((name.into(), value.into()));
        self
    }

    /// Runs this build of the program; unsaid: the debug build.
    #[must_use]
    pub const fn build(mut self, build: Build) -> Self {
        self.build = build;
        self
    }

    /// Grants its rights, starts it, and waits until it is ready. Started twice, these are two replicas of one install.
    ///
    /// # Errors
    /// When it does not build, is refused its rights, ends, or is not ready in time.
    pub async fn start(mut self) -> Result<Operator> {
        let folder = scratch("operator")?;
        let (metrics_port, explain_port) = (free_port()?, free_port()?);
        self.config["listen"] = json!({
            "address": format!("127.0.0.1:{metrics_port}"), "explain": format!("127.0.0.1:{explain_port}"),
        });
        fs::write(folder.join("operator.yaml"), self.config.to_string())?;
        let home = self.home.name();
        let account = rbac::grant(&self.cluster.kubectl()?, home, &self.watched, self.nudging).await?;
        let kubeconfig = folder.join("kubeconfig");
        let admin = match self.api_server {
            Some(url) => self.cluster.admin().by_way_of(url),
            None => self.cluster.admin().clone(),
        };
        let credentials = admin.of_service_account(home, &account, kubeconfig).await?;
        let http = http_client(Duration::from_secs(5))?;
        let mut operator = Operator {
            program: hedgerow(self.build)?,
            folder,
            user: format!("system:serviceaccount:{home}:{account}"),
            credentials,
            wrapper: self.wrapper,
            metrics_port,
            explain_port,
            http,
            process: None,
        };
        operator.start().await?;
        Ok(operator)
    }
}

impl Operator {
    /// Starts it again after it was stopped or killed, and waits until it is ready.
    ///
    /// # Errors
    /// When it runs already, ends, or is not ready in time.
    pub async fn start(&mut self) -> Result<()> {
        if self.process.is_some() {
            bail!("the operator runs already");
        }
        let words = self.wrapper.command.iter().map(OsString::as_os_str);
        let mut words = words.chain([self.program.as_os_str()]);
        let mut command = Command::new(words.next().context("there is a program")?);
        command
            .args(words)
            .envs(self.wrapper.environment.iter().map(|(name, value)| (name, value)))
            .args(["run", "--log-format", "text", "--config"])
            .arg(self.folder.join("operator.yaml"))
            .env("KUBECONFIG", self.credentials.kubeconfig())
            .env("HEDGEROW_LOG", "info,hedgerow=debug")
            .env("RUST_BACKTRACE", "1");
        let mut process = Process::spawn("hedgerow", &command, &self.folder.join("operator.log"))?;
        eventually("the operator is ready", READY_WITHIN, async || {
            process.must_run()?;
            self.get(self.metrics_port, "/readyz")
                .await
                .with_context(|| process.log_tail())
        })
        .await?;
        self.process = Some(process);
        Ok(())
    }

    /// Asks it to stop, and waits until it has.
    ///
    /// # Errors
    /// When it does not run or does not end.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        self.take()?.terminate(Duration::from_secs(15)).await
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&mut self) -> Result<()> {
        self.take()?.kill();
        Ok(())
    }

    /// Freezes it: its connections stay open, and it does nothing.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self) -> Result<()> {
        self.running()?.signal(Signal::STOP)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self) -> Result<()> {
        self.running()?.signal(Signal::CONT)
    }

    /// Whether it says that it leads.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn leads(&self) -> Result<bool> {
        Ok(self.metrics().await?.contains("\nhedgerow_leader 1\n"))
    }

    /// Where its configuration and log are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        self.process.as_ref().map(Process::log_tail).unwrap_or_default()
    }

    /// Its credential in the audit log, which no other process has.
    ///
    /// # Errors
    /// When its token cannot be read.
    pub fn credential(&self) -> Result<String> {
        self.credentials.audited_as()
    }

    /// Who it is in the audit log, as all replicas of its install are.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Its pid.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.running()?.pid())
    }

    /// The text of its metrics.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn metrics(&self) -> Result<String> {
        self.get(self.metrics_port, "/metrics").await
    }

    /// What it says of a policy on its loopback port.
    ///
    /// # Errors
    /// When it does not answer, or not with JSON.
    pub async fn explain(&self, namespace: &str, policy: &str) -> Result<Value> {
        let text = self
            .get(self.explain_port, &format!("/explain/{namespace}/{policy}"))
            .await?;
        Ok(serde_json::from_str(&text)?)
    }

    fn running(&self) -> Result<&Process> {
        self.process.as_ref().context("the operator does not run")
    }

    fn take(&mut self) -> Result<Process> {
        self.process.take().context("the operator does not run")
    }

    async fn get(&self, port: u16, path: &str) -> Result<String> {
        let answer = self
            .http
            .get(format!("http://127.0.0.1:{port}{path}"))
            .send()
            .await?;
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            bail!("{path} answered {status}: {text}");
        }
        Ok(text)
    }
}
