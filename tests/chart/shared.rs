//! What the tests share.

use std::path::Path;
use std::time::Duration;

use hedgerow_tests::{Cluster, Helm, HelmVersion, Kubectl, free_port, repository};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The name of our CRD.
pub(crate) const CRD: &str = "hedgepolicies.hedgerow.dev";

/// The values that have to be said, and no others.
pub(crate) fn least() -> Value {
    json!({
        "image": { "repository": "localhost/hedgerow" },
        "sources": [{ "name": "default", "url": "http://prometheus.monitoring:9090", "namespaces": ["*"] }],
    })
}

/// Values by which the operator listens where others do not.
pub(crate) fn listening() -> Value {
    let (port, explain) = (free_port().unwrap(), free_port().unwrap());
    json!({ "listen": { "address": "127.0.0.1", "port": port, "explainPort": explain } })
}

/// `values` with those of `more` over them, key by key.
pub(crate) fn with(mut values: Value, more: Value) -> Value {
    merge(&mut values, more);
    values
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// Helm 4, without a cluster.
pub(crate) fn helm() -> Helm {
    Helm::new(HelmVersion::V4).unwrap()
}

/// The object of this kind whose name ends so.
pub(crate) fn find<'a>(objects: &'a [Value], kind: &str, ends: &str) -> &'a Value {
    objects
        .iter()
        .find(|object| {
            object["kind"] == kind
                && object["metadata"]["name"]
                    .as_str()
                    .is_some_and(|name| name.ends_with(ends))
        })
        .unwrap_or_else(|| panic!("no {kind} {ends}"))
}

/// A file of the repository.
pub(crate) fn text(path: &str) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A control plane with the controllers that work without nodes: started by the first test that asks. Nothing is installed.
pub(crate) async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER
        .get_or_init(async || {
            let cluster = Cluster::start().await.unwrap().with_controllers().unwrap();
            println!("control plane: {}", cluster.folder().display());
            cluster
        })
        .await
}

/// The same, with the CRD.
pub(crate) async fn cluster_with_crd() -> &'static Cluster {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let cluster = cluster().await;
    INSTALLED.get_or_init(|| install_crd(cluster)).await;
    cluster
}

/// Installs the CRD, and waits until policies can be applied.
pub(crate) async fn install_crd(cluster: &Cluster) {
    let kubectl = cluster.kubectl().unwrap();
    let file = repository().join(format!("crds/{CRD}.yaml"));
    let arguments = ["apply", "--server-side", "-f", file.to_str().unwrap()];
    kubectl.run(&arguments).await.unwrap();
    established(&kubectl).await;
}

/// Waits until policies can be applied.
pub(crate) async fn established(kubectl: &Kubectl) {
    let within = Duration::from_secs(60);
    kubectl.serves(&["crd", CRD], within).await.unwrap();
    // Discovery follows later.
    kubectl.knows_policies(within).await.unwrap();
}

/// Fails unless the file holds `expected`; with `HEDGEROW_BLESS` it is written instead. `remedy` is the command that does so.
pub(crate) fn holds(path: &Path, expected: &str, remedy: &str) {
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, expected).unwrap();
    }
    let held = std::fs::read_to_string(path).unwrap_or_default();
    let differs = held
        .lines()
        .zip(expected.lines())
        .find(|(held, expected)| held != expected)
        .map_or_else(String::new, |(held, expected)| {
            format!("it says   {held}\nit should {expected}\n")
        });
    assert!(
        held == expected,
        "{} is not what it should be; mend it with `{remedy}`\n{differs}",
        path.display()
    );
}
