//! What is installed without Helm, a kustomize base and one plain file, is what the chart renders.

use hedgerow_tests::repository;
use serde_json::{Value, json};

use crate::shared::{CRD, cluster, helm, holds, least, text, with};

const HOME: &str = "hedgerow-system";
const REMEDY: &str = "make manifests";
const HEADER: &str = "# Written from charts/hedgerow by `make manifests`: edit the chart, not this.\n";

const NAMESPACE: &str = "apiVersion: v1
kind: Namespace
metadata:
  name: hedgerow-system
  labels:
    app.kubernetes.io/name: hedgerow
    pod-security.kubernetes.io/enforce: restricted
";

const KUSTOMIZATION: &str = "apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: hedgerow-system
resources:
- namespace.yaml
- hedgepolicies.hedgerow.dev.yaml
- rbac.yaml
- deployment.yaml
# Say your own in an overlay: `behavior: replace`. A change renames it, so that the pods are renewed.
configMapGenerator:
- name: hedgerow
  files: [operator.yaml]
";

/// The documents of a plain install, without what only Helm wants to know.
async fn documents() -> Vec<String> {
    let values = with(least(), json!({ "crds": { "install": false } }));
    let rendered = helm().template("hedgerow", HOME, &values).await.unwrap();
    let documents = rendered.split("---\n").map(plain);
    documents.filter(|document| document.contains("kind: ")).collect()
}

fn plain(document: &str) -> String {
    let helms = |line: &&str| {
        let line = line.trim_start();
        [
            "# Source: ",
            "app.kubernetes.io/managed-by: ",
            "helm.sh/",
            "checksum/config: ",
            "# It is read once, at the start",
        ]
        .iter()
        .all(|start| !line.starts_with(start))
    };
    let lines: Vec<_> = document.trim_end().lines().filter(helms).collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let left = lines.iter().enumerate().filter(|(at, line)| {
        let empty = lines.get(at + 1).is_none_or(|next| indent(next) <= indent(line));
        !(line.trim_start() == "annotations:" && empty)
    });
    left.map(|(_, line)| format!("{line}\n")).collect()
}

fn of(documents: &[String], kinds: &[&str]) -> String {
    let chosen = documents.iter().filter(|document| {
        kinds
            .iter()
            .any(|kind| document.lines().any(|line| line == format!("kind: {kind}")))
    });
    chosen.cloned().collect::<Vec<_>>().join("---\n")
}

#[tokio::test]
async fn the_plain_files_are_what_the_chart_renders() {
    let documents = documents().await;
    let rights = [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ];
    let rights = of(&documents, &rights);
    let pods = of(&documents, &["Deployment", "Service", "PodDisruptionBudget"]);
    let config = of(&documents, &["ConfigMap"]);
    assert_eq!(
        documents.len(),
        [&rights, &pods, &config]
            .iter()
            .map(|text| text.split("---\n").count())
            .sum::<usize>(),
        "a kind is in none of the files"
    );
    let crd = text(&format!("crds/{CRD}.yaml"));
    let parsed: Value = serde_saphyr::from_str(&config).unwrap();
    let operator = parsed["data"]["operator.yaml"].as_str().unwrap();

    let folder = repository().join("charts/plain");
    for (name, content) in [
        ("kustomization.yaml", KUSTOMIZATION),
        ("namespace.yaml", NAMESPACE),
        ("rbac.yaml", rights.as_str()),
        ("operator.yaml", operator),
        ("deployment.yaml", pods.as_str()),
    ] {
        holds(
            &folder.join("base").join(name),
            &format!("{HEADER}{content}"),
            REMEDY,
        );
    }
    holds(&folder.join("base").join(format!("{CRD}.yaml")), &crd, REMEDY);
    let crd = crd.trim_start_matches("---\n");
    let bundle = [NAMESPACE, crd, &rights, &config, &pods].join("---\n");
    holds(
        &folder.join("hedgerow.yaml"),
        &format!("{HEADER}{bundle}"),
        REMEDY,
    );
}

#[tokio::test]
async fn the_api_server_takes_the_base_and_the_plain_file() {
    let kubectl = cluster().await.kubectl().unwrap();
    for (flag, path) in [("-k", "charts/plain/base"), ("-f", "charts/plain/hedgerow.yaml")] {
        let path = repository().join(path);
        let arguments = [
            "apply",
            "--server-side",
            "--validate=strict",
            flag,
            path.to_str().unwrap(),
        ];
        kubectl.run(&arguments).await.unwrap();
        let image = kubectl
            .run(&[
                "get",
                "deployment",
                "hedgerow",
                "-n",
                HOME,
                "-o",
                "jsonpath={.spec.template.spec.containers[0].image}",
            ])
            .await
            .unwrap();
        assert!(image.starts_with("localhost/hedgerow:"), "{image}");
    }
    let account = format!("--as=system:serviceaccount:{HOME}:hedgerow");
    for (verb, resource) in [
        ("list", "hedgepolicies"),
        ("patch", "configmaps"),
        ("create", "leases"),
    ] {
        let arguments = ["auth", "can-i", verb, resource, "-n", HOME, account.as_str()];
        assert_eq!(
            kubectl.run(&arguments).await.unwrap().trim(),
            "yes",
            "{verb} {resource}"
        );
    }
}

/// As `docs/install.md` shows it: another source, another image, and pods that are renewed for it.
#[tokio::test]
async fn an_overlay_says_its_own_source_and_image() {
    let kubectl = cluster().await.kubectl().unwrap();
    let folder = hedgerow_tests::scratch("overlay").unwrap();
    std::fs::create_dir_all(folder.join("base")).unwrap();
    for file in std::fs::read_dir(repository().join("charts/plain/base")).unwrap() {
        let file = file.unwrap().path();
        std::fs::copy(&file, folder.join("base").join(file.file_name().unwrap())).unwrap();
    }
    let overlay = folder.join("overlay");
    std::fs::create_dir_all(&overlay).unwrap();
    std::fs::write(
        overlay.join("kustomization.yaml"),
        "resources: [../base]\nimages: [{ name: localhost/hedgerow, newName: localhost:5000/hedgerow, newTag: v9 }]\n\
         configMapGenerator: [{ name: hedgerow, behavior: replace, files: [operator.yaml] }]\n",
    )
    .unwrap();
    std::fs::write(overlay.join("operator.yaml"), "sources: []\n").unwrap();
    let built = kubectl
        .run(&["kustomize", overlay.to_str().unwrap()])
        .await
        .unwrap();
    let objects = hedgerow_tests::objects(&built).unwrap();
    let map = objects
        .iter()
        .find(|object| object["kind"] == "ConfigMap")
        .unwrap();
    assert_eq!(map["data"]["operator.yaml"], "sources: []\n");
    let pod = &crate::shared::find(&objects, "Deployment", "hedgerow")["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "localhost:5000/hedgerow:v9");
    assert_eq!(pod["volumes"][0]["configMap"]["name"], map["metadata"]["name"]);
}
