//! The operator works by the rights that the chart grants and the configuration that it makes, and `helm test` sees it.

use hedgerow_tests::{Cluster, Helm, HelmVersion, objects};
use serde_json::{Value, json};

use crate::process::{check, listening, run};
use crate::shared::{cluster_with_crd, find, install_crd, least, with};

/// What `helm test` would create in the cluster: the hooks but the pod, and the arguments of its program.
async fn test_of(release: &str, home: &str, values: &Value) -> (Vec<Value>, Vec<String>) {
    let helm = Helm::new(HelmVersion::V4).unwrap();
    let arguments = ["template", release, "charts/hedgerow", "-n", home, "-f", "-"];
    let everything = objects(&helm.run(&arguments, &values.to_string()).await.unwrap()).unwrap();
    let hooks = everything
        .into_iter()
        .filter(|object| object["metadata"]["annotations"]["helm.sh/hook"] == "test");
    let (pods, rights): (Vec<_>, Vec<_>) = hooks.partition(|object| object["kind"] == "Pod");
    let arguments = pods[0]["spec"]["containers"][0]["args"].as_array().unwrap();
    let arguments = arguments
        .iter()
        .map(|argument| argument.as_str().unwrap().to_owned());
    (rights, arguments.collect())
}

/// Installs all but the pods, runs the operator and its test, and returns what the test said.
async fn tested(
    cluster: &Cluster,
    name: &str,
    watching: bool,
    change: impl Fn(&[String]) -> Value,
) -> hedgerow_tests::Output {
    let kubectl = cluster.kubectl().unwrap();
    let home = cluster.namespace(name).await.unwrap();
    let other = cluster.namespace(&format!("{name}-policies")).await.unwrap();
    let watched: Vec<_> = watching.then(|| other.name().to_owned()).into_iter().collect();
    let values = with(
        with(least(), listening()),
        json!({ "watchNamespaces": watched, "crds": { "install": false }, "rbac": { "aggregate": false } }),
    );
    let values = with(values, change(&watched));
    let (mut all, arguments) = test_of(home.name(), home.name(), &values).await;
    let helm = Helm::new(HelmVersion::V4).unwrap();
    all.extend(helm.objects(home.name(), home.name(), &values).await.unwrap());
    kubectl
        .apply(&json!({ "apiVersion": "v1", "kind": "List", "items": all }).to_string())
        .await
        .unwrap();

    let account =
        find(&all, "Deployment", "hedgerow")["spec"]["template"]["spec"]["serviceAccountName"].clone();
    let config = find(&all, "ConfigMap", "hedgerow")["data"]["operator.yaml"].clone();
    let _operator = run(
        cluster,
        home.name(),
        account.as_str().unwrap(),
        config.as_str().unwrap(),
    )
    .await;
    let tester = format!("{}-check", account.as_str().unwrap());
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    check(cluster, home.name(), &tester, &arguments).await.unwrap()
}

#[tokio::test]
async fn in_some_namespaces_by_roles_alone() {
    let said = tested(cluster_with_crd().await, "confined", true, |_| json!({})).await;
    assert!(said.success, "{}", said.stderr);
    assert!(said.stdout.contains("confined-policies-"), "{}", said.stdout);
    assert!(
        said.stdout.contains("Ready=True") && said.stdout.contains("Published=True"),
        "{}",
        said.stdout
    );
}

#[tokio::test]
async fn in_the_whole_cluster_under_the_admission_policy() {
    let confined = json!({ "nudge": true, "admissionPolicy": { "enabled": true } });
    // Of its own: it would follow the policies of other tests, too.
    let cluster = Cluster::start().await.unwrap();
    install_crd(&cluster).await;
    let said = tested(&cluster, "everywhere", false, |_| confined.clone()).await;
    assert!(said.success, "{}", said.stderr);
    assert!(said.stdout.contains("Ready=True"), "{}", said.stdout);
}

#[tokio::test]
async fn a_test_that_fails_says_why() {
    let elsewhere = |watched: &[String]| {
        json!({
            "test": { "namespace": watched[0] },
            "sources": [{ "name": "default", "url": "http://localhost", "namespaces": ["elsewhere"] }],
        })
    };
    let said = tested(cluster_with_crd().await, "failing", true, elsewhere).await;
    assert!(!said.success, "{}", said.stdout);
    assert!(said.stderr.contains("SourceNotAvailable"), "{}", said.stderr);
}

#[tokio::test]
async fn the_test_goes_where_policies_are_followed_and_may_name_the_source() {
    let source = |namespaces: &[&str]| json!([{ "name": "default", "url": "http://localhost", "namespaces": namespaces }]);
    for (followed, allowed, expected) in [
        (json!([]), source(&["*"]), "home"),
        (json!([]), source(&["helpdesk", "shop"]), "helpdesk"),
        (json!(["shop"]), source(&["*"]), "shop"),
        (json!(["shop", "bank"]), source(&["helpdesk", "bank"]), "bank"),
    ] {
        let mut values = with(least(), json!({ "watchNamespaces": followed }));
        values["sources"] = allowed;
        let (rights, arguments) = test_of("hedgerow", "home", &values).await;
        assert!(
            arguments.contains(&format!("--namespace={expected}")),
            "{arguments:?}"
        );
        assert_eq!(find(&rights, "Role", "-check")["metadata"]["namespace"], expected);
    }
}
