//! The stage: every process of the demo.

use anyhow::Result;
use hedgerow_stage::{ControlPlane, NAMESPACE, Servers, start, text};
use hedgerow_tests::{Cluster, Process, Prometheus, PrometheusOptions, free_port};

use crate::show::Show;

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
    servers: Servers,
    prometheus: Prometheus,
    plane: ControlPlane,
    front_end: String,
    metrics: String,
}

impl Stage {
    /// Starts everything but the policy.
    pub(crate) async fn set(show: &Show, rate: f64) -> Result<Self> {
        show.phase(
            "Setting the stage",
            "etcd, kube-apiserver, Prometheus, the operator, 8 shards of 2 replicas, a front end",
        );
        let plane = ControlPlane::set("demo").await?;
        let folder = plane.folder();
        let servers = Servers::start("shards", folder, &[]).await?;
        let client = plane.front_end().await?;
        let front_end = format!("127.0.0.1:{}", free_port()?);
        let front = start(
            "search-cluster",
            "front-end",
            folder,
            &[
                "front-end",
                "--shards",
                text(servers.addresses())?,
                "--listen",
                &front_end,
                "--kubeconfig",
                text(client.kubeconfig())?,
                "--config-map",
                &format!("{NAMESPACE}/{CONFIG_MAP}/{KEY}"),
            ],
        )?;
        let prometheus = PrometheusOptions::new()
            .job("kb", servers.control().parse()?)
            .job("front", front_end.parse()?)
            .folder(folder.join("prometheus"))
            .start()
            .await?;
        let metrics = format!("127.0.0.1:{}", free_port()?);
        let operator = plane.operator(&prometheus, &metrics).await?;
        let load = start(
            "search-cluster",
            "load",
            folder,
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
            plane,
            prometheus,
            servers,
            front_end,
            metrics,
            _processes: vec![load, front, operator],
        })
    }

    /// The cluster.
    pub(crate) const fn cluster(&self) -> &Cluster {
        self.plane.cluster()
    }

    /// Where the front end exposes its metrics.
    pub(crate) fn front_end_metrics(&self) -> String {
        format!("http://{}/metrics", self.front_end)
    }

    /// Where the replicas expose theirs.
    pub(crate) fn replica_metrics(&self) -> String {
        format!("http://{}/metrics", self.servers.control())
    }

    /// Disturbs the replicas: `latency=1.3`, `bulk=120`.
    pub(crate) async fn disturb(&self, how: &str) -> Result<()> {
        self.servers.disturb(how).await
    }

    /// What a person can open, and how.
    pub(crate) fn ways_in(&self) -> Vec<(&'static str, String)> {
        vec![
            (
                "kubectl",
                format!(
                    "export KUBECONFIG={}",
                    self.cluster().admin().kubeconfig().display()
                ),
            ),
            (
                "",
                format!(
                    "{} get hp -n {NAMESPACE}",
                    self.plane.kubectl().program().display()
                ),
            ),
            ("Prometheus", self.prometheus.url()),
            ("operator", format!("http://{}/metrics", self.metrics)),
            ("search", format!("http://{}/search", self.front_end)),
            (
                "disturb",
                format!(
                    "curl -X POST 'http://{}/control?latency=1.3&bulk=120'",
                    self.servers.control()
                ),
            ),
            ("logs", self.plane.folder().display().to_string()),
        ]
    }
}
