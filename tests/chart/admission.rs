//! The admission policy, on the real server: what the operator's account may write though RBAC would let it, and what not.

use std::time::Duration;

use anyhow::{Result, ensure};
use hedgerow_tests::{Kubectl, Namespace, eventually};
use serde_json::{Value, json};

use crate::shared::{cluster_with_crd, helm, least, with};

/// Longer than an admission policy takes to be in force.
const SOON: Duration = Duration::from_secs(60);

/// The policy in force for an account that RBAC lets do everything to ConfigMaps and pods.
struct Scene {
    kubectl: Kubectl,
    namespace: Namespace,
    account: String,
}

impl Scene {
    async fn set(name: &str) -> Self {
        let cluster = cluster_with_crd().await;
        let kubectl = cluster.kubectl().unwrap();
        let namespace = cluster.namespace(name).await.unwrap();
        let home = namespace.name().to_owned();
        let values = with(
            least(),
            json!({ "admissionPolicy": { "enabled": true }, "crds": { "install": false }, "rbac": { "aggregate": false } }),
        );
        let mut objects = helm().objects(&home, &home, &values).await.unwrap();
        objects.retain(|object| {
            object["kind"] == "ServiceAccount"
                || object["kind"]
                    .as_str()
                    .unwrap()
                    .starts_with("ValidatingAdmission")
        });
        assert_eq!(objects.len(), 5);
        let user = json!({ "kind": "ServiceAccount", "name": format!("{home}-hedgerow"), "namespace": home });
        // More than the chart grants, so that it is the policy that refuses.
        objects.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "too-much", "namespace": home },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "too-much" },
            "subjects": [user],
        }));
        objects.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "too-much" },
            "rules": [{ "apiGroups": [""], "resources": ["configmaps", "pods", "pods/status"], "verbs": ["*"] }],
        }));
        kubectl
            .apply(&json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string())
            .await
            .unwrap();
        let scene = Self {
            kubectl,
            account: format!("--as=system:serviceaccount:{home}:{home}-hedgerow"),
            namespace,
        };
        scene.in_force().await;
        scene
    }

    /// Both parts of the policy refuse something.
    async fn in_force(&self) {
        self.admin(&["create", "serviceaccount", "default"]).await;
        self.pod("probe").await;
        eventually("the policy is in force", SOON, async || {
            let map = self
                .operator(&["create", "configmap", "probe", "--dry-run=server"])
                .await;
            let pod = self
                .operator(&["label", "pod", "probe", "a=b", "--dry-run=server"])
                .await;
            ensure!(map.is_err() && pod.is_err(), "nothing is refused yet");
            Ok(())
        })
        .await
        .unwrap();
    }

    async fn admin(&self, arguments: &[&str]) {
        self.namespace.kubectl(arguments).await.unwrap();
    }

    async fn operator(&self, arguments: &[&str]) -> Result<String> {
        let common = ["--namespace", self.namespace.name(), self.account.as_str()];
        self.kubectl.run(&[&common, arguments].concat()).await
    }

    /// As the operator writes: server-side apply.
    async fn apply(&self, object: Value) -> Result<String> {
        let common = ["--namespace", self.namespace.name(), self.account.as_str()];
        let arguments = [
            &common[..],
            &["apply", "--server-side", "--force-conflicts", "-f", "-"],
        ]
        .concat();
        let output = self.kubectl.output(&arguments, &object.to_string()).await?;
        ensure!(output.success, "{}", output.stderr);
        Ok(output.stdout)
    }

    async fn pod(&self, name: &str) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "labels": { "app": "front" }, "annotations": { "theirs": "1" } },
            "spec": { "containers": [{ "name": "main", "image": "localhost/main:1" }] },
        });
        self.namespace.apply(&pod.to_string()).await.unwrap();
    }

    async fn refused(&self, arguments: &[&str], why: &str) {
        refused(self.operator(arguments).await, why);
    }
}

fn refused(answer: Result<String>, why: &str) {
    let said = format!("{:#}", answer.expect_err(why));
    assert!(
        said.contains("ValidatingAdmissionPolicy") && said.contains(why),
        "{why:?} is not in: {said}"
    );
}

fn config_map(name: &str, role: Option<&str>) -> Value {
    let labels = role.map(|role| json!({ "hedgerow.dev/role": role }));
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "labels": labels.unwrap_or(json!({})) },
        "data": { "a": "b" },
    })
}

const NOT_OURS: &str = "no label hedgerow.dev/role=output";
const OURS_ONLY: &str = "with the label hedgerow.dev/role=output only";
const STOP: &str = "only reads it";

#[tokio::test]
async fn the_operator_writes_its_own_config_maps_and_no_others() {
    let scene = Scene::set("admission-maps").await;
    for (name, role) in [("theirs", None), ("base", Some("base"))] {
        scene
            .namespace
            .apply(&config_map(name, role).to_string())
            .await
            .unwrap();
    }

    scene.apply(config_map("ours", Some("output"))).await.unwrap();
    scene
        .operator(&[
            "patch",
            "configmap",
            "ours",
            "--type=merge",
            "-p",
            r#"{"data":{"a":"c"}}"#,
        ])
        .await
        .unwrap();
    scene.operator(&["get", "configmap", "theirs"]).await.unwrap();

    refused(scene.apply(config_map("new", None)).await, OURS_ONLY);
    refused(scene.apply(config_map("new", Some("base"))).await, OURS_ONLY);
    refused(scene.apply(config_map("theirs", Some("output"))).await, NOT_OURS);
    refused(scene.apply(config_map("base", Some("output"))).await, NOT_OURS);
    scene
        .refused(&["label", "configmap", "ours", "hedgerow.dev/role-"], OURS_ONLY)
        .await;
    scene.refused(&["delete", "configmap", "theirs"], NOT_OURS).await;
    scene.refused(&["delete", "configmap", "base"], NOT_OURS).await;

    scene.operator(&["delete", "configmap", "ours"]).await.unwrap();
}

#[tokio::test]
async fn the_stop_of_a_person_is_only_read() {
    let scene = Scene::set("admission-stop").await;
    refused(
        scene.apply(config_map("hedgerow-off", Some("output"))).await,
        STOP,
    );
    scene
        .namespace
        .apply(&config_map("hedgerow-off", Some("output")).to_string())
        .await
        .unwrap();
    scene
        .refused(&["delete", "configmap", "hedgerow-off"], STOP)
        .await;
    scene
        .refused(&["label", "configmap", "hedgerow-off", "a=b"], STOP)
        .await;
    scene
        .operator(&["get", "configmap", "hedgerow-off"])
        .await
        .unwrap();
}

#[tokio::test]
async fn of_a_pod_it_writes_one_annotation() {
    let scene = Scene::set("admission-pods").await;
    scene.pod("front").await;
    let through = |subresource: &'static str, patch: &'static str| {
        let mut arguments = vec!["patch", "pod", "front", "--type=merge", "-p", patch];
        if !subresource.is_empty() {
            arguments.push(subresource);
        }
        arguments
    };
    let status = "--subresource=status";
    for nudge in ["1", "2"] {
        let patch = match nudge {
            "1" => r#"{"metadata":{"annotations":{"hedgerow.dev/nudged":"1"}}}"#,
            _ => r#"{"metadata":{"annotations":{"hedgerow.dev/nudged":"2"}}}"#,
        };
        scene.operator(&through(status, patch)).await.unwrap();
    }
    for (patch, why) in [
        (r#"{"metadata":{"annotations":{"mine":"1"}}}"#, "and no other"),
        (r#"{"metadata":{"annotations":{"theirs":"2"}}}"#, "and no other"),
        (r#"{"metadata":{"annotations":{"theirs":null}}}"#, "and no other"),
        (
            r#"{"metadata":{"labels":{"app":"other"}}}"#,
            "nothing else of its metadata",
        ),
        (
            r#"{"metadata":{"finalizers":["a.b/c"]}}"#,
            "nothing else of its metadata",
        ),
        (r#"{"status":{"phase":"Failed"}}"#, "not say how it is"),
    ] {
        scene.refused(&through(status, patch), why).await;
    }
    let whole = "only annotate pods, through the subresource status";
    scene
        .refused(
            &through("", r#"{"metadata":{"annotations":{"hedgerow.dev/nudged":"3"}}}"#),
            whole,
        )
        .await;
    scene
        .refused(&["set", "image", "pod/front", "main=localhost/other:1"], whole)
        .await;
    scene.refused(&["delete", "pod", "front"], whole).await;
    scene
        .refused(&["run", "mine", "--image=localhost/mine:1"], whole)
        .await;
}

#[tokio::test]
async fn it_is_about_the_operator_alone() {
    let scene = Scene::set("admission-others").await;
    scene
        .namespace
        .apply(&config_map("theirs", None).to_string())
        .await
        .unwrap();
    scene.admin(&["label", "configmap", "theirs", "a=b"]).await;
    scene.admin(&["label", "pod", "probe", "a=b"]).await;
    scene.admin(&["delete", "configmap", "theirs"]).await;
    scene
        .admin(&["delete", "pod", "probe", "--force", "--grace-period=0"])
        .await;
}
