//! Whether the operator may do what it has to, asked of the API server in the name of its service account.

use std::collections::BTreeSet;

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;

use crate::session::Session;

/// A resource by group, name and subresource, with verbs.
type Right = (&'static str, &'static str, &'static str, &'static [&'static str]);

/// What it needs wherever policies are.
const OF_POLICIES: [Right; 4] = [
    ("hedgerow.dev", "hedgepolicies", "", &["list", "watch", "get"]),
    ("hedgerow.dev", "hedgepolicies", "status", &["update"]),
    (
        "",
        "configmaps",
        "",
        &["list", "watch", "get", "create", "patch", "delete"],
    ),
    ("events.k8s.io", "events", "", &["create"]),
];

/// What it needs in its own namespace.
const AT_HOME: [Right; 2] = [
    ("", "configmaps", "", &["list", "watch"]),
    ("events.k8s.io", "events", "", &["create"]),
];

/// What it needs of its Lease.
const OF_LEASE: Right = ("coordination.k8s.io", "leases", "", &["get", "update"]);

/// What the account may not do, each in words. What it may do in the whole cluster is not asked for each namespace again.
pub(super) async fn missing(
    session: &Session,
    home: &str,
    account: &str,
    namespaces: &BTreeSet<String>,
) -> Result<Vec<String>, kube::Error> {
    let user = format!("system:serviceaccount:{home}:{account}");
    let mut missing = Vec::new();
    for right in OF_POLICIES {
        for verb in right.3 {
            if allowed(session, &user, right, verb, None, None).await? {
                continue;
            }
            for namespace in namespaces {
                if !allowed(session, &user, right, verb, Some(namespace), None).await? {
                    missing.push(words(right, verb, namespace));
                }
            }
        }
    }
    for right in AT_HOME {
        for verb in right.3 {
            if !allowed(session, &user, right, verb, Some(home), None).await? {
                missing.push(words(right, verb, home));
            }
        }
    }
    for verb in OF_LEASE.3 {
        if !allowed(session, &user, OF_LEASE, verb, Some(home), Some(&session.lease)).await? {
            missing.push(words(OF_LEASE, verb, home));
        }
    }
    Ok(missing)
}

fn words((group, resource, subresource, _): Right, verb: &str, namespace: &str) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{verb} {resource}{dot}{group}{slash}{subresource} in namespace {namespace}")
}

async fn allowed(
    session: &Session,
    user: &str,
    (group, resource, subresource, _): Right,
    verb: &str,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<bool, kube::Error> {
    let home = user.split(':').nth(2).unwrap_or_default();
    let asked = ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: Some(subresource.to_owned()),
        verb: Some(verb.to_owned()),
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    // The groups of a service account do not follow from its name.
    let groups = [
        "system:serviceaccounts",
        &format!("system:serviceaccounts:{home}"),
        "system:authenticated",
    ];
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            groups: Some(groups.map(str::to_owned).to_vec()),
            resource_attributes: Some(asked),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(session.client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
