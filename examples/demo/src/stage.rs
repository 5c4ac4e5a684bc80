//! The stage: every process of the demo.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hedgerow_tests::{
    Cluster, ClusterOptions, Kubectl, Process, Prometheus, PrometheusOptions, eventually, free_port,
    repository, scratch,
};
use serde_json::{Value, json};

use crate::show::Show;

/// Where the policy, its clients and its documents live.
pub(crate) const NAMESPACE: &str = "helpdesk";
/// Where the operator lives.
const OPERATOR_NAMESPACE: &str = "hedgerow-system";
/// What the policy publishes.
pub(crate) const CONFIG_MAP: &str = "kb-hedging";
/// See [`CONFIG_MAP`].
pub(crate) const KEY: &str = "shard-read.json";
/// Long enough for any run; the load ends with the demo.
const LOAD_SECONDS: u32 = 24 * 3600;

/// Every process of the demo. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    // Declared in the order in which they are to stop: the load first, the cluster last.
    _processes: Vec<Process>,
    prometheus: Prometheus,
    cluster: Cluster,
    kubectl: Kubectl,
    folder: PathBuf,
    front_end: String,
    control: String,
    metrics: String,
}

impl Stage {
    /// Starts everything but the policy.
    pub(crate) async fn set(show: &Show, rate: f64) -> Result<Self> {
        let folder = scratch("demo")?;
        show.phase(
            "Setting the stage",
            "etcd, kube-apiserver, Prometheus, the operator, 8 shards of 2 replicas, a front end",
        );
        let cluster = ClusterOptions::new().start().await?;
        let kubectl = cluster.kubectl()?;
        install(&kubectl).await?;

        let addresses = folder.join("shards.json");
        let replicas = start(
            "search-cluster",
            "replicas",
            &folder,
            &["replicas", "--addresses", text(&addresses)?],
        )?;
        let addresses = eventually("the replicas listen", Duration::from_secs(10), async || {
            Ok(serde_json::from_slice::<Value>(&fs::read(&addresses)?)?)
        })
        .await?;
        let control = addresses["control"]
            .as_str()
            .context("the replicas wrote no control address")?
            .to_owned();

        let client = cluster
            .admin()
            .of_service_account(NAMESPACE, "front", folder.join("front.kubeconfig"))
            .await?;
        let front_end = format!("127.0.0.1:{}", free_port()?);
        let front = start(
            "search-cluster",
            "front-end",
            &folder,
            &[
                "front-end",
                "--shards",
                text(&folder.join("shards.json"))?,
                "--listen",
                &front_end,
                "--kubeconfig",
                text(client.kubeconfig())?,
                "--config-map",
                &format!("{NAMESPACE}/{CONFIG_MAP}/{KEY}"),
            ],
        )?;
        let prometheus = PrometheusOptions::new()
            .job("kb", control.parse()?)
            .job("front", front_end.parse()?)
            .folder(folder.join("prometheus"))
            .start()
            .await?;
        let metrics = format!("127.0.0.1:{}", free_port()?);
        let operator = start_operator(&cluster, &prometheus, &folder, &metrics).await?;
        let load = start(
            "search-cluster",
            "load",
            &folder,
            &[
                "load",
                "--url",
                &format!("http://{front_end}/search"),
                "--rate",
                &rate.to_string(),
                "--seconds",
                &LOAD_SECONDS.to_string(),
            ],
        )?;
        Ok(Self {
            cluster,
            kubectl,
            prometheus,
            folder,
            front_end,
            control,
            metrics,
            _processes: vec![load, front, replicas, operator],
        })
    }

    /// The cluster.
    pub(crate) const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Where the front end exposes its metrics.
    pub(crate) fn front_end_metrics(&self) -> String {
        format!("http://{}/metrics", self.front_end)
    }

    /// Where the replicas expose theirs.
    pub(crate) fn replica_metrics(&self) -> String {
        format!("http://{}/metrics", self.control)
    }

    /// Disturbs the replicas: `latency=1.3`, `bulk=120`.
    pub(crate) async fn disturb(&self, how: &str) -> Result<()> {
        let answer = reqwest::Client::new()
            .post(format!("http://{}/control?{how}", self.control))
            .send()
            .await?;
        ensure!(
            answer.status().is_success(),
            "the replicas refuse {how}: {}",
            answer.text().await?
        );
        Ok(())
    }

    /// What a person can open, and how.
    pub(crate) fn ways_in(&self) -> Vec<(&'static str, String)> {
        vec![
            (
                "kubectl",
                format!(
                    "export KUBECONFIG={}",
                    self.cluster.admin().kubeconfig().display()
                ),
            ),
            (
                "",
                format!("{} get hp -n {NAMESPACE}", self.kubectl.program().display()),
            ),
            ("Prometheus", self.prometheus.url()),
            ("operator", format!("http://{}/metrics", self.metrics)),
            ("search", format!("http://{}/search", self.front_end)),
            (
                "disturb",
                format!(
                    "curl -X POST 'http://{}/control?latency=1.3&bulk=120'",
                    self.control
                ),
            ),
            ("logs", self.folder.display().to_string()),
        ]
    }
}

/// Installs the CRD, the operator's RBAC and the front end's, as a person would.
async fn install(kubectl: &Kubectl) -> Result<()> {
    for namespace in [OPERATOR_NAMESPACE, NAMESPACE] {
        kubectl.run(&["create", "namespace", namespace]).await?;
    }
    for file in [
        "crds/hedgepolicies.hedgerow.dev.yaml",
        "charts/hedgerow/rbac.yaml",
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

/// Starts the operator under its own ServiceAccount.
async fn start_operator(
    cluster: &Cluster,
    prometheus: &Prometheus,
    folder: &Path,
    metrics: &str,
) -> Result<Process> {
    let account = cluster
        .admin()
        .of_service_account(OPERATOR_NAMESPACE, "hedgerow", folder.join("operator.kubeconfig"))
        .await?;
    let config = folder.join("operator.yaml");
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
    let mut operator = Process::spawn("operator", &command, &folder.join("operator.log"))?;
    let ready = format!("http://{metrics}/readyz");
    eventually("the operator is ready", Duration::from_secs(20), async || {
        operator.must_run()?;
        reqwest::get(&ready).await?.error_for_status()?;
        Ok(())
    })
    .await?;
    Ok(operator)
}

fn start(binary: &str, name: &str, folder: &Path, arguments: &[&str]) -> Result<Process> {
    let mut command = Command::new(program(binary)?);
    command.args(arguments);
    Process::spawn(name, &command, &folder.join(format!("{name}.log")))
}

/// A program that was built together with this one.
fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(
        path.exists(),
        "{} is not built: run the demo by `make demo`, which builds it",
        path.display()
    );
    Ok(path)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}
