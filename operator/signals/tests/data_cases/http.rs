//! HTTP: the cases of the third table, with the real bodies.
//!
//! Faults without a body of their own are in `http_faults.rs`.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use hedgerow_tuner::UnknownReason;

use crate::support::process::{self, folder, free_port, run};
use crate::support::server::{Server, json, vector};
use crate::support::*;

/// The reading of a server that answers everything like this.
async fn answered(status: u16, kind: &'static str, body: &'static str) -> (UnknownReason, String) {
    let status = StatusCode::from_u16(status).unwrap();
    let server = Server::start(move |_| (status, [("content-type", kind)], body).into_response()).await;
    latency_reason(&read_one(&source(&server.url), latency("m", &[])).await)
}

#[tokio::test]
async fn unauthorized_in_plain_text_by_cortex() {
    let body = include_str!("../samples/cortex-401-no-org-id.txt");
    let (reason, message) = answered(401, "text/plain", body).await;
    assert_eq!(reason, UnknownReason::Unauthorized);
    assert!(
        !message.contains("org id") && message.contains("tenant"),
        "{message}"
    );
}

#[tokio::test]
async fn unauthorized_in_html_by_nginx() {
    let body = include_str!("../samples/http-401-html-from-nginx.txt");
    for (status, expected) in [
        (401, UnknownReason::Unauthorized),
        (302, UnknownReason::BadResponse),
        (200, UnknownReason::BadResponse),
    ] {
        let (reason, message) = answered(status, "text/html", body).await;
        assert_eq!(reason, expected, "{status}");
        assert!(!message.contains("nginx"), "{message}");
    }
}

#[tokio::test]
async fn unprocessable_by_thanos_without_a_store() {
    let body = include_str!("../samples/thanos-422-no-store.json");
    let (reason, message) = answered(422, "application/json", body).await;
    assert_eq!(reason, UnknownReason::QueryInvalid);
    assert!(message.contains("No StoreAPIs matched"), "{message}");
}

#[tokio::test]
async fn unprocessable_by_mimir_with_too_many_chunks() {
    let body = include_str!("../samples/mimir-422-max-chunks.txt");
    let (reason, message) = answered(422, "text/plain", body).await;
    assert_eq!(reason, UnknownReason::QueryInvalid);
    let (_, quoted) = message.split_once("(status 422): ").unwrap();
    assert!(quoted.starts_with("the query exceeded the maximum number of chunks"));
    assert_eq!(quoted.trim_end_matches('…').chars().count(), 200);
}

#[tokio::test]
async fn values_are_strings_and_are_classified_after_parsing() {
    for (value, expected) in [
        ("NaN", Err(UnknownReason::NotANumber)),
        ("+Inf", Err(UnknownReason::OutOfRange)),
        ("many", Err(UnknownReason::NotANumber)),
        ("1e-05", Ok(vec![1e-5])),
        ("-7", Ok(vec![0.0])),
    ] {
        let server = Server::start(move |_| {
            let now = feed::now();
            json(&format!(
                r#"{{"status":"success","data":{{"resultType":"vector","result":[
                    {{"metric":{{"hedgerow_part":"value"}},"value":[{now},"{value}"]}},
                    {{"metric":{{"hedgerow_part":"newest"}},"value":[{now},"{now}"]}}]}}}}"#
            ))
        })
        .await;
        let readings = read_one(&source(&server.url), gauge("g", &[])).await;
        match expected {
            Ok(expected) => assert_eq!(values(&readings.signals[0]), expected),
            Err(expected) => assert_eq!(signal_reason(&readings).0, expected, "{value}"),
        }
    }
}

#[tokio::test]
async fn other_result_types_and_histograms_where_numbers_belong() {
    let histogram = r#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"hedgerow_part":"value"},"histogram":[1,{"count":"1","sum":"2","buckets":[[0,"1","2","1"]]}]}]}}"#;
    for (body, expected) in [
        (
            r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#,
            UnknownReason::BadResponse,
        ),
        (
            r#"{"status":"success","data":{"resultType":"string","result":[1,"x"]}}"#,
            UnknownReason::BadResponse,
        ),
        (histogram, UnknownReason::NotAHistogram),
    ] {
        let server = Server::start(move |_| json(body)).await;
        let (reason, message) = signal_reason(&read_one(&source(&server.url), gauge("g", &[])).await);
        assert_eq!(reason, expected, "{message}");
    }
}

#[tokio::test]
async fn more_than_one_series_where_one_is_asked_for() {
    let server = Server::start(|_| {
        let now = feed::now();
        let of = |part: &str, pod: &str, value: f64| {
            (
                format!(r#"{{"hedgerow_part":"{part}","pod":"{pod}"}}"#),
                now,
                value,
            )
        };
        vector(&[
            of("value", "a", 1.0),
            of("newest", "a", now as f64),
            of("newest", "b", now as f64),
        ])
    })
    .await;
    let (reason, message) = signal_reason(&read_one(&source(&server.url), gauge("g", &[])).await);
    assert_eq!(reason, UnknownReason::AmbiguousResult);
    assert!(message.contains("differ in pod"), "{message}");
}

#[tokio::test]
async fn empty_data_after_data_a_moment_ago() {
    // First an answer, then none: the series are still there, a tiny query says.
    let server = Server::start(|asked| {
        let now = feed::now();
        if asked.field("query").contains("\"here\"") {
            vector(&[(r#"{"hedgerow_part":"here"}"#.into(), now, 3.0)])
        } else {
            vector(&[])
        }
    })
    .await;
    for target in [gauge("g", &[])] {
        let (reason, message) = signal_reason(&read_one(&source(&server.url), target).await);
        assert_eq!(reason, UnknownReason::PartialResponse, "{message}");
    }
    let (reason, message) = latency_reason(&read_one(&source(&server.url), latency("m", &[])).await);
    assert_eq!(reason, UnknownReason::PartialResponse, "{message}");
    let tiny = server.asked().last().unwrap().clone();
    assert!(tiny.field("query").contains("count("), "{}", tiny.field("query"));
}

#[tokio::test]
async fn prometheus_in_agent_mode() {
    let [program] = process::parts(["prometheus"]);
    let (folder, port) = (folder(), free_port());
    std::fs::write(
        folder.join("agent.yaml"),
        "remote_write: [{ url: 'http://127.0.0.1:9/api/v1/write' }]\n",
    )
    .unwrap();
    let address = format!("--web.listen-address=127.0.0.1:{port}");
    let arguments = [
        "--agent",
        "--config.file=agent.yaml",
        "--storage.agent.path=data",
        &address,
    ];
    let _running = run(&folder, &program, &arguments, port, "/-/ready");
    let source = source(&format!("http://127.0.0.1:{port}"));
    let mut target = latency("m", &[]);
    target.signals = alert("Burning").signals;
    let readings = read_one(&source, target).await;
    let (reason, message) = latency_reason(&readings);
    assert_eq!(reason, UnknownReason::BackendCannotQuery, "{message}");
    let (reason, message) = signal_reason(&readings);
    assert_eq!(reason, UnknownReason::BackendCannotQuery, "{message}");
    assert_eq!(
        source.stats().failing.unwrap().reason,
        UnknownReason::BackendCannotQuery
    );
}

#[tokio::test]
async fn base_url_with_a_path() {
    let [program] = process::parts(["prometheus"]);
    let (folder, port) = (folder(), free_port());
    std::fs::write(
        folder.join("prometheus.yaml"),
        format!(
            "scrape_configs: [{{ job_name: self, scrape_interval: 1s, metrics_path: /api/prom/metrics,\n\
             static_configs: [{{ targets: [127.0.0.1:{port}] }}] }}]\n"
        ),
    )
    .unwrap();
    let address = format!("--web.listen-address=127.0.0.1:{port}");
    let arguments = [
        "--config.file=prometheus.yaml",
        "--storage.tsdb.path=data",
        "--web.route-prefix=/api/prom",
        &address,
    ];
    let _running = run(&folder, &program, &arguments, port, "/api/prom/-/ready");
    let url = format!("http://127.0.0.1:{port}/api/prom");
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    let up = || gauge("up", &[("job", "self")]);
    while read_one(&source(&url), up()).await.signals[0].value.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "nothing is read at {url}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let elsewhere = source(&format!("http://127.0.0.1:{port}"));
    let (reason, message) = signal_reason(&read_one(&elsewhere, up()).await);
    assert_eq!(reason, UnknownReason::BadResponse, "{message}");
}
