//! How an operator is installed.

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::binary::{Build, hedgerow};
use super::{Operator, rbac};
use crate::{Cluster, Gate, Link, Namespace, free_port, http_client, scratch};

/// How an [`Operator`] is installed.
#[derive(Clone, Debug)]
pub struct OperatorOptions<'a> {
    cluster: &'a Cluster,
    home: &'a Namespace,
    build: Build,
    may_nudge: bool,
    status_page: bool,
    api_server: Option<String>,
    wrapper: Wrapper,
    otlp_endpoint: Option<String>,
    config: Value,
}

/// What the program is started through: another program with its arguments, and variables of the environment.
#[derive(Clone, Debug, Default)]
pub(super) struct Wrapper {
    pub(super) command: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl<'a> OperatorOptions<'a> {
    /// An operator in the namespace `home`, which is to have it alone, for the policies of `watched`; none: of all
    /// namespaces. Documents reach their clients at once (`propagation: 0s`).
    pub fn new(cluster: &'a Cluster, home: &'a Namespace, watched: &[&Namespace]) -> Self {
        let watched: Vec<_> = watched.iter().map(|namespace| namespace.name()).collect();
        let config = json!({
            "instance": home.name(), "namespace": home.name(), "watchNamespaces": watched, "propagation": "0s",
        });
        Self {
            cluster,
            home,
            build: Build::Debug,
            may_nudge: false,
            status_page: false,
            api_server: None,
            wrapper: Wrapper::default(),
            otlp_endpoint: None,
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

    /// Sets the ceilings of its [source](Self::source).
    #[must_use]
    pub fn ceilings(mut self, ceilings: Value) -> Self {
        self.config["sources"][0]["ceilings"] = ceilings;
        self
    }

    /// Sets a key of the configuration file.
    #[must_use]
    pub fn set(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self
    }

    /// Lets it nudge pods: in its configuration, and by the rights that the chart grants for that.
    #[must_use]
    pub fn nudging(mut self) -> Self {
        self.may_nudge = true;
        self.set("nudge", json!(true))
    }

    /// Has it serve its status page.
    #[must_use]
    pub const fn with_status_page(mut self) -> Self {
        self.status_page = true;
        self
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

    /// Has it send traces to this collector.
    #[must_use]
    pub fn traces_to(mut self, endpoint: &str) -> Self {
        self.otlp_endpoint = Some(endpoint.to_owned());
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
        let (metrics_port, explain_port, page_port) = (free_port()?, free_port()?, free_port()?);
        self.config["listen"] = json!({
            "address": format!("127.0.0.1:{metrics_port}"), "explain": format!("127.0.0.1:{explain_port}"),
        });
        if self.status_page {
            self.config["listen"]["statusPage"] = format!("127.0.0.1:{page_port}").into();
        }
        fs::write(folder.join("operator.yaml"), self.config.to_string())?;
        let home = self.home.name();
        let account = rbac::grant(&self.cluster.kubectl()?, home, &self.config, self.may_nudge).await?;
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
            page_port,
            otlp_endpoint: self.otlp_endpoint,
            http,
            process: None,
        };
        operator.start().await?;
        Ok(operator)
    }
}
