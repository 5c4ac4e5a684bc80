//! What stands in for nodes: the control plane of the tests has no kubelet, so nothing runs in pods.
//!
//! While there is a Deployment `hedgerow`, its program runs as a process of this machine, with the rights of its ServiceAccount and
//! the configuration of its ConfigMap, in which addresses are those of this machine. The status of the Deployment says so. The pod
//! of `helm test` is run in the same way. Everything else of the cluster is real.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hedgerow_tests::{Cluster, Process, free_port, run_as, run_installed};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// The operator's namespace in every page.
const HOME: &str = "hedgerow-system";
/// How often it is looked whether there is something to run.
const TICK: Duration = Duration::from_millis(250);
const GRACE: Duration = Duration::from_secs(30);

/// Where a page says that something is, and where it is here.
pub(crate) type Places = Vec<(&'static str, String)>;

/// Runs what nodes would, until it is dropped.
pub(crate) struct Nodes {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Nodes {
    /// Begins to run what the cluster says. The operator is told that Prometheus is at `prometheus`.
    pub(crate) fn of(cluster: Arc<Cluster>, prometheus: String) -> (Self, Places) {
        let [metrics, explain, page] = [(); 3].map(|()| format!("127.0.0.1:{}", free_port().unwrap()));
        let inside = vec![
            ("http://prometheus.monitoring:9090", prometheus.clone()),
            ("http://prometheus.mine:9090", prometheus.clone()),
            ("0.0.0.0:8080", metrics.clone()),
            ("127.0.0.1:8081", explain.clone()),
            ("127.0.0.1:8082", page.clone()),
        ];
        // What a reader reaches by `kubectl port-forward`.
        let outside = vec![
            ("http://127.0.0.1:9090", prometheus),
            ("127.0.0.1:8080", metrics),
            ("127.0.0.1:8081", explain),
            ("127.0.0.1:8082", page),
        ];
        let mut runner = Runner {
            cluster,
            inside,
            operator: None,
        };
        let (stop, stopped) = oneshot::channel();
        let run = async move || {
            let steps = async {
                loop {
                    // A Deployment whose rights or ConfigMap are not there yet is tried again, as a node does.
                    if let Err(error) = runner.step().await {
                        println!("nodes: {error:#}");
                    }
                    tokio::time::sleep(TICK).await;
                }
            };
            tokio::select! {
                _ = stopped => {}
                () = steps => {}
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let nodes = Self {
            stop: Some(stop),
            thread: Some(thread::spawn(move || runtime.block_on(run()))),
        };
        (nodes, outside)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It holds the cluster, whose processes end with it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Runner {
    cluster: Arc<Cluster>,
    inside: Places,
    /// The generation of the Deployment that runs.
    operator: Option<(i64, Process)>,
}

impl Runner {
    async fn step(&mut self) -> Result<()> {
        let deployment = self.get("deployment", "hedgerow").await?;
        let generation = deployment["metadata"]["generation"].as_i64();
        if self.operator.as_ref().map(|(running, _)| *running) != generation {
            if let Some((_, process)) = self.operator.take() {
                process.terminate(GRACE).await?;
            }
            if let Some(generation) = generation {
                self.operator = Some((generation, self.run(&deployment).await?));
                self.say(&deployment, generation).await?;
            }
        }
        self.test().await
    }

    async fn run(&self, deployment: &Value) -> Result<Process> {
        let pod = &deployment["spec"]["template"]["spec"];
        let volumes = pod["volumes"].as_array().context("it has no volumes")?;
        let name = volumes
            .iter()
            .find_map(|volume| volume["configMap"]["name"].as_str())
            .context("it mounts no ConfigMap")?;
        let found = self.get("configmap", name).await?;
        let mut config = found["data"]["operator.yaml"]
            .as_str()
            .context("there is no operator.yaml")?
            .to_owned();
        for (there, here) in &self.inside {
            config = config.replace(there, here);
        }
        ensure!(
            !config.contains("0.0.0.0"),
            "it would listen to everybody: {config}"
        );
        let account = pod["serviceAccountName"].as_str().context("it has no account")?;
        run_installed(&self.cluster, HOME, account, &config).await
    }

    /// Says of the Deployment what its controller would.
    async fn say(&self, deployment: &Value, generation: i64) -> Result<()> {
        let replicas = &deployment["spec"]["replicas"];
        let status = json!({ "status": {
            "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
        } });
        self.status("deployment", "hedgerow", &status).await
    }

    /// The pod of `helm test`.
    async fn test(&self) -> Result<()> {
        let pod = self.get("pod", "hedgerow-check").await?;
        if pod["status"]["phase"] != "Pending" {
            return Ok(());
        }
        let arguments = pod["spec"]["containers"][0]["args"]
            .as_array()
            .context("no arguments")?;
        let arguments: Vec<_> = arguments.iter().filter_map(Value::as_str).collect();
        let account = pod["spec"]["serviceAccountName"].as_str().context("no account")?;
        let output = run_as(&self.cluster, HOME, account, &arguments).await?;
        println!("helm test: {output:?}");
        let phase = if output.success { "Succeeded" } else { "Failed" };
        self.status("pod", "hedgerow-check", &json!({ "status": { "phase": phase } }))
            .await
    }

    /// An object of the operator's namespace; null where there is none.
    async fn get(&self, kind: &str, name: &str) -> Result<Value> {
        let words = ["get", kind, name, "-n", HOME, "--ignore-not-found", "-o", "json"];
        let said = self.cluster.kubectl()?.run(&words).await?;
        if said.trim().is_empty() {
            Ok(Value::Null)
        } else {
            Ok(serde_json::from_str(&said)?)
        }
    }

    async fn status(&self, kind: &str, name: &str, patch: &Value) -> Result<()> {
        let patch = patch.to_string();
        let words = [
            "patch",
            kind,
            name,
            "-n",
            HOME,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ];
        self.cluster.kubectl()?.run(&words).await?;
        Ok(())
    }
}
