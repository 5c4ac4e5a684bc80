//! What the operator serves: health and metrics to the cluster, explanations to loopback alone.

use std::future::Future;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::cluster::{Caches, PolicyKey};
use crate::explain::explain;
use crate::heartbeat::Heartbeats;
use crate::index::Index;
use crate::metrics::Metrics;

/// What is told to the cluster.
#[derive(Clone, Debug)]
pub struct Health {
    /// Whether the loops move: liveness.
    pub heartbeats: Heartbeats,
    /// Whether the caches are complete: readiness. Neither depends on Prometheus.
    pub caches: Caches,
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

/// Serves `/explain/NAMESPACE/NAME` until `stop`.
///
/// # Errors
/// When the listener fails.
pub async fn serve_explanations(
    listener: TcpListener,
    index: Index,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/explain/{namespace}/{name}", get(explanation))
        .with_state(index);
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
    let missing = health.caches.missing();
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

async fn metrics(State(health): State<Health>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], health.metrics.text()).into_response()
}

async fn explanation(
    State(index): State<Index>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let key = PolicyKey::new(namespace, name);
    match index.view(&key) {
        Some(targets) => axum::Json(explain(&key.to_string(), &targets)).into_response(),
        None => {
            let message = format!(
                "{key} is not followed by this replica: it does not exist, is not valid, or another replica leads\n"
            );
            (StatusCode::NOT_FOUND, message).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
