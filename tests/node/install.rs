//! The operator in a pod, from its image and by the chart.

use hedgerow_tests::{Helm, HelmVersion, Image, Node};
use serde_json::json;

/// The namespace that the operator lives in.
pub(crate) const HOME: &str = "hedgerow-system";

/// Who the operator is in the audit log.
pub(crate) const USER: &str = "system:serviceaccount:hedgerow-system:hedgerow";

/// Installs the chart with two replicas under Pod Security `restricted`, and waits until it is ready. Its one source is the
/// Prometheus at `url`.
pub(crate) async fn install(node: &Node, url: &str) {
    let kubectl = node.kubectl().unwrap();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": HOME, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    });
    kubectl.apply(&namespace.to_string()).await.unwrap();
    let (repository, tag) = Image::Operator.name().rsplit_once(':').unwrap();
    let values = json!({
        "image": { "repository": repository, "tag": tag },
        "propagation": "0s", "nudge": true,
        "sources": [{ "name": "default", "url": url, "namespaces": ["*"], "timeout": "2s" }],
    });
    let helm = Helm::new(HelmVersion::V4).unwrap().on(&node.kubeconfig());
    let arguments = [
        "install",
        "hedgerow",
        "charts/hedgerow",
        "--namespace",
        HOME,
        "--wait",
        "--timeout=3m",
        "--values",
        "-",
    ];
    helm.run(&arguments, &values.to_string()).await.unwrap();
}
