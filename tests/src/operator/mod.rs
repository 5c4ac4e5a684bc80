//! The operator, as a cluster runs it.

mod binary;
mod installed;
mod options;
mod rbac;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::Value;

pub use self::binary::{Build, hedgerow, kubectl_hedge};
pub use self::installed::{run_as, run_installed};
pub use self::options::OperatorOptions;
use self::options::Wrapper;
use crate::{Credentials, Process, eventually};

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
    page_port: u16,
    otlp_endpoint: Option<String>,
    http: reqwest::Client,
    process: Option<Process>,
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
        if let Some(endpoint) = &self.otlp_endpoint {
            // Spans are sent at once, so that a test need not wait for them.
            command
                .args(["--otlp-endpoint", endpoint])
                .env("OTEL_BSP_SCHEDULE_DELAY", "200");
        }
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

    /// The text of its metrics, as who asks for no format gets it.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn metrics(&self) -> Result<String> {
        self.get(self.metrics_port, "/metrics").await
    }

    /// Its metrics, as Prometheus asks for them.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn open_metrics(&self) -> Result<String> {
        let url = format!("http://{}/metrics", self.metrics_address());
        let asked = self
            .http
            .get(url)
            .header("accept", "application/openmetrics-text;version=1.0.0");
        Ok(asked.send().await?.error_for_status()?.text().await?)
    }

    /// Where its metrics are.
    pub const fn metrics_address(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.metrics_port)
    }

    /// Its status page; see [`OperatorOptions::with_status_page`].
    pub fn status_page(&self) -> String {
        format!("http://127.0.0.1:{}/", self.page_port)
    }

    /// Where its explanations are.
    pub fn explain_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.explain_port)
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
