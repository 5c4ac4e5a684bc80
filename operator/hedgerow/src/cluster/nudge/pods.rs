//! The pods of an output, as the API server has them.

use hedgerow_api::names::{FIELD_MANAGER, NUDGED_ANNOTATION};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use super::super::write::{WriteError, WriteKind, Writer, bounded};
use super::Nudge;

/// Pods are listed so many at once.
const PAGE: u32 = 500;
/// Those that have ended read no file any more.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The pods of an output that have not ended.
pub(super) async fn list(client: &Client, nudge: &Nudge) -> Result<Vec<PartialObjectMeta<Pod>>, WriteError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &nudge.config_map.namespace);
    let labels: Vec<_> = nudge
        .pods
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut params = ListParams::default()
        .labels(&labels.join(","))
        .fields(NOT_ENDED)
        .limit(PAGE);
    let mut pods = Vec::new();
    loop {
        let page = bounded(api.list_metadata(&params)).await?;
        pods.extend(page.items);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
            return Ok(pods);
        }
    }
}

/// Has kubelet look at what a pod mounts.
pub(super) async fn annotate(
    client: &Client,
    writer: &Writer,
    nudge: &Nudge,
    pod: &PartialObjectMeta<Pod>,
) -> Result<(), WriteError> {
    let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(client.clone(), &nudge.config_map.namespace);
    // A value that differs each time, or nothing would change. With the UID, since another pod may have the name by now.
    let value = format!("{}@{}", nudge.config_map.name, nudge.version);
    let patch = json!({
        "metadata": { "uid": pod.metadata.uid, "annotations": { NUDGED_ANNOTATION: value } },
    });
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let name = pod.name_any();
    let patch = Patch::Merge(&patch);
    let request = api.patch_subresource("status", &name, &params, &patch);
    writer.write(WriteKind::Nudge, request).await.map(drop)
}
