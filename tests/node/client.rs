//! Clients in pods, which mount their document (`examples/mounted-client`), and what they say.

use anyhow::Result;
use hedgerow_tests::{Image, Kubectl};
use serde_json::{Value, json};

use crate::policy::KEY;

/// This many clients, called `name`, that mount the ConfigMap of that name; as Pod Security `restricted` wants them.
pub(crate) fn clients(name: &str, count: usize) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": count, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
                    "containers": [{
                        "name": "client", "image": Image::MountedClient.name(), "imagePullPolicy": "IfNotPresent",
                        "args": ["/etc/hedging", KEY],
                        "volumeMounts": [{ "name": "hedging", "mountPath": "/etc/hedging" }],
                        "securityContext": {
                            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                            "capabilities": { "drop": ["ALL"] },
                        },
                    }],
                    "volumes": [{ "name": "hedging", "configMap": { "name": name, "optional": true } }],
                },
            },
        },
    })
}

/// The lines of a client; `pod` names it as `kubectl logs` takes it.
pub(crate) async fn said_by(kubectl: &Kubectl, namespace: &str, pod: &str) -> Result<Vec<Value>> {
    let text = kubectl.run(&["--namespace", namespace, "logs", pod]).await?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Whether a line tells of a hedge; the others tell of a change of the document.
pub(crate) fn is_hedge(line: &Value) -> bool {
    line["hedge"] == true
}

/// When the last hedge was sent, in seconds since 1970.
pub(crate) fn last_hedge(told: &[Value]) -> Option<f64> {
    told.iter().rfind(|line| is_hedge(line))?["at"].as_f64()
}
