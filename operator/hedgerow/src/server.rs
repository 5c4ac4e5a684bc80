//! What the operator serves to the cluster: health and metrics.

use std::future::Future;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::cluster::Caches;
use crate::heartbeat::Heartbeats;
use crate::metrics::Metrics;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is told to the cluster.
#[derive(Clone, Debug)]
pub struct Health {
    /// Whether the loops move: liveness.
    pub heartbeats: Heartbeats,
    /// Whether the caches are complete: readiness. Neither depends on Prometheus.
    pub caches: Caches,
    /// What is waited for before anything begins, if it is: unready, too.
    pub waits_for: watch::Receiver<Option<String>>,
    /// The metrics.
    pub metrics: Metrics,
}

/// Serves `/healthz`, `/readyz` and `/metrics` until `stop`.
///
/// # Errors
/// When the listener fails.
pub async fn serve_health(
    listener: TcpListener,
    health: Health,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(health);
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}

/// Listens on `address`.
///
/// # Errors
/// When the address is taken or not ours; the message names the key of the configuration.
pub async fn listen(key: &str, address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address)
        .await
        .map_err(|why| format!("{key}: cannot listen on {address}: {why}; choose another address"))
}

async fn healthz(State(health): State<Health>) -> Response {
    let stuck = health.heartbeats.stuck();
    if stuck.is_empty() {
        return "ok\n".into_response();
    }
    (
        StatusCode::SERVICE_UNAVAILABLE,
        format!("stuck: {}\n", stuck.join(", ")),
    )
        .into_response()
}

async fn readyz(State(health): State<Health>) -> Response {
    let mut missing = health.caches.missing();
    missing.extend(health.waits_for.borrow().clone());
    if missing.is_empty() {
        return format!("ok\n{}", failing(&health.caches)).into_response();
    }
    (
        StatusCode::SERVICE_UNAVAILABLE,
        format!("{}\n", missing.join("\n")),
    )
        .into_response()
}

/// The watches that fail, one a line. That makes nobody unready: hedging goes on by what is known, and no other replica
/// would know more.
fn failing(caches: &Caches) -> String {
    let lines = caches.watched().into_iter().filter_map(|watch| {
        let error = watch.error.as_ref()?;
        Some(format!("the watch of {} fails: {error}\n", watch.name()))
    });
    lines.collect()
}

async fn metrics(State(health): State<Health>, headers: HeaderMap) -> Response {
    let (kind, text) = if wants_open_metrics(&headers) {
        (OPEN_METRICS, health.metrics.open_metrics())
    } else {
        (CONTENT_TYPE, health.metrics.plain_text())
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Prometheus asks for it; people and promtool, who do not, get the format that both can read.
fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains("application/openmetrics-text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_open_metrics_gets_it_and_others_the_older_format() {
        let asks = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.append(header::ACCEPT, accept.parse().unwrap());
            wants_open_metrics(&headers)
        };
        // What Prometheus 3.16 sends, shortened.
        assert!(asks(
            "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.2"
        ));
        assert!(!asks("*/*"));
        assert!(!wants_open_metrics(&HeaderMap::new()));
    }

    #[test]
    fn a_watch_that_fails_is_told_by_who_is_ready() {
        let caches = Caches::default();
        let slot = caches.slot("hedgerow-off ConfigMaps", Some("shop"));
        slot.works();
        assert_eq!(failing(&caches), "");
        slot.failed("forbidden".to_owned());
        assert_eq!(
            failing(&caches),
            "the watch of hedgerow-off ConfigMaps in shop fails: forbidden\n"
        );
    }
}
