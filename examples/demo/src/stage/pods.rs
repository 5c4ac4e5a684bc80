//! Everything as a pod of a node of this machine, the operator by its chart. The load is sent in the pod of the search cluster;
//! what is seen from outside is seen through Services, which this machine reaches.

use anyhow::{Result, bail};
use hedgerow_stage::{Control, NAMESPACE};
use hedgerow_tests::{HelmVersion, Image, Kubectl, Node, Release};
use serde_json::json;

use super::{Parts, Stage};
use crate::show::Show;

impl Stage {
    /// Starts everything but the policy.
    pub(crate) async fn of_pods(show: &Show, rate: f64) -> Result<Self> {
        show.phase(
            "Setting the stage",
            "a node with real pods: Prometheus, 8 shards of 2 replicas with a front end, the operator by helm install",
        );
        if let Some(why) = Node::refusal()? {
            bail!("{why}");
        }
        let node = Node::start(&[Image::Operator, Image::SearchCluster, Image::Prometheus]).await?;
        node.start_search_cluster(rate).await?;
        // The front end watches its ConfigMap through the API, which takes well under a second; 2 s leave room.
        let values = json!({
            "propagation": "2s",
            "sources": [{ "name": "default", "url": "http://prometheus.monitoring:9090", "namespaces": [NAMESPACE] }],
        });
        Release::install(&node, HelmVersion::V4, &values).await?;
        let kubectl = node.kubectl()?;
        for (namespace, deployment) in [("monitoring", "prometheus"), (NAMESPACE, "search")] {
            let rollout = [
                "rollout",
                "status",
                "--timeout=2m",
                "-n",
                namespace,
                "deployment",
                deployment,
            ];
            kubectl.run(&rollout).await?;
        }
        Ok(Self {
            front_end: service(&kubectl, NAMESPACE, "search", 8080).await?,
            replicas: Control::new(service(&kubectl, NAMESPACE, "search", 9100).await?)?,
            prometheus: service(&kubectl, "monitoring", "prometheus", 9090).await?,
            operator: service(&kubectl, Release::HOME, "hedgerow", 8080).await?,
            kubeconfig: node.kubeconfig(),
            client: node.client().await?,
            folder: node.folder().to_owned(),
            kubectl,
            _parts: Parts::Node(Box::new(node)),
        })
    }
}

/// Where this machine reaches a port of a Service.
async fn service(kubectl: &Kubectl, namespace: &str, name: &str, port: u16) -> Result<String> {
    let path = "jsonpath={.spec.clusterIP}";
    let address = kubectl
        .run(&["get", "service", name, "-n", namespace, "-o", path])
        .await?;
    Ok(format!("{address}:{port}"))
}
