//! What is read from which server with Prometheus' API: the same readings of the same samples on each, and the table of
//! `docs/servers.md`, which this test checks. `HEDGEROW_WRITE=1` in the environment makes it write the table anew.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::fmt::Write as _;
use std::time::Duration;

use hedgerow_signals::{CountsQuery, Source, TargetReadings};
use hedgerow_tuner::{Alert, SignalValue, Unknown, UnknownReason};
use support::feed::{Feed, Native};
use support::servers::Server;
use support::*;
use tokio::time::Instant;

/// What is read.
const READINGS: [&str; 10] = [
    "latency, classic histogram",
    "latency, native histogram",
    "saturation, gauge",
    "saturation, rate and ratio",
    "saturation, alert",
    "counters of clients",
    "age of samples: a target that is gone is `Stale`",
    "absence: metric, selector and traffic told apart",
    "offset",
    "a part of the source is missing",
];

/// Samples come by remote write, every fifteen seconds.
fn samples() -> Feed {
    let mut feed = Feed::new();
    for pod in ["a", "b"] {
        let labels = [("index", "kb"), ("pod", pod)];
        let buckets = [("0.1", 20.0), ("0.3", 60.0), ("1", 98.0), ("+Inf", 100.0)];
        feed.classic("read_seconds", &labels, &buckets, 25.0);
        let native = Native::of(3, &[0.2, 0.3, 0.3, 3.0]);
        feed.native("native_seconds", &labels, &native);
    }
    feed.classic(
        "idle_seconds",
        &[],
        &[("0.1", 0.0), ("1", 0.0), ("+Inf", 0.0)],
        0.0,
    );
    feed.numbers("queue_depth", &[("pod", "a")], |_| 60.0);
    feed.numbers("queue_depth", &[("pod", "b")], |_| 3.0);
    feed.counter("calls_total", &[("pod", "a")], 150.0);
    feed.counter("rejected_total", &[("pod", "a")], 15.0);
    feed.until(240).numbers("gone_depth", &[], |_| 7.0);
    feed
}

/// What a server gave, reading by reading: `yes`, or the reason why not.
async fn column(server: &Server, whole_or_nothing: Option<Server>) -> Vec<String> {
    wait_until_read(server).await;
    let source = source(&server.url);
    let mut column = Vec::new();
    for reading in [
        classic(&source).await,
        native(&source).await,
        a_gauge(&source).await,
        rates(&source).await,
        alerts(&source).await,
        counters(&source).await,
        age(&source).await,
        absence(&source).await,
        offset(server).await,
        missing_part(whole_or_nothing).await,
    ] {
        column.push(reading.map_or_else(|why| why, |()| "yes".to_owned()));
    }
    column
}

/// The reason as the table shows it.
fn told(unknown: &Unknown) -> String {
    format!("`{}`", unknown.reason)
}

fn counted(readings: &TargetReadings) -> Result<f64, String> {
    let latency = readings.latency.as_ref().unwrap();
    let windows = latency.windows.as_ref().map_err(told)?;
    let histogram = windows[0].distribution.as_ref().map_err(told)?;
    Ok(histogram.count())
}

/// Whether `value` is `expected` within 3 %: servers differ in how they treat the edges of a window.
fn near(value: f64, expected: f64) -> Result<(), String> {
    if (value - expected).abs() <= 0.03 * expected {
        Ok(())
    } else {
        Err(format!("{value} for {expected}"))
    }
}

/// A querier first has to find its stores.
async fn wait_until_read(server: &Server) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        // A new source each time: a query that was refused is not asked again for a while.
        let source = source(&server.url);
        let readings = read_one(&source, latency("read_seconds", &[("index", "kb")])).await;
        match counted(&readings) {
            Ok(_) => break,
            Err(why) => assert!(
                Instant::now() < deadline,
                "{why}: {:?}",
                latency_reason(&readings)
            ),
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

async fn classic(source: &Source) -> Result<(), String> {
    let readings = read_one(source, latency("read_seconds", &[("index", "kb")])).await;
    near(counted(&readings)?, 2.0 * 100.0 * 40.0)?;
    // 95 of 100: from 0.3 (60) to 1 (98).
    near(
        distribution(&readings).quantile(0.95).estimate().unwrap(),
        0.3 + 0.7 * 35.0 / 38.0,
    )
}

async fn native(source: &Source) -> Result<(), String> {
    let readings = read_one(source, latency("native_seconds", &[("index", "kb")])).await;
    near(counted(&readings)?, 2.0 * 4.0 * 40.0)?;
    near(
        distribution(&readings).quantile(0.5).estimate().unwrap(),
        (-13.5_f64 / 8.0).exp2(),
    )
}

fn one_value(readings: &TargetReadings, expected: f64) -> Result<(), String> {
    match &readings.signals[0].value {
        Ok(SignalValue::Series(values)) => near(values.iter().copied().fold(0.0, f64::max), expected),
        Ok(other) => Err(format!("{other:?}")),
        Err(unknown) => Err(told(unknown)),
    }
}

async fn a_gauge(source: &Source) -> Result<(), String> {
    one_value(&read_one(source, gauge("queue_depth", &[])).await, 60.0)
}

async fn rates(source: &Source) -> Result<(), String> {
    let calls = || counter("calls_total", &[("pod", "a")], None);
    let rejected = counter("rejected_total", &[("pod", "a")], None);
    one_value(&read_one(source, rate(calls(), None)).await, 10.0)?;
    one_value(&read_one(source, rate(rejected, Some(calls()))).await, 0.1)
}

async fn alerts(source: &Source) -> Result<(), String> {
    // Its rule is evaluated once a second.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let readings = read_one(source, alert("Burning")).await;
        match &readings.signals[0].value {
            Ok(SignalValue::Alert(Alert::Firing)) => return Ok(()),
            Err(unknown) if unknown.reason == UnknownReason::AlertNotFound => return Err(told(unknown)),
            other if Instant::now() > deadline => return Err(format!("{other:?}")),
            _ => tokio::time::sleep(Duration::from_millis(300)).await,
        }
    }
}

async fn counters(source: &Source) -> Result<(), String> {
    let mut target = gauge("queue_depth", &[]);
    target.counts = Some(CountsQuery {
        calls: counter("calls_total", &[("pod", "a")], None),
        hedges: counter("rejected_total", &[("pod", "a")], None),
        blocked: None,
        wins: None,
        windows: vec![WINDOW],
    });
    let counts = read_one(source, target).await.counts.unwrap();
    let windows = counts.windows.map_err(|unknown| told(&unknown))?;
    near(windows[0].calls, 6000.0)?;
    near(windows[0].hedges, 600.0)
}

async fn age(source: &Source) -> Result<(), String> {
    let readings = read_one(source, gauge("gone_depth", &[])).await;
    match readings.signals[0].value.as_ref() {
        Err(unknown) if unknown.reason == UnknownReason::Stale => Ok(()),
        Err(unknown) => Err(told(unknown)),
        Ok(value) => Err(format!("{value:?}")),
    }
}

async fn absence(source: &Source) -> Result<(), String> {
    for (target, expected) in [
        (latency("no_such_seconds", &[]), UnknownReason::MetricNotFound),
        (
            latency("read_seconds", &[("index", "faq")]),
            UnknownReason::SelectorMatchesNothing,
        ),
        (latency("idle_seconds", &[]), UnknownReason::NoTraffic),
    ] {
        let (reason, _) = latency_reason(&read_one(source, target).await);
        if reason != expected {
            return Err(format!("`{reason}` for `{expected}`"));
        }
    }
    Ok(())
}

async fn offset(server: &Server) -> Result<(), String> {
    let mut late = settings(&server.url);
    late.offset = Duration::from_secs(60);
    let readings = read_one(&source_with(late), latency("read_seconds", &[("index", "kb")])).await;
    counted(&readings)?;
    let age = support::feed::now() - readings.latency.unwrap().at.as_millis() / 1000;
    if (59..=125).contains(&age) {
        Ok(())
    } else {
        Err(format!("{age} s old"))
    }
}

/// What a querier gives that misses one of its stores: nothing, and never a part.
async fn missing_part(querier: Option<Server>) -> Result<(), String> {
    let Some(server) = querier else {
        return Err("one server, no parts".to_owned());
    };
    let server = server.fed(samples()).await;
    wait_for_a_part(&server).await;
    let readings = read_one(&source(&server.url), latency("read_seconds", &[("index", "kb")])).await;
    counted(&readings).map(drop)
}

/// Waits until the querier gives the part that it has, to whom asks for parts.
async fn wait_for_a_part(server: &Server) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/api/v1/query", server.url);
    let form = [("query", "read_seconds_count"), ("partial_response", "true")];
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = client.post(&url).form(&form).send().await.unwrap();
        let answer = answer.text().await.unwrap();
        if answer.contains("\"pod\":\"b\"") && answer.contains("\"warnings\"") {
            break;
        }
        assert!(Instant::now() < deadline, "{answer}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn the_table_of_servers_says_what_each_gives() {
    let servers = [
        ("Prometheus 3.16", Server::prometheus(&[]), None),
        ("Prometheus 2.42", Server::old_prometheus(), None),
        ("VictoriaMetrics 1.151", Server::victoria_metrics(), None),
        (
            "Thanos 0.42 querier",
            Server::thanos(false),
            Some(Server::thanos(true)),
        ),
    ];
    let mut head = "| reading |".to_owned();
    let mut rows: Vec<String> = READINGS.iter().map(|reading| format!("| {reading} |")).collect();
    for (name, server, without_a_part) in servers {
        let server = server.fed(samples()).await;
        write!(head, " {name} |").unwrap();
        for (row, cell) in rows.iter_mut().zip(column(&server, without_a_part).await) {
            write!(row, " {cell} |").unwrap();
        }
    }
    let rule = format!("|{}", " --- |".repeat(5));
    check(&format!("{head}\n{rule}\n{}\n", rows.join("\n")));
}

/// Compares the table with that of the docs, or writes it there.
fn check(table: &str) {
    const BEGIN: &str = "<!-- table: begin -->\n";
    const END: &str = "<!-- table: end -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/servers.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (committed, after) = rest.split_once(END).unwrap();
    if std::env::var_os("HEDGEROW_WRITE").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert_eq!(
            committed, table,
            "docs/servers.md differs from what the servers give; \
             `HEDGEROW_WRITE=1 cargo test -p hedgerow-signals --test servers` writes it anew"
        );
    }
}
