//! Two tenants share one Prometheus, whose administrator enforces a namespace label. One of them tries everything to read the
//! series of the other: what it reads is its own, and the values prove it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hedgerow_tests::{Exposition, Namespace, OperatorOptions, PrometheusOptions, Series, eventually};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::policy::{KEY, hasty, policy, with};
use crate::scene::{SOON, document};
use crate::shared;

/// The victim's queue, and the thief's: no number that comes up by itself.
const THEIRS: f64 = 77_123.0;
const OURS: f64 = 3.0;
/// Their calls take this long, in seconds, and the thief's a tenth of it.
const SLOW: f64 = 0.8;
const FAST: f64 = 0.08;
const LATENCY: &str = "shard_read_duration_seconds";

/// What both tenants have, told apart by their namespace alone; and what only the victim has.
struct Services {
    exposition: Exposition,
    traffic: AbortHandle,
}

impl Services {
    async fn start(thief: &str, victim: &str) -> Self {
        let exposition = Exposition::serve().await.unwrap();
        let bounds = [0.01, 0.05, 0.1, 0.5, 1.0, 2.0];
        let latency = |namespace: &str| {
            exposition.histogram(LATENCY, &[("index", "kb"), ("namespace", namespace)], &bounds)
        };
        let counter = |name: &str, namespace: &str| {
            exposition.series(name, &[("index", "kb"), ("namespace", namespace)])
        };
        let (fast, slow) = (latency(thief), latency(victim));
        counter("shard_queue_depth", thief).set(OURS);
        for metric in ["shard_queue_depth", "only_theirs", "alive"] {
            counter(metric, victim).set(THEIRS);
        }
        let rejected: Series = counter("rejected_total", victim);
        let traffic = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(100));
            loop {
                ticks.tick().await;
                fast.observe(FAST, 50.0);
                slow.observe(SLOW, 50.0);
                rejected.add(THEIRS);
            }
        });
        Self {
            exposition,
            traffic: traffic.abort_handle(),
        }
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        self.traffic.abort();
    }
}

/// A policy that publishes under its own name, with these labels of its latency and this signal beside one that is well.
fn attempt(name: &str, labels: Value, expressions: Value, signal: Value) -> Value {
    let policy = with(hasty(name), "/spec/publish/0/configMap", json!(name));
    let policy = with(policy, "/spec/targets/0/latency/matchLabels", labels);
    let policy = with(policy, "/spec/targets/0/latency/matchExpressions", expressions);
    with(policy, "/spec/targets/0/saturation/signals", json!([signal]))
}

/// What the thief tries, and whether it reads its own series by that or nothing.
fn attempts(thief: &str, victim: &str) -> Vec<(Value, bool)> {
    let own = json!({ "index": "kb" });
    let gauge = |labels: Value| json!({ "name": "queue", "metric": "shard_queue_depth", "matchLabels": labels, "offAbove": "50" });
    let key = |operator: &str, values: &[&str]| json!({ "key": "namespace", "operator": operator, "values": values });
    let breaking = [
        format!("kb\",namespace=\"{victim}"),
        format!("kb\"}} or {LATENCY}_bucket{{namespace=\"{victim}"),
        format!("kb\\\",namespace=\\\"{victim}"),
        ".*".to_owned(),
        "kb|.*".to_owned(),
        "kb\n".to_owned(),
    ];
    let mut all = vec![
        (
            attempt("honest", own.clone(), json!([]), gauge(own.clone())),
            true,
        ),
        (
            attempt(
                "among",
                own.clone(),
                json!([key("In", &[victim, thief])]),
                gauge(own.clone()),
            ),
            true,
        ),
        (
            attempt(
                "exists",
                own.clone(),
                json!([{ "key": "namespace", "operator": "Exists" }]),
                gauge(own.clone()),
            ),
            true,
        ),
        (
            attempt(
                "named",
                json!({ "namespace": victim }),
                json!([]),
                gauge(json!({ "namespace": victim })),
            ),
            false,
        ),
        (
            attempt(
                "others",
                own.clone(),
                json!([key("NotIn", &[thief])]),
                gauge(json!({ "namespace": victim })),
            ),
            false,
        ),
    ];
    for (number, value) in breaking.iter().enumerate() {
        let labels = json!({ "index": value });
        all.push((
            attempt(
                &format!("breaks-{number}"),
                labels.clone(),
                json!([]),
                gauge(labels),
            ),
            false,
        ));
    }
    let witness = json!({ "witness": { "metric": "alive", "matchLabels": { "index": "kb" } } });
    let signals = [
        json!({ "name": "queue", "metric": "only_theirs", "offAbove": "50" }),
        json!({ "name": "queue", "rateOf": "rejected_total", "offAbove": "1" }),
        // Their witness would make my silence a zero.
        json!({ "name": "queue", "rateOf": "unborn_total", "offAbove": "1", "zeroWhenAbsent": witness }),
    ];
    for (number, signal) in signals.into_iter().enumerate() {
        all.push((
            attempt(&format!("signal-{number}"), own.clone(), json!([]), signal),
            false,
        ));
    }
    // Of a rule that all namespaces share only the instances of mine count, and there are none.
    let alert = json!({ "name": "queue", "alert": "TheirIncident" });
    all.push((attempt("alert", own, json!([]), alert), true));
    all
}

#[tokio::test]
async fn a_tenant_reads_its_own_series_whatever_it_says() {
    let cluster = shared::cluster().await;
    let (thief, victim) = (
        shared::namespace("thief").await,
        shared::namespace("victim").await,
    );
    let home = shared::namespace("tenants-operator").await;
    let services = Services::start(thief.name(), victim.name()).await;
    let firing = format!("only_theirs{{namespace=\"{}\"}} > 0", victim.name());
    let prometheus = PrometheusOptions::new()
        .job("both", services.exposition.address())
        .alert("TheirIncident", &firing)
        .start()
        .await
        .unwrap();
    let source = |name: &str, namespaces: Value| {
        json!({
            "name": name, "url": prometheus.url(), "namespaces": namespaces, "timeout": "2s",
            "enforceNamespaceLabel": "namespace", "ceilings": { "maxBudgetPercent": "4" },
        })
    };
    let sources = json!([
        source("default", json!(["*"])),
        source("theirs", json!([victim.name()]))
    ]);
    let operator = OperatorOptions::new(cluster, &home, &[&thief, &victim]).set("sources", sources);
    let operator = operator.start().await.unwrap();

    let tried = attempts(thief.name(), victim.name());
    for (policy, _) in &tried {
        thief.apply(&policy.to_string()).await.unwrap();
    }
    // They read theirs: all of it is there to be read, and the alert fires.
    let own = json!({ "index": "kb" });
    let incident = json!({ "name": "queue", "alert": "TheirIncident" });
    for (name, signal) in [
        (
            "deep",
            json!({ "name": "queue", "metric": "only_theirs", "offAbove": "50" }),
        ),
        ("alarmed", incident),
    ] {
        let policy = with(
            attempt(name, own.clone(), json!([]), signal),
            "/spec/source",
            json!("theirs"),
        );
        victim.apply(&policy.to_string()).await.unwrap();
        says(&victim, name, "Saturated").await;
    }

    for (policy, reads) in &tried {
        let name = policy["metadata"]["name"].as_str().unwrap();
        let document = says(&thief, name, if *reads { "Tuned" } else { "SaturationUnknown" }).await;
        if *reads {
            let delay = document["delayMs"].as_f64().unwrap();
            assert!((50.0..=100.0).contains(&delay), "{name}: {document}");
            assert_eq!(
                document["budget"]["percent"], 4.0,
                "the ceiling of the source: {document}"
            );
        }
    }
    // Neither does a word of what the thief is told say what they have.
    for (policy, reads) in &tried {
        let name = policy["metadata"]["name"].as_str().unwrap();
        let status = eventually(&format!("{name} has a status"), SOON, async || {
            status(&thief, name).await
        })
        .await
        .unwrap();
        let target = &status["targets"][0];
        let signal = &target["signals"][0];
        assert_eq!(signal["state"] == "Fresh", *reads, "{name}: {target:#}");
        assert!(!status.to_string().contains("77123"), "{name}: {status:#}");
        let explained = operator.explain(thief.name(), name).await.unwrap();
        assert!(!explained.to_string().contains("77123"), "{name}: {explained:#}");
    }
}

/// Whether a source exists is not told to those who may not name it.
#[tokio::test]
async fn a_source_of_others_is_as_one_that_does_not_exist() {
    let cluster = shared::cluster().await;
    let (thief, victim) = (
        shared::namespace("outsider").await,
        shared::namespace("insider").await,
    );
    let home = shared::namespace("sources-operator").await;
    let source = json!([{ "name": "theirs", "url": "http://127.0.0.1:1", "namespaces": [victim.name()] }]);
    let operator = OperatorOptions::new(cluster, &home, &[&thief, &victim]).set("sources", source);
    let _operator = operator.start().await.unwrap();
    let mut told = Vec::new();
    for source in ["theirs", "absent"] {
        let policy = with(policy(source), "/spec/publish/0/configMap", json!(source));
        thief
            .apply(&with(policy, "/spec/source", json!(source)).to_string())
            .await
            .unwrap();
        says(&thief, source, "SourceNotAvailable").await;
        let status = eventually("it is told", SOON, async || status(&thief, source).await)
            .await
            .unwrap();
        let accepted = status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["type"] == "Accepted")
            .unwrap();
        told.push(accepted["message"].as_str().unwrap().replace(source, "SOURCE"));
    }
    assert_eq!(told[0], told[1]);
}

#[tokio::test]
async fn a_policy_names_neither_urls_nor_secrets() {
    let namespace = shared::namespace("urls").await;
    assert_eq!(namespace.try_create(policy("kb")).await, Ok(()));
    for (pointer, value) in [
        ("/spec/source", json!("http://127.0.0.1:9090")),
        ("/spec/url", json!("http://127.0.0.1:9090")),
        ("/spec/headers", json!({ "X-Scope-OrgID": "other" })),
        ("/spec/secretRef", json!({ "name": "token" })),
        ("/spec/targets/0/latency/query", json!("up")),
        ("/spec/targets/0/latency/metric", json!("{__name__=~\".+\"}")),
        ("/spec/publish/0/namespace", json!("kube-system")),
        ("/spec/publish/0/configMap", json!("kube-system/a")),
        ("/spec/publish/0/secret", json!("token")),
    ] {
        let refused = namespace.try_create(with(policy("kb"), pointer, value)).await;
        assert!(refused.is_err(), "{pointer}");
    }
}

async fn says(namespace: &Namespace, name: &str, reason: &str) -> Value {
    eventually(&format!("{name} says {reason}"), SOON, async || {
        let document = document(namespace, name, KEY).await?;
        ensure!(document["reason"] == reason, "it says {document}");
        Ok(document)
    })
    .await
    .unwrap()
}

/// The status of a policy, once it says what was read.
async fn status(namespace: &Namespace, name: &str) -> Result<Value> {
    let policy = namespace.policy(name).await?;
    let status = &policy["status"];
    let target = status["targets"].get(0).context("no target yet")?;
    ensure!(!target["reason"].is_null(), "no reason yet");
    Ok(status.clone())
}
