//! How fast a client that mounts its document follows it: with a nudge, and without.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use hedgerow_tests::{
    AuditEvent, HelmVersion, Image, Mark, Namespace, Node, PrometheusOptions, Release, eventually,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::client::{clients, is_hedge, last_hedge, said_by};
use crate::policy::{KEY, hasty as policy, with};
use crate::service::Service;

/// Longer than kubelet takes by itself, which is a minute and a half.
const LONG: Duration = Duration::from_secs(240);

/// A policy with a ConfigMap and clients of its own name.
struct Case {
    name: &'static str,
    clients: usize,
    nudge: bool,
}

const CASES: [Case; 2] = [
    Case {
        name: "nudged",
        clients: 5,
        nudge: true,
    },
    Case {
        name: "left-alone",
        clients: 5,
        nudge: false,
    },
];

impl Case {
    fn policy(&self) -> Value {
        let policy = with(policy(self.name), "/spec/publish/0/configMap", json!(self.name));
        if !self.nudge {
            return policy;
        }
        let pods = json!({ "matchLabels": { "app": self.name } });
        with(policy, "/spec/publish/0/nudgePods", pods)
    }

    async fn pods(&self, namespace: &Namespace) -> Result<Vec<Pod>> {
        let labels = ListParams::default().labels(&format!("app={}", self.name));
        Ok(namespace.api::<Pod>().list(&labels).await?.items)
    }
}

/// What one client said, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
struct Stopped {
    mounted: f64,
    seen: f64,
    last_hedge: f64,
}

#[tokio::test]
#[ignore = "needs root and the images: make test-node"]
async fn a_mounted_document_is_followed_within_a_second_when_its_pods_are_nudged() {
    let Some(node) = crate::node(&[Image::Operator, Image::MountedClient]).await else {
        return;
    };
    let service = Service::start().await;
    let prometheus = PrometheusOptions::new()
        .listen(Node::HOST)
        .job("kb", service.exposition.address())
        .start()
        .await
        .unwrap();
    let values = json!({
        "propagation": "0s", "nudge": true,
        "sources": [{ "name": "default", "url": prometheus.url(), "namespaces": ["*"], "timeout": "2s" }],
    });
    Release::install(&node, HelmVersion::V4, &values).await.unwrap();
    let kubectl = node.kubectl().unwrap();
    let namespace = node.namespace("helpdesk").await.unwrap();
    for case in &CASES {
        namespace.apply(&case.policy().to_string()).await.unwrap();
    }
    for case in &CASES {
        eventually(&format!("{} is tuned", case.name), LONG, async || {
            let document = document(&namespace, case.name).await?;
            ensure!(document["reason"] == "Tuned", "it says {document}");
            Ok(())
        })
        .await
        .unwrap();
        namespace
            .apply(&clients(case.name, case.clients).to_string())
            .await
            .unwrap();
    }
    for case in &CASES {
        eventually(
            &format!("every client of {} hedges", case.name),
            LONG,
            async || {
                let pods = case.pods(&namespace).await?;
                ensure!(pods.len() == case.clients, "{} pods", pods.len());
                for pod in pods {
                    let told = said_by(&kubectl, namespace.name(), &pod.name_any()).await?;
                    ensure!(told.iter().any(is_hedge), "{} has not hedged", pod.name_any());
                }
                Ok(())
            },
        )
        .await
        .unwrap();
    }

    let begun = now();
    service.queue(80.0);
    let mut table = format!(
        "\nSeconds from the signal above its line, {} clients each:\n{:<12} {:>16} {:>16} {:>16} {:>16}\n",
        CASES[0].clients, "", "document written", "file mounted", "client sees it", "last hedge"
    );
    let mut seen_in = Vec::new();
    for case in &CASES {
        let stopped = eventually(
            &format!("every client of {} stops", case.name),
            LONG,
            async || {
                let mut stopped = Vec::new();
                for pod in case.pods(&namespace).await? {
                    let told = said_by(&kubectl, namespace.name(), &pod.name_any()).await?;
                    stopped.push(stop_of(&told).with_context(|| format!("{} hedges on", pod.name_any()))?);
                }
                Ok(stopped)
            },
        )
        .await
        .unwrap();
        let written = written(&node, case.name, begun).unwrap();
        let range = |time: fn(&Stopped) -> f64| {
            let times: Vec<f64> = stopped.iter().map(|stopped| time(stopped) - begun).collect();
            let (least, most) = (
                times.iter().copied().fold(f64::MAX, f64::min),
                times.iter().copied().fold(0.0, f64::max),
            );
            format!("{least:.2} .. {most:.2}")
        };
        let _ = writeln!(
            table,
            "{:<12} {:>16} {:>16} {:>16} {:>16}",
            case.name,
            format!("{:.2}", written - begun),
            range(|stopped| stopped.mounted),
            range(|stopped| stopped.seen),
            range(|stopped| stopped.last_hedge),
        );
        for stopped in &stopped {
            assert!(
                written <= stopped.mounted && stopped.mounted <= stopped.seen,
                "{stopped:?}"
            );
        }
        let delays = stopped.iter().map(|stopped| stopped.seen - written);
        seen_in.push(delays.fold(0.0, f64::max));
        for pod in case.pods(&namespace).await.unwrap() {
            let status = pod.status.and_then(|status| status.container_statuses).unwrap();
            assert!(
                status.iter().all(|container| container.restart_count == 0),
                "nothing restarts"
            );
        }
    }
    eprintln!("{table}");
    assert_only_annotations(&node).unwrap();
    // No moment is promised on a busy machine, but an order is: all of the nudged had seen it before the others had.
    assert!(seen_in[0] < seen_in[1], "{table}");
}

async fn document(namespace: &Namespace, config_map: &str) -> Result<Value> {
    let path = format!("jsonpath={{.data.{}}}", KEY.replace('.', "\\."));
    let text = namespace
        .kubectl(&["get", "configmap", config_map, "-o", &path])
        .await?;
    Ok(serde_json::from_str(&text)?)
}

/// When a client stopped hedging, if it has; the file was mounted and seen before.
fn stop_of(told: &[Value]) -> Result<Stopped> {
    let last = told
        .iter()
        .rfind(|line| !is_hedge(line))
        .context("it says nothing")?;
    ensure!(last["reason"] == "Saturated", "it follows {last}");
    let seconds = |value: &Value| value.as_f64().context("no time");
    Ok(Stopped {
        mounted: seconds(&last["mounted"])?,
        seen: seconds(&last["at"])?,
        last_hedge: last_hedge(told).context("it never hedged")?,
    })
}

/// When the operator sent the document that switches off.
fn written(node: &Node, config_map: &str, since: f64) -> Result<f64> {
    let events = node.audit().writes_by(Release::USER, Mark::default())?;
    let switches_off = |event: &&AuditEvent| {
        let text = event.request_object["data"][KEY].as_str().unwrap_or_default();
        event.object_ref.resource == "configmaps"
            && event.object_ref.name == config_map
            && text.contains("Saturated")
    };
    let times = events.iter().filter(switches_off).map(received);
    times
        .flatten()
        .find(|time| *time >= since)
        .context("no such document")
}

fn received(event: &AuditEvent) -> Result<f64> {
    let at: Timestamp = event.received.parse()?;
    Ok(at.as_duration().as_secs_f64())
}

/// Whatever the operator wrote to pods was their annotation, through their status.
fn assert_only_annotations(node: &Node) -> Result<()> {
    let events = node.audit().writes_by(Release::USER, Mark::default())?;
    let mut nudges = 0;
    for event in events.iter().filter(|event| event.object_ref.resource == "pods") {
        assert_eq!(
            (event.verb.as_str(), event.object_ref.subresource.as_str()),
            ("patch", "status")
        );
        let sent = event.request_object.as_object().context("no body")?;
        let keys: Vec<_> = sent.keys().map(String::as_str).collect();
        assert_eq!(keys, ["metadata"], "{sent:?}");
        nudges += 1;
    }
    ensure!(nudges == CASES[0].clients, "{nudges} nudges");
    Ok(())
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}
