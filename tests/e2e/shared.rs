//! What the tests of a run share.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use hedgerow_tests::{Cluster, Namespace, eventually, repository};
use serde_json::Value;
use tokio::sync::OnceCell;

/// The name of our CRD.
pub(crate) const CRD: &str = "hedgepolicies.hedgerow.dev";

/// The control plane of this run, with our CRD and the garbage collector: started by the first test that asks, stopped with
/// the process.
pub(crate) async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER
        .get_or_init(async || {
            let cluster = Cluster::start().await.unwrap();
            println!("control plane: {}", cluster.folder().display());
            install_crd(&cluster).await;
            cluster.with_controllers().unwrap()
        })
        .await
}

/// Installs the CRD that the repository ships.
pub(crate) async fn install_crd(cluster: &Cluster) {
    let file = repository().join("crds").join(format!("{CRD}.yaml"));
    install_crd_from(cluster, &file).await;
}

/// Installs the CRD in a file.
pub(crate) async fn install_crd_from(cluster: &Cluster, file: &Path) {
    let kubectl = cluster.kubectl().unwrap();
    let file = file.to_str().unwrap();
    let apply = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--output=json",
        "-f",
        file,
    ];
    let crd: Value = serde_json::from_str(&kubectl.run(&apply).await.unwrap()).unwrap();
    kubectl
        .serves(&["-f", file], Duration::from_secs(60))
        .await
        .unwrap();
    // Discovery follows later, and kubectl remembers what it found there; this asks anew.
    let group = format!("--api-group={}", crd["spec"]["group"].as_str().unwrap());
    let plural = crd["spec"]["names"]["plural"].as_str().unwrap();
    let is_told = async || {
        let kinds = kubectl.run(&["api-resources", &group]).await?;
        ensure!(kinds.contains(plural), "it tells of {kinds}");
        Ok(())
    };
    let what = format!("the API server tells of {plural}");
    eventually(&what, Duration::from_secs(60), is_told).await.unwrap();
}

/// A namespace of the shared control plane, for one test.
pub(crate) async fn namespace(name: &str) -> Namespace {
    cluster().await.namespace(name).await.unwrap()
}
