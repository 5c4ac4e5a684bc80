//! What goes wrong between us and a source, on real connections.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use hedgerow_signals::{Authentication, Source, SourceError, TargetQuery};
use hedgerow_tuner::{Alert, SignalValue, UnknownReason};
use support::server::{Asked, Server, json, vector};
use support::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

fn seconds_now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// Answers each gauge asked for by the label `app` with 1, fresh.
fn every_app(asked: &Asked) -> Response {
    let query = asked.field("query");
    let begin = query.find("app=").unwrap();
    let values = query[begin..].split('"').nth(1).unwrap();
    let now = seconds_now();
    let elements: Vec<_> = values
        .split('|')
        .flat_map(|app| {
            let labels = |part: &str| format!(r#"{{"hedgerow_part":"{part}","app":"{app}"}}"#);
            [(labels("value"), now, 1.0), (labels("newest"), now, now as f64)]
        })
        .collect();
    vector(&elements)
}

fn apps(count: usize) -> Vec<TargetQuery> {
    (0..count)
        .map(|i| gauge("depth", &[("app", &format!("app-{i}"))]))
        .collect()
}

fn answered(status: u16, kind: &str, body: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    (status, [("content-type", kind.to_owned())], body.to_owned()).into_response()
}

#[tokio::test]
async fn every_bad_answer_has_its_reason_and_its_body_stays_out_of_the_message() {
    const PAGE: &str = "<html><title>Sign in</title>SECRET</html>";
    let cases: &[(u16, &str, &str, UnknownReason)] = &[
        (200, "text/html", PAGE, UnknownReason::BadResponse),
        (200, "application/json", PAGE, UnknownReason::BadResponse),
        (200, "application/json", r#"{"SECRET"#, UnknownReason::BadResponse),
        (
            200,
            "application/json",
            r#"["SECRET"]"#,
            UnknownReason::BadResponse,
        ),
        (
            200,
            "application/json",
            r#"{"status":"success","data":{"resultType":"matrix","result":["SECRET"]}}"#,
            UnknownReason::BadResponse,
        ),
        (
            200,
            "application/json",
            r#"{"status":"success","data":{"resultType":"vector","result":[]},"warnings":["store a is down"]}"#,
            UnknownReason::PartialResponse,
        ),
        (
            200,
            "application/json",
            r#"{"status":"success","isPartial":true,"data":{"resultType":"vector","result":[]}}"#,
            UnknownReason::PartialResponse,
        ),
        (
            400,
            "application/json",
            r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#,
            UnknownReason::QueryInvalid,
        ),
        (401, "text/html", PAGE, UnknownReason::Unauthorized),
        (401, "text/plain", "no org id SECRET", UnknownReason::Unauthorized),
        (403, "text/plain", "SECRET", UnknownReason::Unauthorized),
        (404, "text/plain", "SECRET", UnknownReason::BadResponse),
        (
            422,
            "application/json",
            r#"{"status":"error","errorType":"execution","error":"No StoreAPIs matched"}"#,
            UnknownReason::QueryInvalid,
        ),
        (
            422,
            "application/json",
            r#"{"status":"error","errorType":"execution","error":"unavailable with Prometheus Agent"}"#,
            UnknownReason::BackendCannotQuery,
        ),
        (429, "text/plain", "SECRET", UnknownReason::Throttled),
        (502, "text/html", PAGE, UnknownReason::Unavailable),
        (
            503,
            "application/json",
            r#"{"status":"error","errorType":"timeout","error":"query timed out"}"#,
            UnknownReason::Timeout,
        ),
        (503, "text/plain", "SECRET", UnknownReason::Unavailable),
    ];
    for &(status, kind, body, expected) in cases {
        let server = Server::start(move |_| answered(status, kind, body)).await;
        let mut target = latency("m", &[("a", "1")]);
        target.signals = gauge("g", &[]).signals;
        let readings = read_one(&source(&server.url), target).await;
        for (reason, message) in [latency_reason(&readings), signal_reason(&readings)] {
            assert_eq!(reason, expected, "{status} {body}: {message}");
            assert!(!message.contains("SECRET"), "{message}");
            assert!(message.contains("from source default"), "{message}");
        }
    }
}

#[tokio::test]
async fn infos_are_recorded_and_the_answer_is_used() {
    let server = Server::start(|_| {
        let now = seconds_now();
        json(&format!(
            r#"{{"status":"success","infos":["metric might not be a gauge"],"data":{{"resultType":"vector","result":[
                {{"metric":{{"hedgerow_part":"value"}},"value":[{now},"4"]}},
                {{"metric":{{"hedgerow_part":"newest"}},"value":[{now},"{now}"]}}]}}}}"#
        ))
    })
    .await;
    let source = source(&server.url);
    assert_eq!(
        values(&read_one(&source, gauge("g", &[])).await.signals[0]),
        [4.0]
    );
    assert_eq!(source.stats().infos, 1);
}

#[tokio::test]
async fn a_source_that_accepts_and_never_answers_is_a_timeout_for_all_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut slow = settings(&format!("http://{}", listener.local_addr().unwrap()));
    (slow.timeout, slow.concurrency) = (Duration::from_millis(200), 1);
    let source = source_with(slow);
    let targets: Vec<_> = (0..20).map(|i| gauge(&format!("g{i}"), &[])).collect();
    for readings in source.read(&targets).await {
        assert_eq!(signal_reason(&readings).0, UnknownReason::Timeout);
    }
    // The others are spared the wait; and the next round, until the back-off is over.
    assert_eq!(source.stats().requests, 1);
    let (reason, message) = signal_reason(&read_one(&source, gauge("g", &[])).await);
    assert_eq!(reason, UnknownReason::Timeout);
    assert!(message.contains("asked again in"), "{message}");
    assert_eq!(source.stats().requests, 1);
    assert_eq!(source.stats().failing.unwrap().reason, UnknownReason::Timeout);
    drop(listener);
}

#[tokio::test]
async fn refused_and_unknown_hosts_are_unavailable() {
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    for url in [
        format!("http://{free}"),
        "http://no-such-host.invalid:9090".to_owned(),
    ] {
        let (reason, message) = signal_reason(&read_one(&source(&url), gauge("g", &[])).await);
        assert_eq!(reason, UnknownReason::Unavailable, "{message}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_off_within_the_answer_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        let head =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"status\":";
        stream.write_all(head).await.unwrap();
    });
    let (reason, message) = signal_reason(&read_one(&source(&url), gauge("g", &[])).await);
    assert_eq!(reason, UnknownReason::Unavailable, "{message}");
    assert!(message.contains("broke off"), "{message}");
}

#[tokio::test]
async fn a_body_of_hundreds_of_megabytes_is_cut_at_the_cap() {
    const CHUNK: usize = 64 << 10;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let server = Server::start(move |_| {
        let counted = counted.clone();
        let chunks = futures::stream::iter(0..200 * 16).map(move |_| {
            counted.fetch_add(CHUNK, Ordering::Relaxed);
            Ok::<_, std::io::Error>(Bytes::from(vec![b' '; CHUNK]))
        });
        Body::from_stream(chunks).into_response()
    })
    .await;
    use futures::StreamExt as _;
    let mut capped = settings(&server.url);
    capped.max_body_bytes = 1 << 20;
    let (reason, message) = signal_reason(&read_one(&source_with(capped), gauge("g", &[])).await);
    assert_eq!(reason, UnknownReason::ResponseTooLarge, "{message}");
    // Beside the cap only what lay in buffers of sockets.
    assert!(sent.load(Ordering::Relaxed) < 64 << 20);
}

#[tokio::test]
async fn a_redirect_is_not_followed_so_that_credentials_stay() {
    let elsewhere = Server::start(|_| vector(&[])).await;
    let location = format!("{}/api/v1/query", elsewhere.url);
    let server =
        Server::start(move |_| (StatusCode::FOUND, [("location", location.clone())]).into_response()).await;
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "s3cret\n").unwrap();
    let mut with_token = settings(&server.url);
    with_token.authentication = Authentication::Bearer {
        token_file: token.path().into(),
    };
    let (reason, _) = signal_reason(&read_one(&source_with(with_token), gauge("g", &[])).await);
    assert_eq!(reason, UnknownReason::BadResponse);
    assert_eq!(server.asked()[0].headers["authorization"], "Bearer s3cret");
    assert!(elsewhere.asked().is_empty());
}

#[tokio::test]
async fn a_busy_source_is_left_alone_for_as_long_as_it_asks() {
    let server =
        Server::start(|_| (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "120")]).into_response()).await;
    let source = source(&server.url);
    for _ in 0..3 {
        let (reason, _) = signal_reason(&read_one(&source, gauge("g", &[])).await);
        assert_eq!(reason, UnknownReason::Throttled);
    }
    assert_eq!(server.asked().len(), 1);
    assert_eq!(source.stats().failures[&UnknownReason::Throttled], 1);
}

#[tokio::test]
async fn a_refused_query_is_retried_slowly() {
    let server = Server::start(|_| answered(422, "text/plain", "too many chunks")).await;
    let source = source(&server.url);
    for _ in 0..3 {
        let (reason, message) = signal_reason(&read_one(&source, gauge("g", &[])).await);
        assert_eq!(reason, UnknownReason::QueryInvalid);
        assert!(message.contains("too many chunks"));
    }
    assert_eq!(server.asked().len(), 1);
    // The source itself is well.
    assert_eq!(source.stats().failing, None);
}

#[tokio::test]
async fn a_culprit_is_found_by_halving_at_once_and_kept_apart() {
    let server = Server::start(|asked| {
        if asked.field("query").contains("app-17") {
            answered(422, "text/plain", "too many chunks")
        } else {
            every_app(asked)
        }
    })
    .await;
    let source = source(&server.url);
    let targets = apps(50);
    let readings = source.read(&targets).await;
    for (i, readings) in readings.iter().enumerate() {
        match i {
            17 => assert_eq!(signal_reason(readings).0, UnknownReason::QueryInvalid),
            _ => assert_eq!(values(&readings.signals[0]), [1.0]),
        }
    }
    let first = server.asked().len();
    assert!(first <= 2 * 6 + 1, "{first}");
    source.read(&targets).await;
    assert_eq!(server.asked().len(), first + 1);
}

#[tokio::test]
async fn groups_that_nobody_asked_for_are_dropped_and_counted() {
    let server = Server::start(|_| {
        let now = seconds_now();
        vector(&[
            (r#"{"hedgerow_part":"value","app":"stranger"}"#.into(), now, 9.0),
            (r#"{"hedgerow_part":"value","app":"app-0"}"#.into(), now, 1.0),
            (
                r#"{"hedgerow_part":"newest","app":"app-0"}"#.into(),
                now,
                now as f64,
            ),
        ])
    })
    .await;
    let source = source(&server.url);
    assert_eq!(
        values(&read_one(&source, apps(1).remove(0)).await.signals[0]),
        [1.0]
    );
    assert_eq!(source.stats().dropped_groups, 1);
}

#[tokio::test]
async fn an_empty_answer_is_confirmed_before_it_is_believed() {
    let server = Server::start(|asked| {
        if asked.field("query").contains("\"here\"") {
            vector(&[(r#"{"hedgerow_part":"here"}"#.into(), seconds_now(), 3.0)])
        } else {
            vector(&[])
        }
    })
    .await;
    let (reason, message) = signal_reason(&read_one(&source(&server.url), gauge("g", &[])).await);
    assert_eq!(reason, UnknownReason::PartialResponse, "{message}");
}

#[tokio::test]
async fn the_servers_clock_decides_and_a_large_skew_is_told() {
    const BEHIND: i64 = 600;
    let server = Server::start(|_| {
        let then = seconds_now() - BEHIND;
        let mut response = vector(&[
            (r#"{"hedgerow_part":"value"}"#.into(), then, 1.0),
            (r#"{"hedgerow_part":"newest"}"#.into(), then, then as f64 - 5.0),
        ]);
        let date = jiff::Timestamp::from_second(then).unwrap();
        let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        response.headers_mut().insert("date", date.parse().unwrap());
        response
    })
    .await;
    let mut late = settings(&server.url);
    late.offset = Duration::from_secs(30);
    let source = source_with(late);
    for _ in 0..2 {
        let readings = read_one(&source, gauge("g", &[])).await;
        // Five seconds old by the server's clock; not ten minutes.
        let age = seconds_now() - readings.signals[0].at.as_millis() / 1000;
        assert!((4..=8).contains(&age), "{age}");
    }
    let stats = source.stats();
    assert!(stats.is_skewed());
    assert!((stats.clock_skew_ms.unwrap() + BEHIND * 1000).abs() <= 1500);
    // Once the skew is known, the time of evaluation is the server's.
    let at: f64 = server.asked()[1].field("time").parse().unwrap();
    let expected = (seconds_now() - BEHIND - 30) as f64;
    assert!((at - expected).abs() < 5.0, "{at}");
}

#[tokio::test]
async fn a_base_url_with_a_path_is_joined_and_requests_are_as_they_should_be() {
    let server = Server::start(|_| vector(&[])).await;
    let mut tenant = settings(&format!("{}/api/prom/", server.url));
    tenant.headers = labels(&[("X-Scope-OrgID", "helpdesk")]);
    let source = source_with(tenant);
    read_one(&source, gauge("g", &[])).await;
    read_one(&source, alert("Down")).await;
    let asked = server.asked();
    assert_eq!(asked[0].uri.path(), "/api/prom/api/v1/query");
    assert_eq!(asked[0].method, Method::POST);
    assert_eq!(asked[0].field("partial_response"), "false");
    assert_eq!(asked[0].field("time"), "");
    let rules = asked.last().unwrap();
    assert_eq!(rules.uri.path(), "/api/prom/api/v1/rules");
    assert_eq!(rules.uri.query().unwrap(), "type=alert&rule_name%5B%5D=Down");
    assert!(
        asked
            .iter()
            .all(|asked| asked.headers["x-scope-orgid"] == "helpdesk")
    );
}

#[tokio::test]
async fn credentials_are_read_again_when_they_change() {
    let server = Server::start(|_| vector(&[])).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut basic = settings(&server.url);
    basic.authentication = Authentication::Basic {
        username: "hedgerow".into(),
        password_file: file.path().into(),
    };
    let source = source_with(basic);
    // echo -n hedgerow:one | base64
    for (password, header) in [
        ("one", "Basic aGVkZ2Vyb3c6b25l"),
        ("two\n", "Basic aGVkZ2Vyb3c6dHdv"),
    ] {
        std::fs::write(file.path(), password).unwrap();
        read_one(&source, gauge("g", &[])).await;
        assert_eq!(server.asked().last().unwrap().headers["authorization"], header);
    }
    let before = server.asked().len();
    drop(file);
    let (reason, message) = signal_reason(&read_one(&source, gauge("g", &[])).await);
    assert_eq!(reason, UnknownReason::Unauthorized);
    assert!(message.contains("cannot be read"), "{message}");
    assert_eq!(server.asked().len(), before);
}

#[tokio::test]
async fn no_more_requests_are_in_flight_than_allowed() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (in_flight, seen) = (now.clone(), most.clone());
    let server = Server::start(move |_| {
        let (in_flight, seen) = (in_flight.clone(), seen.clone());
        seen.fetch_max(in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // The body ends later than the head, and with it the request.
        let body = futures::stream::once(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            in_flight.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, std::io::Error>(Bytes::from_static(
                br#"{"status":"success","data":{"resultType":"vector","result":[]}}"#,
            ))
        });
        Body::from_stream(body).into_response()
    })
    .await;
    let mut narrow = settings(&server.url);
    narrow.concurrency = 2;
    let targets: Vec<_> = (0..10).map(|i| gauge(&format!("g{i}"), &[])).collect();
    source_with(narrow).read(&targets).await;
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

/// Never answers about a histogram, and at once about everything else.
async fn hangs_on_latency() -> Server {
    Server::start(|asked| {
        if asked.field("query").contains("_bucket") {
            let never = futures::stream::pending::<Result<Bytes, std::io::Error>>();
            return Body::from_stream(never).into_response();
        }
        every_app(asked)
    })
    .await
}

fn histograms(count: usize) -> Vec<TargetQuery> {
    (0..count)
        .map(|i| latency(&format!("h{i}_seconds"), &[]))
        .collect()
}

#[tokio::test]
async fn latency_that_hangs_does_not_delay_the_signals() {
    let server = hangs_on_latency().await;
    let mut narrow = settings(&server.url);
    narrow.concurrency = 2;
    let source = source_with(narrow);
    let histograms = histograms(5);
    let signals = async {
        for _ in 0..5 {
            let read = read_one(&source, gauge("depth", &[("app", "app-0")])).await;
            assert_eq!(values(&read.signals[0]), [1.0]);
        }
    };
    tokio::select! {
        biased;
        _ = source.read(&histograms) => panic!("the signals waited until latency was given up"),
        () = signals => {}
    }
}

#[tokio::test]
async fn latency_that_was_given_up_does_not_hold_the_signals_back() {
    let server = hangs_on_latency().await;
    let mut impatient = settings(&server.url);
    impatient.timeout = Duration::from_millis(200);
    let source = source_with(impatient);
    for readings in source.read(&histograms(5)).await {
        assert_eq!(latency_reason(&readings).0, UnknownReason::Timeout);
    }
    assert!(source.stats().failing.is_some(), "nothing was answered yet");

    // A gauge of a single series may take longer than that too, on a busy machine: once is enough.
    let mut answered = false;
    for _ in 0..50 {
        let read = read_one(&source, gauge("depth", &[("app", "app-0")])).await;
        answered = read.signals[0].value.is_ok();
        if answered {
            break;
        }
    }
    assert!(answered);
    assert_eq!(source.stats().failing, None);
    let (_, message) = latency_reason(&source.read(&histograms(1)).await[0]);
    assert!(message.contains("asked again in"), "{message}");
    assert_eq!(source.stats().failing, None, "it answers the signals");
}

#[test]
fn urls_that_cannot_be_used_are_refused_and_no_password_is_told() {
    let refused = |url: &str| match Source::new(settings(url)) {
        Err(error @ SourceError::Url { .. }) => error.to_string(),
        other => panic!("{url}: {other:?}"),
    };
    assert!(refused("prometheus:9090").contains("http://"));
    assert!(refused("not a url").contains("not a url"));
    assert!(refused("http://x/?tenant=a").contains('?'));
    let with_password = refused("https://me:hunter2@prometheus");
    assert!(!with_password.contains("hunter2"), "{with_password}");
}

#[tokio::test]
async fn a_source_without_the_rules_api_needs_a_witness() {
    let server = Server::start(|asked| {
        if asked.uri.path().ends_with("/rules") {
            return answered(404, "text/plain", "404 page not found");
        }
        let now = seconds_now();
        let element = |part: &str, labels: &str, value: f64| {
            (format!(r#"{{"hedgerow_part":"{part}",{labels}}}"#), now, value)
        };
        let time = now as f64;
        let query = asked.field("query");
        if query.contains("Burning") {
            let labels = r#""alertname":"Burning","alertstate":"firing""#;
            vector(&[element("value", labels, 1.0), element("newest", labels, time)])
        } else if query.contains("(up{") {
            let labels = r#""job":"kb""#;
            vector(
                &["value", "oldest", "newest"]
                    .map(|part| element(part, labels, if part == "value" { 1.0 } else { time })),
            )
        } else {
            vector(&[])
        }
    })
    .await;
    let with_witness = |name: &str| {
        let mut target = alert(name);
        target.signals[0].zero_when_absent = Some(witness("kb"));
        target
    };
    let source = source(&server.url);
    for (name, state) in [("Burning", Alert::Firing), ("Quiet", Alert::Inactive)] {
        let readings = read_one(&source, with_witness(name)).await;
        assert_eq!(readings.signals[0].value, Ok(SignalValue::Alert(state)));
    }
    let (reason, message) = signal_reason(&read_one(&source, alert("Quiet")).await);
    assert_eq!(reason, UnknownReason::BadResponse);
    assert!(message.contains("witness"), "{message}");
}
