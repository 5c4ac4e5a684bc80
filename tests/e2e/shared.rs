//! What the tests of a run share.

use hedgerow_tests::{Cluster, Namespace};
use tokio::sync::OnceCell;

/// The control plane of this run: started by the first test that asks, stopped with the process.
pub(crate) async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER
        .get_or_init(async || Cluster::start().await.unwrap())
        .await
}

/// A namespace of the shared control plane, for one test.
pub(crate) async fn namespace(name: &str) -> Namespace {
    cluster().await.namespace(name).await.unwrap()
}
