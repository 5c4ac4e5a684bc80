//! The stage of the demo: processes on a control plane, or pods on a node.

mod pods;
mod processes;

use std::path::PathBuf;

use anyhow::Result;
use hedgerow_stage::{Control, NAMESPACE, Servers};
use hedgerow_tests::{Kubectl, Node, Process, Prometheus};
use kube::Client;

/// What the policy publishes.
pub(crate) const CONFIG_MAP: &str = "kb-hedging";
/// See [`CONFIG_MAP`].
pub(crate) const KEY: &str = "shard-read.json";
/// Long enough for any run; the load ends with the demo.
const LOAD_SECONDS: u32 = 24 * 3600;

/// Everything that the demo plays with. It ends when this is dropped.
pub(crate) struct Stage {
    kubectl: Kubectl,
    kubeconfig: PathBuf,
    client: Client,
    /// Where data and logs are.
    folder: PathBuf,
    replicas: Control,
    /// Addresses, each `HOST:PORT`: of the front end, of Prometheus and of the operator's metrics.
    front_end: String,
    prometheus: String,
    operator: String,
    _parts: Parts,
}

/// What holds it up.
#[derive(Debug)]
#[expect(dead_code, reason = "held, so that they run on")]
enum Parts {
    /// In the order in which they are to stop: the load first, the cluster last.
    Processes {
        programs: Vec<Process>,
        servers: Servers,
        prometheus: Box<Prometheus>,
        plane: Box<hedgerow_stage::ControlPlane>,
    },
    Node(Box<Node>),
}

impl Stage {
    /// kubectl as the administrator.
    pub(crate) const fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// A client of the administrator.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Where the front end exposes its metrics.
    pub(crate) fn front_end_metrics(&self) -> String {
        format!("http://{}/metrics", self.front_end)
    }

    /// Where the replicas expose theirs.
    pub(crate) fn replica_metrics(&self) -> String {
        format!("http://{}/metrics", self.replicas.address())
    }

    /// Disturbs the replicas: `latency=1.3`, `bulk=120`.
    pub(crate) async fn disturb(&self, how: &str) -> Result<()> {
        self.replicas.disturb(how).await
    }

    /// What a person can open, and how.
    pub(crate) fn ways_in(&self) -> Vec<(&'static str, String)> {
        let kubectl = self.kubectl.program().display();
        vec![
            (
                "kubectl",
                format!("export KUBECONFIG={}", self.kubeconfig.display()),
            ),
            ("", format!("{kubectl} get hp -n {NAMESPACE}")),
            ("Prometheus", format!("http://{}", self.prometheus)),
            ("operator", format!("http://{}/metrics", self.operator)),
            ("search", format!("http://{}/search", self.front_end)),
            (
                "disturb",
                format!(
                    "curl -X POST 'http://{}/control?latency=1.3&bulk=120'",
                    self.replicas.address()
                ),
            ),
            ("logs", self.folder.display().to_string()),
        ]
    }
}
