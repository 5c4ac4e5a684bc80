//! `hedgerow plan`: what would be decided, on a real Prometheus and without a cluster.

use std::process::Stdio;

use anyhow::{Result, ensure};
use hedgerow_tests::{Build, Prometheus, eventually, hedgerow};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::formats::{agreed, base, envoy, publishing};
use crate::policy::{policy, target, with};
use crate::scene::SOON;
use crate::service::{P95, Service};

struct Planned {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Planned {
    fn target(&self, number: usize) -> Value {
        let report: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr));
        report["targets"][number].clone()
    }
}

/// Runs `hedgerow plan -o json` on the policy.
async fn plan(policy: &Value, prometheus: &str) -> Planned {
    let mut child = Command::new(hedgerow(Build::Debug).unwrap())
        .args(["plan", "-o", "json", "-f", "-", "--prometheus", prometheus])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(policy.to_string().as_bytes())
        .await
        .unwrap();
    let output = child.wait_with_output().await.unwrap();
    Planned {
        code: output
            .status
            .code()
            .unwrap_or_else(|| panic!("it was killed: {output:?}")),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A service with this many queues and enough samples, and its Prometheus.
async fn measured() -> (Service, Prometheus) {
    let service = Service::start().await;
    let prometheus = service.scraped().await;
    (service, prometheus)
}

/// Plans until every reading is known.
async fn plan_decided(policy: &Value, prometheus: &str) -> Result<Planned> {
    eventually("every reading is known", SOON, async || {
        let planned = plan(policy, prometheus).await;
        ensure!(
            planned.code == 0,
            "exit code {}: {} {}",
            planned.code,
            planned.stdout,
            planned.stderr
        );
        Ok(planned)
    })
    .await
}

#[tokio::test]
async fn a_plan_says_what_would_be_decided() {
    let (_service, prometheus) = measured().await;
    let planned = plan_decided(&policy("kb"), &prometheus.url())
        .await
        .unwrap()
        .target(0);
    assert_eq!(
        (&planned["policy"], &planned["target"]),
        (&json!("default/kb"), &json!("shard-read"))
    );
    assert_eq!(
        (&planned["enabled"], &planned["reason"]),
        (&json!(true), &json!("Tuned"))
    );
    let delay = planned["delayMs"].as_f64().unwrap() / 1e3;
    assert!((delay / P95 - 1.0).abs() < 0.2, "{planned}");
    assert_eq!(planned["budgetPercent"], 10.0);
    assert_eq!(planned["saturation"][0]["value"], 3.0);
    let document: Value = serde_json::from_str(planned["documents"][0]["content"].as_str().unwrap()).unwrap();
    assert_eq!(document["delayMs"], planned["delayMs"]);
}

/// The text of the step of a plan's chain that is about `about`.
fn step<'a>(target: &'a Value, about: &str) -> &'a str {
    let chain = target["chain"].as_array().unwrap();
    let step = chain.iter().find(|step| step["about"] == about);
    step.unwrap_or_else(|| panic!("no step about {about} in {target}"))["text"]
        .as_str()
        .unwrap()
}

#[tokio::test]
async fn the_queries_of_a_plan_can_be_pasted_and_give_its_numbers() {
    let (_service, prometheus) = measured().await;
    let planned = plan_decided(&policy("kb"), &prometheus.url())
        .await
        .unwrap()
        .target(0);
    let pasted = prometheus.query(step(&planned, "query")).await.unwrap();
    let (ours, theirs) = (planned["latency"]["p95Ms"].as_f64().unwrap() / 1e3, pasted[0].1);
    assert!(
        (ours / theirs - 1.0).abs() < 0.1,
        "ours {ours}, the server's {theirs}"
    );
    let (name, query) = step(&planned, "signal").split_once(": ").unwrap();
    assert_eq!(name, "queue");
    assert!((prometheus.query(query).await.unwrap()[0].1 - 3.0).abs() < 1e-9);
    assert!(step(&planned, "rule").starts_with("Tuned: "));
}

#[tokio::test]
async fn other_formats_are_planned_over_the_bases_in_the_files() {
    let (_service, prometheus) = measured().await;
    let policy = publishing(&[envoy()]);
    let routes = async |given: &Value| {
        let planned = plan_decided(given, &prometheus.url()).await.unwrap().target(0);
        planned["documents"][1].clone()
    };
    let both = json!({ "apiVersion": "v1", "kind": "List", "items": [policy, base("1s", &agreed())] });
    let document = routes(&both).await;
    let content = document["content"].as_str().unwrap();
    assert!(content.contains("hedge_on_per_try_timeout"), "{document}");
    assert_eq!(
        (&document["format"], &document["message"]),
        (&json!("EnvoyRoute"), &json!(null))
    );

    let alone = routes(&policy).await;
    assert_eq!(alone["content"], json!(null));
    let message = alone["message"].as_str().unwrap();
    assert!(message.contains("is not in the files given"), "{message}");
}

#[tokio::test]
async fn a_plan_names_the_preset_that_fits_a_metric_named_by_hand() {
    let (_service, prometheus) = measured().await;
    let by_hand = with(
        policy("kb"),
        "/spec/targets/0/latency/metric",
        json!("grpc_client_call_duration_seconds"),
    );
    let planned = plan(&by_hand, &prometheus.url()).await.target(0);
    let note = planned["notes"][0].as_str().unwrap();
    assert!(note.contains("preset: GrpcClient"), "{note}");
}

#[tokio::test]
async fn a_plan_tells_what_it_does_not_know() {
    let (service, prometheus) = measured().await;
    let absent = with(
        policy("kb"),
        "/spec/targets/0/latency/metric",
        json!("no_such_seconds"),
    );
    let planned = plan(&absent, &prometheus.url()).await;
    assert_eq!(planned.code, 1, "{}", planned.stderr);
    let target = planned.target(0);
    assert_eq!(
        (&target["enabled"], &target["delayMs"]),
        (&json!(false), &Value::Null),
        "{target}"
    );
    assert_eq!(
        (&target["latency"]["state"], &target["latency"]["p95Ms"]),
        (&json!("Unknown"), &Value::Null)
    );
    assert_eq!(target["latency"]["reason"], "MetricNotFound");
    drop(service);
}

#[tokio::test]
async fn a_plan_without_a_source_says_so() {
    let (_service, mut prometheus) = measured().await;
    prometheus.stop().await.unwrap();
    let planned = plan(&policy("kb"), &prometheus.url()).await;
    assert_eq!(planned.code, 3, "{}{}", planned.stdout, planned.stderr);
}

/// Values that a careless reader would take for more than text.
const HOSTILE: [&str; 7] = [
    "kb\"",
    "k\\b",
    "kb\"} or vector(1) or x{a=\"",
    "k\nb",
    ".*",
    "kb|other",
    "${x}",
];

#[tokio::test]
async fn a_label_value_is_text_whatever_it_says() {
    let (service, prometheus) = measured().await;
    for (number, value) in HOSTILE.into_iter().enumerate() {
        let depth = 100.0 + f64::from(u32::try_from(number).unwrap());
        service
            .exposition
            .series("shard_queue_depth", &[("index", value)])
            .set(depth);
    }
    for (number, value) in HOSTILE.into_iter().enumerate() {
        let policy = with(
            policy("kb"),
            "/spec/targets/0/saturation/signals/0/matchLabels/index",
            json!(value),
        );
        let target = plan_decided(&policy, &prometheus.url()).await.unwrap().target(0);
        let depth = 100.0 + f64::from(u32::try_from(number).unwrap());
        assert_eq!(
            target["saturation"][0]["value"], depth,
            "{value:?} reads its own series alone: {target}"
        );
    }
}

/// Specs that are wrong in one way each, the field that the refusal names, and a word of its remedy.
fn bad() -> Vec<(Value, &'static str)> {
    let at = |pointer: &str, value: Value| with(policy("kb"), pointer, value);
    let twice = json!([target("shard-read"), target("shard-read")]);
    vec![
        (
            at("/spec/targets/0/latency/metric", json!("")),
            "spec.targets[0].latency.metric",
        ),
        (
            at("/spec/targets/0/delay", json!({ "percentile": "0" })),
            "spec.targets[0].delay.percentile",
        ),
        (
            at("/spec/targets/0/delay", json!({ "percentile": "100" })),
            "spec.targets[0].delay.percentile",
        ),
        (
            at("/spec/targets/0/delay", json!({ "min": "2s", "max": "1s" })),
            "spec.targets[0].delay",
        ),
        (at("/spec/targets", twice), "spec.targets[1]"),
        (
            at("/spec/publish/0/targets", json!([{ "name": "other" }])),
            "spec.publish",
        ),
        (
            at("/spec/publish/0/targets", json!([])),
            "spec.publish[0].targets",
        ),
        (
            at("/spec/targets/0/idempotent", json!(false)),
            "spec.targets[0].idempotent",
        ),
        (at("/spec/publish/0/key", json!("a/b")), "spec.publish[0].key"),
        (
            at("/spec/targets/0/latency/matchLabels", json!({ "a\"}": "b" })),
            "spec.targets[0].latency.matchLabels",
        ),
        (
            at("/spec/targets/0/latency/matchLabels", json!({ "index": "" })),
            "spec.targets[0].latency.matchLabels",
        ),
        (
            at("/spec/targets/0/latency/metric", json!("a{b=\"c\"}")),
            "spec.targets[0].latency.metric",
        ),
        (at("/spec/interval", json!("1 minute")), "spec.interval"),
    ]
}

#[tokio::test]
async fn bad_input_is_refused_alike_by_the_server_and_by_plan() {
    let namespace = crate::shared::namespace("bad").await;
    let mut complaints = Vec::new();
    for (policy, field) in bad() {
        let by_server = namespace.try_create(policy.clone()).await;
        match by_server {
            Ok(()) => complaints.push(format!("{field}: the server accepts it")),
            Err(message) if !message.contains(field) => {
                complaints.push(format!("{field}: the server says {message}"));
            }
            Err(_) => {}
        }
        let by_plan = plan(&policy, "http://127.0.0.1:9").await;
        if by_plan.code != 2 || !by_plan.stderr.contains(field) || by_plan.stderr.contains("panicked") {
            complaints.push(format!(
                "{field}: plan ends with {} and says {}",
                by_plan.code, by_plan.stderr
            ));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
