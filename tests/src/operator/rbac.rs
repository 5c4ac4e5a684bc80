//! The rights that the chart grants.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{Helm, HelmVersion, Kubectl};

/// Grants them to an operator in `home` with this configuration, those to nudge pods among them or not; returns its
/// ServiceAccount's name.
pub(super) async fn grant(kubectl: &Kubectl, home: &str, config: &Value, may_nudge: bool) -> Result<String> {
    let mut values = values(config);
    values["nudge"] = may_nudge.into();
    let rendered = Helm::new(HelmVersion::V4)?.objects(home, home, &values).await?;
    let granted: Vec<_> = rendered.into_iter().filter(is_about_rights).collect();
    let account = granted
        .iter()
        .find(|object| object["kind"] == "ServiceAccount")
        .and_then(|object| object["metadata"]["name"].as_str())
        .context("the chart has no ServiceAccount")?
        .to_owned();
    kubectl
        .apply(&json!({ "apiVersion": "v1", "kind": "List", "items": granted }).to_string())
        .await?;
    Ok(account)
}

/// The values of the chart by which it grants what this configuration needs.
fn values(config: &Value) -> Value {
    let nowhere = json!([{ "name": "default", "url": "http://localhost", "namespaces": ["*"] }]);
    let mut values = json!({
        "image": { "repository": "localhost/hedgerow" },
        "sources": nowhere,
        // Those for people would be the same for every operator of the cluster.
        "rbac": { "aggregate": false },
    });
    values["watchNamespaces"] = config.get("watchNamespaces").cloned().unwrap_or(json!([]));
    let election = &config["leaderElection"];
    // The chart names the Lease after the release; a configuration that does not say a name means this one.
    values["leaderElection"]["lease"] = election["lease"].as_str().unwrap_or("hedgerow").into();
    if election["enabled"] == false {
        values["leaderElection"]["enabled"] = false.into();
        values["replicas"] = 1.into();
    }
    values
}

fn is_about_rights(object: &Value) -> bool {
    object["kind"] == "ServiceAccount"
        || object["apiVersion"]
            .as_str()
            .is_some_and(|version| version.starts_with("rbac.authorization.k8s.io/"))
}
