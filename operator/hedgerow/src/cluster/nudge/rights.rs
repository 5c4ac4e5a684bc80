//! Whether pods may be nudged: asked before it matters, so that a missing right is not found in an incident.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use super::super::write::{WriteError, bounded};

/// What nudging needs: a verb, a resource of the core group, and its subresource.
const NEEDED: [(&str, &str, Option<&str>); 2] = [("list", "pods", None), ("patch", "pods", Some("status"))];

/// The first right that is missing to nudge pods in a namespace, in words; `None` when none is. Everybody may ask this of
/// themselves, so it needs no right.
///
/// # Errors
/// When the API server does not answer: then it is not known.
pub(super) async fn missing(client: &Client, namespace: &str) -> Result<Option<String>, WriteError> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    for (verb, resource, subresource) in NEEDED {
        let asked = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    namespace: Some(namespace.to_owned()),
                    verb: Some(verb.to_owned()),
                    resource: Some(resource.to_owned()),
                    subresource: subresource.map(str::to_owned),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = bounded(api.create(&PostParams::default(), &asked)).await?;
        if !answer.status.is_some_and(|status| status.allowed) {
            let slash = subresource.map(|name| format!("/{name}")).unwrap_or_default();
            return Ok(Some(format!(
                "the operator may not {verb} {resource}{slash} in namespace {namespace}"
            )));
        }
    }
    Ok(None)
}
