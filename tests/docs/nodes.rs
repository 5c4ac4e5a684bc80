//! What stands in for nodes: the control plane of the tests has no kubelet, so nothing runs in pods.
//!
//! While there is a Deployment `hedgerow`, its program runs as a process of this machine, with the rights of its ServiceAccount and
//! the configuration of its ConfigMap, in which addresses and `propagation` are those of this machine. The status of the Deployment
//! says so. The pod of `helm test` is run in the same way. Everything else of the cluster is real.

use std::fmt::Debug;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hedgerow_tests::{Cluster, Process, free_port, run_as, run_installed};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, oneshot};

/// The operator's namespace in every page.
const HOME: &str = "hedgerow-system";
/// The name of the pod that the Deployment has.
const POD: &str = "hedgerow-0";
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
            // Nothing here is mounted, so nothing waits for a kubelet.
            ("propagation: 90s", "propagation: 5s".to_owned()),
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
            client: OnceCell::new(),
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
    client: OnceCell<Client>,
    inside: Places,
    /// The generation of the Deployment that runs.
    operator: Option<(i64, Process)>,
}

impl Runner {
    async fn step(&mut self) -> Result<()> {
        let deployment = self.get::<Deployment>("hedgerow").await?;
        let generation = deployment["metadata"]["generation"].as_i64();
        self.pod(&deployment).await?;
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
        let found = self.get::<ConfigMap>(name).await?;
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
        let status = json!({
            "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
        });
        self.status::<Deployment>("hedgerow", &status).await
    }

    /// A pod of the Deployment, while there is one: for what looks for it, though it never runs.
    async fn pod(&self, deployment: &Value) -> Result<()> {
        let (pods, template) = (self.api::<Pod>().await?, &deployment["spec"]["template"]);
        match (pods.get_opt(POD).await?, template.is_object()) {
            (None, true) => {
                let mut pod: Pod = serde_json::from_value(template.clone())?;
                pod.metadata.name = Some(POD.to_owned());
                pods.create(&PostParams::default(), &pod).await?;
            }
            (Some(_), false) => {
                pods.delete(POD, &DeleteParams::default().grace_period(0)).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The pod of `helm test`.
    async fn test(&self) -> Result<()> {
        let pod = self.get::<Pod>("hedgerow-check").await?;
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
        self.status::<Pod>("hedgerow-check", &json!({ "phase": phase }))
            .await
    }

    /// An object of the operator's namespace; null where there is none.
    async fn get<K: Object>(&self, name: &str) -> Result<Value> {
        let found = self.api::<K>().await?.get_opt(name).await?;
        Ok(serde_json::to_value(found)?)
    }

    async fn status<K: Object>(&self, name: &str, status: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "status": status }));
        let api = self.api::<K>().await?;
        api.patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Not by kubectl: it is asked several times a second, and a process each time takes a core.
    async fn api<K: Object>(&self) -> Result<Api<K>> {
        let client = self
            .client
            .get_or_try_init(async || self.cluster.client().await)
            .await?;
        Ok(Api::namespaced(client.clone(), HOME))
    }
}

/// A kind whose objects are in a namespace.
trait Object:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize
{
}

impl<K> Object for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
{
}
