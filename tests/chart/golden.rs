//! What the chart renders, toggle by toggle: both Helms the same, and as people have read it.
//!
//! A golden file holds what differs from `least.yaml`, the documents of an install that says only what has to be said.

use std::collections::BTreeSet;

use hedgerow_tests::{Helm, HelmVersion, repository};
use serde_json::{Value, json};

use crate::shared::{holds, least, with};

const REMEDY: &str = "make manifests";

/// Every toggle, and the values that turn it.
fn toggles() -> Vec<(&'static str, Value)> {
    let two = json!(["helpdesk", "shop"]);
    vec![
        (
            "admission-policy",
            json!({ "admissionPolicy": { "enabled": true }, "nudge": true }),
        ),
        (
            "digest",
            json!({ "image": { "digest": format!("sha256:{}", "0a".repeat(32)) } }),
        ),
        (
            "dashboard",
            json!({ "dashboard": { "enabled": true, "annotations": { "folder": "SRE" } } }),
        ),
        ("ipv6", json!({ "listen": { "address": "::", "port": 9080 } })),
        (
            "names",
            json!({
                "fullnameOverride": "hr", "instance": "blue", "commonLabels": { "team": "sre" }, "leaderElection": { "lease": "hr-lease" },
            }),
        ),
        (
            "network-policy",
            json!({ "networkPolicy": {
            "enabled": true, "metricsFrom": [{ "namespaceSelector": { "matchLabels": { "name": "monitoring" } } }],
            "egress": [{ "to": [{ "ipBlock": { "cidr": "10.0.0.0/8" } }] }],
        } }),
        ),
        ("nudge", json!({ "nudge": true })),
        (
            "one-replica",
            json!({ "replicas": 1, "leaderElection": { "enabled": false }, "topologySpread": [] }),
        ),
        (
            "pod",
            json!({
                "podLabels": { "tier": "control" }, "podAnnotations": { "note": "x" }, "priorityClassName": "high",
                "nodeSelector": { "kubernetes.io/os": "linux" }, "tolerations": [{ "operator": "Exists" }],
                "affinity": { "nodeAffinity": {} }, "imagePullSecrets": [{ "name": "pull" }],
                "extraArgs": ["--some=thing"], "extraEnv": [{ "name": "A", "value": "b" }],
                "extraVolumes": [{ "name": "more", "emptyDir": {} }],
                "extraVolumeMounts": [{ "name": "more", "mountPath": "/more" }],
                "log": { "filter": "info,hedgerow=debug", "format": "text" }, "resources": { "limits": { "cpu": null } },
            }),
        ),
        (
            "prometheus-rule",
            json!({ "prometheusRule": { "enabled": true, "labels": { "release": "kps" } } }),
        ),
        (
            "service-monitor",
            json!({ "serviceMonitor": {
            "enabled": true, "interval": "30s", "scrapeTimeout": "10s", "labels": { "release": "kps" },
            "relabelings": [{ "action": "labeldrop", "regex": "pod" }],
            "metricRelabelings": [{ "action": "labeldrop", "regex": "x" }],
        } }),
        ),
        ("sources", json!({ "sources": every_source() })),
        ("status-page", json!({ "listen": { "statusPagePort": 8082 } })),
        (
            "watch-namespaces",
            json!({ "watchNamespaces": two, "nudge": true }),
        ),
        (
            "without-rights",
            json!({ "rbac": { "create": false }, "serviceAccount": { "create": false, "name": "theirs" } }),
        ),
        (
            "without-what-can-be-left-out",
            json!({
                "pdb": { "enabled": false }, "service": { "enabled": false }, "rbac": { "aggregate": false },
            }),
        ),
    ]
}

/// Every way to reach a source, and every key of one.
pub(crate) fn every_source() -> Value {
    json!([
        {
            "name": "bearer", "url": "https://prometheus.monitoring:9090/prefix", "namespaces": ["helpdesk", "shop"],
            "ca": { "configMap": { "name": "ca" } },
            "authentication": { "bearer": { "secret": { "name": "token" } } },
            "headers": { "X-Scope-OrgID": "helpdesk" }, "enforceNamespaceLabel": "namespace",
            "replicaLabel": "prometheus_replica", "offset": "30s", "concurrency": 2, "timeout": "5s",
            "maxBodyBytes": 33_554_432,
            "ceilings": {
                "minInterval": "10s", "minSaturationInterval": "2s", "maxWindow": "6h", "maxBudgetPercent": "12.5",
                "maxTargetsPerNamespace": 50,
            },
        },
        {
            "name": "basic", "url": "https://basic", "namespaces": ["*"], "ca": { "secret": { "name": "ca", "key": "root.pem" } },
            "authentication": { "basic": { "username": "u", "secret": { "name": "password", "key": "pw" } } },
        },
        {
            "name": "mtls", "url": "https://mtls", "namespaces": ["*"],
            "authentication": { "mtls": { "secret": { "name": "pair", "certKey": "c", "keyKey": "k" } } },
        },
        {
            "name": "mounted", "url": "https://mounted", "namespaces": ["*"], "caFile": "/more/ca.crt",
            "authentication": { "bearer": { "tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token" } },
        },
    ])
}

/// The documents that both Helms make of these values, hooks included. The CRD is tested by itself.
async fn documents(values: &Value) -> Vec<String> {
    let values = with(values.clone(), json!({ "crds": { "install": false } })).to_string();
    let mut rendered = Vec::new();
    for version in HelmVersion::ALL {
        let helm = Helm::new(version).unwrap();
        let arguments = [
            "template",
            "hedgerow",
            "charts/hedgerow",
            "-n",
            "hedgerow-system",
            "-f",
            "-",
        ];
        rendered.push(split(&helm.run(&arguments, &values).await.unwrap()));
    }
    // They order objects of equal kind each in its own way.
    let sorted = |documents: &[String]| documents.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(sorted(&rendered[0]), sorted(&rendered[1]), "Helm 3 and 4 differ");
    rendered.remove(1)
}

fn split(manifest: &str) -> Vec<String> {
    let documents = manifest
        .split("---\n")
        .map(|document| format!("{}\n", document.trim_end()));
    documents
        .filter(|document| {
            document
                .lines()
                .any(|line| !line.starts_with('#') && !line.is_empty())
        })
        .collect()
}

/// `# Source: ...` and the name, for a document that is gone.
fn title(document: &str) -> String {
    let line = |start| {
        document
            .lines()
            .find(|line| line.starts_with(start))
            .unwrap_or_default()
    };
    format!("{} {}", line("kind:"), line("  name:").trim())
}

fn golden(name: &str) -> std::path::PathBuf {
    repository()
        .join("tests/chart/golden")
        .join(format!("{name}.yaml"))
}

#[tokio::test]
async fn every_toggle_renders_what_was_read() {
    let base = documents(&least()).await;
    holds(&golden("least"), &format!("---\n{}", base.join("---\n")), REMEDY);
    for (name, values) in toggles() {
        let changed = documents(&with(least(), values)).await;
        let titles: BTreeSet<_> = changed.iter().map(|document| title(document)).collect();
        let mut told: String = base
            .iter()
            .map(|document| title(document))
            .filter(|title| !titles.contains(title))
            .map(|title| format!("# gone: {title}\n"))
            .collect();
        for document in changed.iter().filter(|document| !base.contains(document)) {
            told += &format!("---\n{}", without_files(document));
        }
        holds(&golden(name), &told, REMEDY);
    }
}

/// Alerts and dashboard are tested where they are made; here only that they are in it.
fn without_files(document: &str) -> String {
    for (start, kind) in [("spec:", "kind: PrometheusRule"), ("data:", "grafana_dashboard")] {
        if document.contains(kind) {
            let (head, _) = document.split_once(&format!("\n{start}")).unwrap();
            return format!("{head}\n{start} # left out here\n");
        }
    }
    document.to_owned()
}

#[tokio::test]
async fn alerts_and_dashboard_are_the_files_of_the_chart() {
    let values = with(
        least(),
        json!({ "prometheusRule": { "enabled": true }, "dashboard": { "enabled": true } }),
    );
    let objects = crate::shared::helm()
        .objects("hedgerow", "monitoring", &values)
        .await
        .unwrap();
    let file = |name: &str| std::fs::read_to_string(Helm::chart().join("files").join(name));
    let rules = crate::shared::find(&objects, "PrometheusRule", "hedgerow");
    let expected = file("alerts.yaml").unwrap_or_else(|_| "groups: []".to_owned());
    assert_eq!(rules["spec"], serde_saphyr::from_str::<Value>(&expected).unwrap());
    let dashboard = crate::shared::find(&objects, "ConfigMap", "-dashboard");
    let held: Value = serde_json::from_str(dashboard["data"]["hedgerow.json"].as_str().unwrap()).unwrap();
    let expected = file("dashboard.json").unwrap_or_else(|_| "{}".to_owned());
    assert_eq!(held, serde_json::from_str::<Value>(&expected).unwrap());
}

#[tokio::test]
async fn it_lints_without_a_warning() {
    let lint = ["lint", "--strict", "charts/hedgerow", "-f", "-"];
    for version in HelmVersion::ALL {
        let helm = Helm::new(version).unwrap();
        for values in [json!({}), least()] {
            helm.run(&lint, &values.to_string()).await.unwrap();
        }
    }
    for (_, values) in toggles() {
        let values = with(least(), values).to_string();
        crate::shared::helm().run(&lint, &values).await.unwrap();
    }
}

/// A right that was not meant must not slip in with a toggle.
#[tokio::test]
async fn no_rule_has_a_wildcard_and_with_namespaces_none_is_for_the_cluster() {
    for (name, values) in toggles() {
        let objects = crate::shared::helm()
            .objects("hedgerow", "home", &with(least(), values.clone()))
            .await
            .unwrap();
        for object in &objects {
            let rules = object["rules"].as_array().into_iter().flatten();
            for rule in rules {
                assert!(!rule.to_string().contains('*'), "{name}: {rule}");
                assert!(!rule.to_string().contains("secrets"), "{name}: {rule}");
            }
            let for_the_cluster = object["kind"].as_str().unwrap().starts_with("ClusterRole");
            let confined = !values["watchNamespaces"].is_null();
            assert!(!(confined && for_the_cluster), "{name}: {object}");
        }
    }
}
