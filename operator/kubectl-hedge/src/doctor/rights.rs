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

/// What it needs where policies name pods to nudge.
const OF_NUDGES: [Right; 2] = [("", "pods", "", &["list"]), ("", "pods", "status", &["patch"])];

/// What it needs in its own namespace. The name of what is created cannot be demanded.
const AT_HOME: [Right; 3] = [
    ("", "configmaps", "", &["list", "watch"]),
    ("events.k8s.io", "events", "", &["create"]),
    ("coordination.k8s.io", "leases", "", &["create"]),
];

/// What it needs of its Lease.
const OF_LEASE: Right = ("coordination.k8s.io", "leases", "", &["get", "update"]);

const OF_CHART: &str = "install the chart's RBAC anew";
const OF_NUDGING: &str = "set nudge in the values of the chart, or remove nudgePods from the policies there";

/// What the account may not do, each in words and with the remedy. What it may do in the whole cluster is not asked for each
/// namespace again. `nudging` are the namespaces whose policies name pods to nudge.
pub(super) async fn missing(
    session: &Session,
    home: &str,
    account: &str,
    namespaces: &BTreeSet<String>,
    nudging: &BTreeSet<String>,
) -> Result<Vec<String>, kube::Error> {
    let user = format!("system:serviceaccount:{home}:{account}");
    let mut missing = Vec::new();
    let of_policies = OF_POLICIES.map(|right| (right, namespaces, OF_CHART));
    let of_nudges = OF_NUDGES.map(|right| (right, nudging, OF_NUDGING));
    for (right, namespaces, remedy) in of_policies.into_iter().chain(of_nudges) {
        if namespaces.is_empty() {
            continue;
        }
        for verb in right.3 {
            if allowed(session, &user, right, verb, None, None).await? {
                continue;
            }
            for namespace in namespaces {
                if !allowed(session, &user, right, verb, Some(namespace), None).await? {
                    missing.push(words(right, verb, namespace, remedy));
                }
            }
        }
    }
    for right in AT_HOME {
        for verb in right.3 {
            if !allowed(session, &user, right, verb, Some(home), None).await? {
                missing.push(words(right, verb, home, OF_CHART));
            }
        }
    }
    for verb in OF_LEASE.3 {
        if !allowed(session, &user, OF_LEASE, verb, Some(home), Some(&session.lease)).await? {
            missing.push(words(OF_LEASE, verb, home, OF_CHART));
        }
    }
    Ok(missing)
}

fn words((group, resource, subresource, _): Right, verb: &str, namespace: &str, remedy: &str) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{verb} {resource}{dot}{group}{slash}{subresource} in namespace {namespace}: {remedy}")
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

#[cfg(test)]
mod tests {
    use hedgerow_tests::{Helm, HelmVersion};
    use serde_json::{Value, json};

    use super::*;

    /// A verb on a resource, with its subresource, of a group; and the only object that it is of, if it is of one.
    type Single = (String, String, String, Option<String>);

    fn asked(rights: &[Right], name: Option<&str>) -> BTreeSet<Single> {
        let single = |(group, resource, subresource, verbs): &Right| {
            let resource = match *subresource {
                "" => (*resource).to_owned(),
                subresource => format!("{resource}/{subresource}"),
            };
            let group = (*group).to_owned();
            let of = move |verb: &&str| {
                (
                    (*verb).to_owned(),
                    resource.clone(),
                    group.clone(),
                    name.map(str::to_owned),
                )
            };
            verbs.iter().map(of).collect::<Vec<_>>()
        };
        rights.iter().flat_map(single).collect()
    }

    fn texts(list: &Value) -> Vec<String> {
        let texts = list.as_array().into_iter().flatten();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    /// What the role of this name grants.
    fn granted(objects: &[Value], name: &str) -> BTreeSet<Single> {
        let is_it = |object: &&Value| {
            let kind = object["kind"].as_str().unwrap();
            ["Role", "ClusterRole"].contains(&kind) && object["metadata"]["name"] == name
        };
        let role = objects.iter().find(is_it);
        let role = role.unwrap_or_else(|| panic!("no role {name}"));
        let mut granted = BTreeSet::new();
        for rule in role["rules"].as_array().unwrap() {
            let names = texts(&rule["resourceNames"]);
            let names = if names.is_empty() {
                vec![None]
            } else {
                names.into_iter().map(Some).collect()
            };
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        for name in &names {
                            granted.insert((verb.clone(), resource.clone(), group.clone(), name.clone()));
                        }
                    }
                }
            }
        }
        granted
    }

    #[tokio::test]
    async fn what_is_asked_for_is_what_the_chart_grants() {
        let values = json!({
            "image": { "repository": "localhost/hedgerow" },
            "sources": [{ "name": "default", "url": "http://localhost", "namespaces": ["*"] }],
            "nudge": true,
        });
        let helm = Helm::new(HelmVersion::V4).unwrap();
        let objects = helm
            .objects("hedgerow", "hedgerow-system", &values)
            .await
            .unwrap();
        let at_home = &asked(&AT_HOME, None) | &asked(&[OF_LEASE], Some("hedgerow"));
        assert_eq!(granted(&objects, "hedgerow-own"), at_home);
        assert_eq!(granted(&objects, "hedgerow-policies"), asked(&OF_POLICIES, None));
        assert_eq!(granted(&objects, "hedgerow-nudge"), asked(&OF_NUDGES, None));
    }
}
