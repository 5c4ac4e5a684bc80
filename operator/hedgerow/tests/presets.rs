//! Every preset, compiled from a policy and read by a real Prometheus that scrapes what its exporter exposes
//! (`tests/samples`). Medians are worked out by hand from the counts in the samples.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::routing::get;
use hedgerow::compile::{Target, compile};
use hedgerow::settings::DeclaredSource;
use hedgerow_api::decode_spec;
use hedgerow_api::preset::{LATENCY, SIGNALS};
use hedgerow_signals::{Source, TargetReadings};
use hedgerow_tests::{Prometheus, PrometheusOptions, eventually};
use hedgerow_tuner::{SignalValue, WindowReading};
use serde_json::{Value, json};

/// A preset, the series that are meant, and the median in seconds.
const MEDIANS: &[(&str, &str, &str, f64)] = &[
    ("GrpcAttempt", "otel_scope_name", "grpc-go", 3.5),
    ("GrpcAttempt", "otel_scope_name", "grpc-java", 0.0042),
    ("GrpcClient", "grpc_method", "helloworld.Greeter/SayHello", 0.0042),
    ("EnvoyUpstream", "cluster", "aaa", 0.0875),
    ("Istio", "destination_workload", "productpage-v1", 0.02),
    ("LinkerdOutbound", "authority", "t1-svc:9090", 0.003_595),
    ("IngressNginx", "ingress", "monitoring-ingress", 0.175),
    ("SpringServer", "uri", "/", 0.001_980_6),
    ("SpringClient", "client_name", "search", 0.001_980_6),
    ("OtelHttpClient", "server_address", "search", 0.05),
    ("HedgerowClient", "target", "shard-read", 0.108_122),
];

/// A preset among whose series are attempts that were cut short and failures that are ignored; how many were cut short for each
/// one that was answered, and their median in seconds. Of Spring's 5, 2.5 are reached 5/6 into the bucket from 2.446676 to
/// 2.796201 ms; of OpenTelemetry's 4, two end by 100 ms.
const OUTCOMES: &[(&str, f64, f64)] = &[
    ("SpringClient", 5.0 / 20.0, 0.002_737_9),
    ("OtelHttpClient", 4.0 / 20.0, 0.1),
];

/// A preset, the series that are meant, and the value that is compared with the line.
const VALUES: &[(&str, &str, &str, f64)] = &[
    ("ElasticsearchQueue", "cluster", "elasticsearch", 0.0),
    ("ElasticsearchRejected", "cluster", "elasticsearch", 2.0 / 400.0),
    ("CpuThrottling", "container", "kb", 18.0 / 723.0),
];

/// What all exporters expose, at the `scrape`-th scrape: every count is that many times the one in the sample, so that
/// counters rise and shares stay.
fn exposed(scrape: u32) -> String {
    let folder = hedgerow_tests::repository().join("tests/samples");
    let mut text = String::new();
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    for file in files.filter(|file| file.extension().is_some_and(|kind| kind == "prom")) {
        let sample = std::fs::read_to_string(file).unwrap();
        for line in sample
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
        {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap();
            writeln!(text, "{series} {}", value * f64::from(scrape)).unwrap();
        }
    }
    text
}

async fn scraped() -> Prometheus {
    let scrapes = Arc::new(AtomicU32::new(1));
    let metrics = get(move || async move { exposed(scrapes.fetch_add(1, Ordering::Relaxed)) });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/metrics", metrics)).await });
    PrometheusOptions::new()
        .job("exporters", address)
        .start()
        .await
        .unwrap()
}

fn target(latency: &Value, signal: &Value, url: &str) -> Target {
    let spec = decode_spec(&json!({
        "targets": [{
            "name": "shard-read", "idempotent": true, "latency": latency, "delay": { "add": "1ms" },
            "saturation": { "signals": [signal] },
        }],
        "publish": [{ "configMap": "kb-hedging", "key": "shard-read.json", "targets": [{ "name": "shard-read" }] }],
    }))
    .unwrap();
    let source = DeclaredSource::plain("default", url);
    let compiled = compile(&spec, "helpdesk", &source, Duration::from_secs(90)).unwrap();
    compiled.targets.into_iter().next().unwrap()
}

fn with_latency(preset: &str, label: &str, value: &str, url: &str) -> Target {
    let latency = json!({
        "preset": preset, "matchLabels": { label: value }, "window": "1m",
        "losersRunOn": preset == "LinkerdOutbound",
    });
    target(
        &latency,
        &json!({ "name": "queue", "preset": "ElasticsearchQueue" }),
        url,
    )
}

fn with_signal(preset: &str, label: &str, value: &str, url: &str) -> Target {
    let latency = json!({ "preset": "HedgerowClient" });
    target(
        &latency,
        &json!({ "name": "queue", "preset": preset, "matchLabels": { label: value } }),
        url,
    )
}

fn median(readings: &TargetReadings) -> Result<f64> {
    let windows = readings.latency.as_ref().unwrap().windows.as_ref();
    let windows = windows.map_err(|why| anyhow::anyhow!("{why}"))?;
    let histogram = windows[0]
        .distribution
        .as_ref()
        .map_err(|why| anyhow::anyhow!("{why}"))?;
    let estimate = histogram.quantile(0.5).estimate();
    estimate.ok_or_else(|| anyhow::anyhow!("the median is a bound only"))
}

/// How many were cut short for each that was answered, and their median.
fn cut_short(window: &WindowReading) -> Option<(f64, f64)> {
    let (cancelled, answered) = (window.cancelled.as_ref()?, window.distribution.as_ref().ok()?);
    let median = cancelled.quantile(0.5).estimate()?;
    Some((cancelled.count() / answered.count(), median))
}

fn largest(readings: &TargetReadings) -> Result<f64> {
    match readings.signals[0]
        .value
        .as_ref()
        .map_err(|why| anyhow::anyhow!("{why}"))?
    {
        SignalValue::Series(series) => Ok(series.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        SignalValue::Alert(_) => panic!("a series"),
    }
}

fn close(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= 1e-3 * expected.abs().max(1e-9)
}

#[tokio::test]
async fn every_preset_reads_what_its_exporter_exposes() {
    let prometheus = scraped().await;
    let url = prometheus.url();
    let targets: Vec<Target> = MEDIANS
        .iter()
        .map(|(preset, label, value, _)| with_latency(preset, label, value, &url))
        .chain(
            VALUES
                .iter()
                .map(|(preset, label, value, _)| with_signal(preset, label, value, &url)),
        )
        .collect();
    let queries: Vec<_> = targets.iter().map(|target| target.query.clone()).collect();
    let source = Source::new(DeclaredSource::plain("default", &url).settings).unwrap();
    eventually("every preset is read", Duration::from_secs(60), async || {
        let readings = source.read(&queries).await;
        let (latencies, signals) = readings.split_at(MEDIANS.len());
        for ((preset, _, value, expected), readings) in MEDIANS.iter().zip(latencies) {
            let median = median(readings).map_err(|why| why.context(format!("{preset} of {value}")))?;
            ensure!(
                close(median, *expected),
                "{preset} of {value}: {median}, not {expected}"
            );
            let latency = readings.latency.as_ref().unwrap();
            let window = &latency.windows.as_ref().unwrap()[0];
            if let Some((_, share, median)) = OUTCOMES.iter().find(|(of, ..)| of == preset) {
                let told = cut_short(window).with_context(|| format!("none of {preset} are cut short"))?;
                ensure!(
                    close(told.0, *share) && close(told.1, *median),
                    "{preset}: {told:?}"
                );
            }
            let timeouts = window.timeouts;
            let counted = timeouts.is_some_and(|timeouts| timeouts > 0.0);
            ensure!(
                counted == (*preset == "EnvoyUpstream"),
                "{preset}: {timeouts:?} timeouts"
            );
        }
        for ((preset, _, _, expected), readings) in VALUES.iter().zip(signals) {
            let value = largest(readings).map_err(|why| why.context(*preset))?;
            ensure!(close(value, *expected), "{preset}: {value}, not {expected}");
        }
        Ok(())
    })
    .await
    .unwrap();
}

#[test]
fn every_preset_is_read_here() {
    let named: BTreeSet<&str> = MEDIANS.iter().chain(VALUES).map(|(preset, ..)| *preset).collect();
    let latency = LATENCY.iter().map(|preset| preset.name);
    let all = latency.chain(SIGNALS.iter().map(|preset| preset.name)).collect();
    assert_eq!(named, all);
}
