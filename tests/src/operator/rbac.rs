//! The rights that the chart grants.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{Kubectl, repository};

const SHIPPED: &str = "charts/hedgerow/rbac.yaml";
const SHIPPED_TO_NUDGE: &str = "charts/hedgerow/rbac-nudge.yaml";

/// Grants them to an operator in `home`, for the namespaces `watched` or for all, those to nudge pods among them or not;
/// returns its ServiceAccount's name.
pub(super) async fn grant(
    kubectl: &Kubectl,
    home: &str,
    watched: &[String],
    nudging: bool,
) -> Result<String> {
    let mut shipped = read(SHIPPED)?;
    if nudging {
        shipped.extend(read(SHIPPED_TO_NUDGE)?);
    }
    let account = shipped
        .iter()
        .find(|object| object["kind"] == "ServiceAccount")
        .and_then(|object| object["metadata"]["name"].as_str())
        .with_context(|| format!("{SHIPPED} has no ServiceAccount"))?
        .to_owned();
    let moved: Vec<_> = shipped
        .into_iter()
        .flat_map(|object| placed(object, home, watched))
        .collect();
    kubectl
        .apply(&json!({ "apiVersion": "v1", "kind": "List", "items": moved }).to_string())
        .await?;
    Ok(account)
}

fn read(manifest: &str) -> Result<Vec<Value>> {
    let path = repository().join(manifest);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("{manifest} is not YAML"))
}

/// One shipped object, where this install needs it. What is bound to the whole cluster is bound in each watched namespace
/// instead when there are any, as the chart does.
fn placed(object: Value, home: &str, watched: &[String]) -> Vec<Value> {
    match object["kind"].as_str() {
        Some("ClusterRole") => vec![object],
        Some("ClusterRoleBinding") if watched.is_empty() => vec![bound(object, home)],
        Some("ClusterRoleBinding") => watched
            .iter()
            .map(|namespace| {
                let mut binding = bound(object.clone(), home);
                binding["kind"] = "RoleBinding".into();
                binding["metadata"]["namespace"] = namespace.as_str().into();
                binding
            })
            .collect(),
        _ => {
            let mut object = with_subjects_in(object, home);
            object["metadata"]["namespace"] = home.into();
            vec![object]
        }
    }
}

/// A binding of this install alone: the shipped name belongs to the one install of a real cluster.
fn bound(binding: Value, home: &str) -> Value {
    let mut binding = with_subjects_in(binding, home);
    let name = format!(
        "{}-{home}",
        binding["metadata"]["name"].as_str().unwrap_or_default()
    );
    binding["metadata"]["name"] = name.into();
    binding
}

fn with_subjects_in(mut object: Value, home: &str) -> Value {
    let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        subject["namespace"] = home.into();
    }
    object
}
