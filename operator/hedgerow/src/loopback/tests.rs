use std::time::Duration;

use axum::body::{Body, to_bytes};
use hedgerow_tests::free_port;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

use super::*;
use crate::fixtures::{index, written_spec};
use crate::plan::YAML;
use crate::settings::Settings;

/// What is served by an operator with a source at this port, with these lines added to it, and to the whole.
fn served(port: u16, source: &str, whole: &str, leads: bool) -> Router {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let text = format!(
        "{whole}\nsources: [{{ name: default, url: 'http://127.0.0.1:{port}', namespaces: [helpdesk], timeout: 30s {source} }}]"
    );
    let settings = Settings::parse("operator.yaml", &text).unwrap();
    let (_, leads) = watch::channel(leads);
    router(index(), Planner::new(&settings, leads))
}

/// One whose source nobody may ask.
fn unasked(source: &str, whole: &str) -> Router {
    served(1, source, whole, true)
}

fn policy(namespace: &str) -> String {
    json!({
        "apiVersion": "hedgerow.dev/v1alpha1", "kind": "HedgePolicy",
        "metadata": { "name": "kb-search", "namespace": namespace }, "spec": written_spec(),
    })
    .to_string()
}

fn sent(path: &str, host: &str, kind: &str, body: impl Into<Body>) -> Request {
    Request::post(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, kind)
        .body(body.into())
        .unwrap()
}

async fn answered(router: Router, request: Request) -> (StatusCode, String) {
    let answer = router.oneshot(request).await.unwrap();
    let status = answer.status();
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn planned(router: Router, text: impl Into<Body>) -> (StatusCode, String) {
    answered(router, sent("/plan", "localhost:8081", YAML, text)).await
}

#[tokio::test]
async fn names_of_loopback_alone_are_answered_to() {
    for (host, loopback) in [
        ("localhost:8081", true),
        ("127.0.0.1:8081", true),
        ("[::1]:8081", true),
        ("evil.example:8081", false),
        ("localhost.evil.example", false),
        ("", false),
    ] {
        let explanation = Request::get("/explain/helpdesk/kb-search")
            .header(header::HOST, host)
            .body(Body::empty());
        let (explained, _) = answered(unasked("", ""), explanation.unwrap()).await;
        assert_eq!(explained == StatusCode::OK, loopback, "{host}: {explained}");
        let (planned, _) = answered(unasked("", ""), sent("/plan", host, YAML, "")).await;
        assert_eq!(planned == StatusCode::FORBIDDEN, !loopback, "{host}: {planned}");
        assert_eq!(
            explained == StatusCode::FORBIDDEN,
            !loopback,
            "{host}: {explained}"
        );
    }
}

#[tokio::test]
async fn a_source_that_does_not_answer_is_told_and_nothing_is_taken_for_a_number() {
    let nobody = free_port().unwrap();
    let (status, text) = planned(served(nobody, "", "", true), policy("helpdesk")).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let plan: Value = serde_json::from_str(&text).unwrap();
    assert!(plan["failing"]["default"].as_str().is_some(), "{plan}");
    let target = &plan["targets"][0];
    assert_eq!(target["policy"], "helpdesk/kb-search");
    assert_eq!(
        (&target["enabled"], &target["delayMs"]),
        (&json!(false), &json!(null))
    );
    assert_eq!(target["latency"]["state"], "Unknown");
    // Whoever asked can read it as what it was.
    let read: crate::plan::Plan = serde_json::from_value(plan.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), plan);
}

#[tokio::test]
async fn only_the_leader_plans() {
    let (status, text) = planned(served(1, "", "", false), policy("helpdesk")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
}

/// A browser sends these three to anybody, unasked.
#[tokio::test]
async fn what_a_website_may_send_is_not_taken() {
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
    ] {
        let request = sent("/plan", "localhost:8081", kind, policy("helpdesk"));
        let (status, text) = answered(unasked("", ""), request).await;
        assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}: {text}");
    }
}

#[tokio::test]
async fn no_url_can_be_named() {
    for wish in ["prometheus=http://evil.example", "config=/etc/passwd", "url=x"] {
        let request = sent(
            &format!("/plan?{wish}"),
            "localhost:8081",
            YAML,
            policy("helpdesk"),
        );
        let (status, text) = answered(unasked("", ""), request).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wish}: {text}");
    }
    let elsewhere = policy("helpdesk").replace(r#""targets""#, r#""source":"http://evil.example","targets""#);
    let (status, text) = planned(unasked("", ""), elsewhere).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{text}");
}

#[tokio::test]
async fn a_namespace_gets_what_the_administrator_allows_it_and_no_more() {
    let refused = async |router, text: String, why: &str| {
        let (status, told) = planned(router, text).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
        assert!(told.contains(why), "{told}");
    };
    let no_source = "there is no source \"default\" for namespace shop";
    refused(unasked("", ""), policy("shop"), no_source).await;
    let elsewhere = "this operator does not look after namespace helpdesk";
    refused(
        unasked("", "watchNamespaces: [shop]"),
        policy("helpdesk"),
        elsewhere,
    )
    .await;
    let two = format!(
        "{}\n---\n{}",
        policy("helpdesk"),
        policy("helpdesk").replace("kb-search", "other")
    );
    let crowded = "allows 1 targets in a namespace, and these are 2";
    refused(
        unasked(", ceilings: { maxTargetsPerNamespace: 1 }", ""),
        two,
        crowded,
    )
    .await;
    refused(
        unasked("", ""),
        policy("helpdesk").replace("true", "false"),
        "idempotent",
    )
    .await;
}

#[tokio::test]
async fn no_more_is_taken_than_a_plan_may_need() {
    let (status, _) = planned(unasked("", ""), vec![b' '; plan::MOST_BYTES + 1]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let many: Vec<String> = (0..65)
        .map(|at| policy("helpdesk").replace("kb-search", &format!("p{at}")))
        .collect();
    let (status, text) = planned(unasked("", ""), many.join("\n---\n")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{text}");
    assert!(text.contains("65 targets are too many"), "{text}");
}

#[tokio::test]
async fn one_plan_is_made_at_a_time_and_one_that_nobody_waits_for_is_given_up() {
    let source = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let router = served(source.local_addr().unwrap().port(), "", "", true);
    let first = tokio::spawn(planned(router.clone(), policy("helpdesk")));
    let (_unanswered, _) = source.accept().await.unwrap();
    let (status, text) = planned(router.clone(), policy("helpdesk")).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{text}");
    first.abort();
    let _ = first.await;
    let next = tokio::spawn(planned(router, policy("helpdesk")));
    let accepted = tokio::time::timeout(Duration::from_secs(30), source.accept()).await;
    assert!(accepted.is_ok(), "the source is asked again");
    next.abort();
}
