//! What the tests of a run share.

use std::time::Duration;

use anyhow::ensure;
use hedgerow_tests::{Cluster, Namespace, eventually, repository};
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
    let kubectl = cluster.kubectl().unwrap();
    let file = repository().join("crds").join(format!("{CRD}.yaml"));
    let arguments = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "-f",
        file.to_str().unwrap(),
    ];
    kubectl.run(&arguments).await.unwrap();
    kubectl
        .run(&["wait", "--for=condition=Established", &format!("crd/{CRD}")])
        .await
        .unwrap();
    // Discovery follows later, and kubectl remembers what it found there; this asks anew.
    eventually(
        "the API server tells of the new kind",
        Duration::from_secs(60),
        async || {
            let kinds = kubectl
                .run(&["api-resources", "--api-group=hedgerow.dev"])
                .await?;
            ensure!(kinds.contains("hedgepolicies"), "it tells of {kinds}");
            Ok(())
        },
    )
    .await
    .unwrap();
}

/// A namespace of the shared control plane, for one test.
pub(crate) async fn namespace(name: &str) -> Namespace {
    cluster().await.namespace(name).await.unwrap()
}
