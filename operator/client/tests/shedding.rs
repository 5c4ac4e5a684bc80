//! Turning hedges away at a busy server, in virtual time.

#![cfg(feature = "tower")]
#![allow(clippy::unwrap_used)] // Helpers of tests.

mod common;

use std::convert::Infallible;
use std::time::Duration;

use common::Scraped;
use hedgerow_client::{ATTEMPT_HEADER, Metrics, ShedHedgesLayer};
use http::header::CONTENT_TYPE;
use http::{HeaderName, Request, Response, StatusCode};
use tokio::time::sleep;
use tower::{Layer, Service, ServiceExt, service_fn};

const MS: Duration = Duration::from_millis(1);

/// A server that takes 100 ms for each request.
fn server()
-> impl Service<Request<()>, Response = Response<&'static str>, Error = Infallible, Future: Send> + Clone {
    service_fn(|_: Request<()>| async {
        sleep(100 * MS).await;
        Ok(Response::new("served"))
    })
}

fn primary() -> Request<()> {
    Request::new(())
}

fn hedge() -> Request<()> {
    Request::builder().header(ATTEMPT_HEADER, 1).body(()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn above_the_line_hedges_are_turned_away_and_primaries_are_not() {
    let metrics = Metrics::default();
    let scraped = Scraped::new(&metrics);
    let server = ShedHedgesLayer::new(2).metrics(&metrics).layer(server());
    let status = |request| {
        let server = server.clone();
        async move { server.oneshot(request).await.unwrap().status() }
    };
    // Two in flight are not above the line of two, so the third is served; with three the fourth is not.
    let together = tokio::join!(
        status(primary()),
        status(primary()),
        status(hedge()),
        status(hedge()),
        status(primary()),
    );
    let (ok, busy) = (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(together, (ok, ok, ok, busy, ok));
    assert_eq!(scraped.get("hedges_shed_total"), Some(1.0));
    // All have ended: there is room again.
    assert_eq!(status(hedge()).await, ok);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_client_went_away_frees_its_place() {
    let server = ShedHedgesLayer::new(0).layer(server());
    let gone = tokio::time::timeout(50 * MS, server.clone().oneshot(primary()));
    gone.await.unwrap_err();
    assert_eq!(server.oneshot(hedge()).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn services_of_one_layer_share_one_count() {
    let layer = ShedHedgesLayer::new(0);
    let (one, other) = (layer.layer(server()), layer.layer(server()));
    let (first, second) = tokio::join!(one.oneshot(primary()), other.oneshot(hedge()));
    assert_eq!(first.unwrap().status(), StatusCode::OK);
    assert_eq!(second.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_of_grpc_is_answered_in_its_own_terms() {
    let server = ShedHedgesLayer::new(0).layer(server());
    let mut grpc = hedge();
    let kind = "application/grpc+proto".parse().unwrap();
    grpc.headers_mut().insert(CONTENT_TYPE, kind);
    let (_, answer) = tokio::join!(server.clone().oneshot(primary()), server.oneshot(grpc));
    let answer = answer.unwrap();
    // 8 is RESOURCE_EXHAUSTED; gRPC's status is not HTTP's.
    assert_eq!(
        (answer.status(), &answer.headers()["grpc-status"]),
        (StatusCode::OK, &"8".parse().unwrap())
    );
    assert_eq!(answer.headers()[CONTENT_TYPE], "application/grpc+proto");
}

#[tokio::test(start_paused = true)]
async fn the_header_and_the_answer_may_be_others_an_error_too() {
    let server = service_fn(|_: Request<()>| async {
        sleep(100 * MS).await;
        Ok::<_, &str>(Response::new(()))
    });
    let layer = ShedHedgesLayer::new(0)
        .header(HeaderName::from_static("x-extra"))
        .answer(|_: &Request<()>| Err("busy"));
    let server = layer.layer(server);
    let extra = Request::builder().header("x-extra", "yes").body(()).unwrap();
    let (first, second, third) = tokio::join!(
        server.clone().oneshot(hedge()),
        server.clone().oneshot(extra),
        server.oneshot(hedge()),
    );
    assert!(first.is_ok() && third.is_ok());
    assert_eq!(second.unwrap_err(), "busy");
}
