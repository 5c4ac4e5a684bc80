//! What an account may do, as RBAC on the API server grants it, beside what it has done.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::Result;
use hedgerow_tests::{AuditEvent, Cluster};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::Api;

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    /// The API group; empty for the core.
    group: String,
    /// The plural, with its subresource: `pods/status`.
    resource: String,
    verb: String,
    /// Where; `None`: everywhere.
    namespace: Option<String>,
    /// On the object of this name alone; `None`: on all.
    name: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = if self.group.is_empty() {
            "core"
        } else {
            &self.group
        };
        write!(f, "{} {group}/{}", self.verb, self.resource)?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => write!(f, " everywhere"),
        }
    }
}

impl Right {
    fn allows(&self, request: &AuditEvent) -> bool {
        let object = &request.object_ref;
        let within = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        (self.group.as_str(), self.verb.as_str()) == (object.api_group.as_str(), request.verb.as_str())
            && self.resource == resource(request)
            && within(&self.namespace, &object.namespace)
            && within(&self.name, &object.name)
    }

    /// Whether `other` allows all that this does, and more.
    fn is_within(&self, other: &Self) -> bool {
        let narrower = |one: &Option<String>, other: &Option<String>| other.is_none() || one == other;
        self != other
            && (&self.group, &self.resource, &self.verb) == (&other.group, &other.resource, &other.verb)
            && narrower(&self.namespace, &other.namespace)
            && narrower(&self.name, &other.name)
    }
}

fn resource(request: &AuditEvent) -> String {
    let object = &request.object_ref;
    if object.subresource.is_empty() {
        object.resource.clone()
    } else {
        format!("{}/{}", object.resource, object.subresource)
    }
}

/// Those that no request needed. One that another one includes gives no power of its own, so it does not count.
pub(super) fn unused(rights: &BTreeSet<Right>, requests: &[AuditEvent]) -> Vec<String> {
    let needless = |right: &&Right| {
        let needed = requests.iter().any(|request| right.allows(request));
        !needed && !rights.iter().any(|other| right.is_within(other))
    };
    rights.iter().filter(needless).map(ToString::to_string).collect()
}

/// What was asked for in vain for want of a right.
pub(super) fn denied(requests: &[AuditEvent]) -> BTreeSet<String> {
    let denied = requests.iter().filter(|request| request.code() == 403);
    denied
        .map(|request| format!("{} {}", request.verb, request.request_uri))
        .collect()
}

/// What is granted to a ServiceAccount, by name.
pub(super) async fn granted(cluster: &Cluster, home: &str, account: &str) -> Result<BTreeSet<Right>> {
    let client = cluster.client().await?;
    let is_bound = |subjects: &Option<Vec<Subject>>| {
        let ours = |subject: &Subject| {
            subject.kind == "ServiceAccount"
                && subject.name == account
                && subject.namespace.as_deref() == Some(home)
        };
        subjects.iter().flatten().any(ours)
    };
    let mut rights = BTreeSet::new();
    for binding in Api::<ClusterRoleBinding>::all(client.clone())
        .list(&Default::default())
        .await?
    {
        if is_bound(&binding.subjects) {
            let rules = rules(&client, &binding.role_ref, "").await?;
            rights.extend(rules.iter().flat_map(|rule| each(rule, None)));
        }
    }
    for binding in Api::<RoleBinding>::all(client.clone())
        .list(&Default::default())
        .await?
    {
        let namespace = binding.metadata.namespace.clone().unwrap_or_default();
        if is_bound(&binding.subjects) {
            let rules = rules(&client, &binding.role_ref, &namespace).await?;
            rights.extend(rules.iter().flat_map(|rule| each(rule, Some(&namespace))));
        }
    }
    Ok(rights)
}

async fn rules(client: &kube::Client, role: &RoleRef, namespace: &str) -> Result<Vec<PolicyRule>> {
    let rules = if role.kind == "ClusterRole" {
        Api::<ClusterRole>::all(client.clone())
            .get(&role.name)
            .await?
            .rules
    } else {
        Api::<Role>::namespaced(client.clone(), namespace)
            .get(&role.name)
            .await?
            .rules
    };
    Ok(rules.unwrap_or_default())
}

/// The rights that a rule grants. A wildcard is a right to `*`, which no request needs.
fn each(rule: &PolicyRule, namespace: Option<&str>) -> Vec<Right> {
    let names: Vec<_> = match rule.resource_names.as_deref() {
        None | Some([]) => vec![None],
        Some(names) => names.iter().cloned().map(Some).collect(),
    };
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                rights.extend(names.iter().map(|name| Right {
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                    namespace: namespace.map(str::to_owned),
                    name: name.clone(),
                }));
            }
        }
    }
    rights
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(verb: &str, resource: &str, namespace: &str, name: &str, code: u16) -> AuditEvent {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let object =
            json!({ "resource": resource, "subresource": subresource, "namespace": namespace, "name": name });
        serde_json::from_value(json!({
            "verb": verb, "requestURI": "/somewhere", "user": { "username": "operator" }, "objectRef": object,
            "responseStatus": { "code": code }, "requestReceivedTimestamp": "",
        }))
        .unwrap()
    }

    fn rights(rules: &[(&str, &str, &[&str])], namespace: Option<&str>) -> BTreeSet<Right> {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let rule = |&(resource, verb, names): &(&str, &str, &[&str])| PolicyRule {
            api_groups: Some(owned(&[""])),
            resources: Some(owned(&[resource])),
            verbs: owned(&[verb]),
            resource_names: Some(owned(names)),
            ..PolicyRule::default()
        };
        rules.iter().flat_map(|one| each(&rule(one), namespace)).collect()
    }

    #[test]
    fn a_right_that_no_request_needs_is_named() {
        let rights = rights(
            &[("pods", "list", &[]), ("pods/status", "patch", &[])],
            Some("shop"),
        );
        let listed = request("list", "pods", "shop", "", 200);
        assert_eq!(
            unused(&rights, std::slice::from_ref(&listed)),
            ["patch core/pods/status in shop"]
        );
        // The right to patch pods themselves would be another one.
        let patched = request("patch", "pods", "shop", "front", 200);
        assert_eq!(unused(&rights, &[listed.clone(), patched]).len(), 1);
        let elsewhere = request("patch", "pods/status", "other", "front", 200);
        assert_eq!(unused(&rights, &[listed.clone(), elsewhere]).len(), 1);
        let needed = request("patch", "pods/status", "shop", "front", 200);
        assert!(unused(&rights, &[listed, needed]).is_empty());
    }

    #[test]
    fn a_wildcard_is_needed_by_nothing() {
        let rights = rights(&[("*", "list", &[]), ("pods", "*", &[])], None);
        assert_eq!(
            unused(&rights, &[request("list", "pods", "shop", "", 200)]).len(),
            2
        );
    }

    #[test]
    fn a_right_on_one_object_is_not_used_on_another() {
        let rights = rights(&[("leases", "get", &["hedgerow"])], Some("home"));
        assert_eq!(
            unused(&rights, &[request("get", "leases", "home", "other", 200)]).len(),
            1
        );
        assert!(unused(&rights, &[request("get", "leases", "home", "hedgerow", 200)]).is_empty());
    }

    #[test]
    fn what_a_wider_right_includes_gives_no_power() {
        let mut all = rights(&[("configmaps", "list", &[])], None);
        all.extend(rights(&[("configmaps", "list", &[])], Some("home")));
        assert!(unused(&all, &[request("list", "configmaps", "", "", 200)]).is_empty());
        assert_eq!(unused(&all, &[]), ["list core/configmaps everywhere"]);
    }

    #[test]
    fn a_request_that_was_refused_for_want_of_a_right_is_named() {
        let requests = [
            request("list", "secrets", "shop", "", 403),
            request("get", "pods", "shop", "a", 404),
        ];
        assert_eq!(denied(&requests), BTreeSet::from(["list /somewhere".to_owned()]));
    }
}
