//! What stands on the node of a test: Prometheus, the search cluster, a client that mounts its document, and the release.

use std::os::unix::fs::symlink;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hedgerow_tests::{
    HelmVersion, Kubectl, Node, Output, Release, eventually, http_client, kubectl_hedge, objects, repository,
    scratch,
};
use serde_json::{Value, json};

use crate::client::{clients, is_hedge, said_by};
use crate::policy::{CONFIG_MAP, KEY, with};

/// Where policies, clients and their documents live: that of the examples.
pub(crate) const NAMESPACE: &str = "helpdesk";
/// The policy of `examples/help-desk.yaml`.
pub(crate) const POLICY: &str = "kb-search";
/// What happens within seconds on an idle machine.
pub(crate) const SOON: Duration = Duration::from_secs(90);

/// A node with all of it.
pub(crate) struct Stage {
    pub(crate) node: Node,
    pub(crate) release: Release,
    /// With `kubectl hedge`, from outside the cluster.
    pub(crate) kubectl: Kubectl,
}

impl Stage {
    /// Starts everything but the client and the policy, every namespace under Pod Security `restricted`.
    pub(crate) async fn set(node: Node) -> Self {
        let plugins = scratch("plugins").unwrap();
        symlink(kubectl_hedge().unwrap(), plugins.join("kubectl-hedge")).unwrap();
        let kubectl = node.kubectl().unwrap().with_plugins(&plugins);
        node.start_search_cluster(10.0).await.unwrap();
        let release = Release::install(&node, HelmVersion::V3, &values()).await.unwrap();
        Self {
            node,
            release,
            kubectl,
        }
    }

    /// Applies the policy of the examples, and starts a client once its document lets it hedge.
    pub(crate) async fn apply_policy(&self) {
        let policy = objects(&text("examples/help-desk.yaml")).unwrap().remove(0);
        let nudged = json!({ "matchLabels": { "app": CONFIG_MAP } });
        let policy = with(policy, "/spec/publish/0/nudgePods", nudged);
        // Far above the percentile: however busy the machine, the delay rests there, and a change of the document has
        // another cause.
        self.quicken_replicas().await;
        let policy = with(policy, "/spec/targets/0/delay", json!({ "min": "700ms" }));
        self.kubectl.apply(&policy.to_string()).await.unwrap();
        eventually("it is tuned, and rests there", 2 * SOON, async || {
            let document = self.document().await?;
            let rests = document["reason"] == "Tuned" && document["delayMs"] == 700.0;
            ensure!(rests, "it says {document}");
            Ok(())
        })
        .await
        .unwrap();
        let client = clients(CONFIG_MAP, 1).to_string();
        self.kubectl.apply_in(NAMESPACE, &client).await.unwrap();
        self.client_hedges().await;
    }

    /// Lets reads take half as long as they do in the demo.
    async fn quicken_replicas(&self) {
        let http = http_client(SOON).unwrap();
        eventually("the replicas answer", SOON, async || {
            let path = "jsonpath={.spec.clusterIP}";
            let get = ["-n", NAMESPACE, "get", "service", "search", "-o", path];
            let address = self.kubectl.run(&get).await?;
            let control = format!("http://{address}:9100/control?latency=0.5");
            http.post(control).send().await?.error_for_status()?;
            Ok(())
        })
        .await
        .unwrap();
    }

    /// The document.
    pub(crate) async fn document(&self) -> Result<Value> {
        let config_map = self.config_map().await?;
        let text = config_map["data"][KEY].as_str().context("there is no such key")?;
        Ok(serde_json::from_str(text)?)
    }

    /// The ConfigMap that it is in.
    pub(crate) async fn config_map(&self) -> Result<Value> {
        let get = ["-n", NAMESPACE, "get", "configmap", CONFIG_MAP, "-o", "json"];
        Ok(serde_json::from_str(&self.kubectl.run(&get).await?)?)
    }

    /// What the client has said so far.
    pub(crate) async fn client_said(&self) -> Result<Vec<Value>> {
        said_by(&self.kubectl, NAMESPACE, &format!("deployment/{CONFIG_MAP}")).await
    }

    /// Waits until the client has hedged once more.
    pub(crate) async fn client_hedges(&self) {
        let hedges = async || {
            let told = self.client_said().await?;
            Ok::<_, anyhow::Error>(told.into_iter().filter(is_hedge).count())
        };
        let before = hedges().await.unwrap_or(0);
        eventually("the client hedges", SOON, async || {
            ensure!(hedges().await? > before, "it does not");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Makes the kubelet look at what the client mounts, which it does by itself in a minute and a half.
    pub(crate) async fn hurry_client(&self, why: &str) {
        let (selector, note) = (format!("app={CONFIG_MAP}"), format!("hurried={why}"));
        let annotate = [
            "-n",
            NAMESPACE,
            "annotate",
            "pods",
            "-l",
            &selector,
            "--overwrite",
            &note,
        ];
        self.kubectl.run(&annotate).await.unwrap();
    }

    /// The pod that leads.
    pub(crate) async fn leader(&self) -> Result<String> {
        let path = "jsonpath={.spec.holderIdentity}";
        let get = ["-n", Release::HOME, "get", "lease", "hedgerow", "-o", path];
        let holder = self.kubectl.run(&get).await?;
        let (pod, _) = holder.rsplit_once('_').context("nobody leads")?;
        Ok(pod.to_owned())
    }

    /// `kubectl hedge ...`, in words between spaces.
    pub(crate) async fn hedge(&self, words: &str) -> Output {
        let words: Vec<&str> = words.split(' ').collect();
        self.kubectl
            .output(&[&["hedge"], &words[..]].concat(), "")
            .await
            .unwrap()
    }

    /// The same, which must succeed; what it printed.
    pub(crate) async fn hedge_says(&self, words: &str) -> String {
        let output = self.hedge(words).await;
        assert!(output.success, "kubectl hedge {words}: {output:?}");
        output.stdout
    }
}

/// The values of the release.
pub(crate) fn values() -> Value {
    json!({
        "nudge": true,
        "listen": { "statusPagePort": 8082 },
        "sources": [{ "name": "default", "url": "http://prometheus.monitoring:9090", "namespaces": [NAMESPACE] }],
        "admissionPolicy": { "enabled": true },
        "test": { "namespace": NAMESPACE },
    })
}

fn text(file: &str) -> String {
    std::fs::read_to_string(repository().join(file)).unwrap()
}
