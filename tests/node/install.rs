//! The operator in a pod, from its image.

use std::time::Duration;

use hedgerow_tests::{Image, Node, eventually, repository};
use serde_json::{Value, json};

/// The namespace that the shipped manifests are for.
pub(crate) const HOME: &str = "hedgerow-system";

/// Who the operator is in the audit log.
pub(crate) const USER: &str = "system:serviceaccount:hedgerow-system:hedgerow";

/// Installs the CRD, the shipped rights, and the operator with two replicas under Pod Security `restricted`; waits until it is
/// ready. Its one source is the Prometheus at `url`.
pub(crate) async fn install(node: &Node, url: &str) {
    let kubectl = node.kubectl().unwrap();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": HOME, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    });
    kubectl.apply(&namespace.to_string()).await.unwrap();
    for manifest in [
        "crds/hedgepolicies.hedgerow.dev.yaml",
        "charts/hedgerow/rbac.yaml",
        "charts/hedgerow/rbac-nudge.yaml",
    ] {
        let manifest = repository().join(manifest);
        let arguments = ["apply", "--server-side", "-f", manifest.to_str().unwrap()];
        kubectl.run(&arguments).await.unwrap();
    }
    let crd = "crd/hedgepolicies.hedgerow.dev";
    kubectl
        .run(&["wait", "--for=condition=Established", crd])
        .await
        .unwrap();
    for object in [configuration(url), deployment()] {
        kubectl.apply_in(HOME, &object.to_string()).await.unwrap();
    }
    eventually("the operator is there", Duration::from_secs(180), async || {
        let arguments = [
            "-n",
            HOME,
            "rollout",
            "status",
            "deployment/hedgerow",
            "--timeout=10s",
        ];
        kubectl.run(&arguments).await
    })
    .await
    .unwrap();
}

fn configuration(url: &str) -> Value {
    let config = json!({
        "propagation": "0s", "nudge": true,
        "sources": [{ "name": "default", "url": url, "namespaces": ["*"], "timeout": "2s" }],
    });
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "hedgerow-config" },
        "data": { "operator.yaml": config.to_string() },
    })
}

fn deployment() -> Value {
    let labels = json!({ "app.kubernetes.io/name": "hedgerow" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "hedgerow", "labels": labels },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": "hedgerow",
                    "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
                    "containers": [{
                        "name": "operator", "image": Image::Operator.name(), "imagePullPolicy": "IfNotPresent",
                        "args": ["run", "--config", "/etc/hedgerow/operator.yaml"],
                        "readinessProbe": {
                            "httpGet": { "path": "/readyz", "port": 8080 }, "periodSeconds": 1,
                        },
                        "securityContext": {
                            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                            "capabilities": { "drop": ["ALL"] },
                        },
                        "volumeMounts": [{ "name": "config", "mountPath": "/etc/hedgerow" }],
                    }],
                    "volumes": [{ "name": "config", "configMap": { "name": "hedgerow-config" } }],
                },
            },
        },
    })
}
