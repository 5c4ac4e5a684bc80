//! What the operator serves: health and metrics to the cluster, explanations to a port-forward.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A question that is answered from the operator's state.
type Check = Box<dyn Fn() -> bool + Send + Sync>;

/// How the operator is. Neither answer depends on Prometheus: an operator that cannot read its signals is well, and busy
/// telling clients off.
pub struct Health {
    /// Whether the loop moves. When not, the process should be restarted.
    pub alive: Check,
    /// Whether the caches are synced.
    pub ready: Check,
}

/// Explains a policy: namespace and name in, JSON out. `None`: there is no such policy, or this replica does not lead.
pub type Explain = Box<dyn Fn(&str, &str) -> Option<Value> + Send + Sync>;

/// Binds an address, before anything else depends on it.
///
/// # Errors
/// When it cannot be bound, naming the key of the configuration.
pub async fn bind(key: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|why| anyhow::anyhow!("{key}: cannot listen on {address}: {why}; choose another port"))
}

/// Serves `/healthz`, `/readyz` and `/metrics` until `stop`.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, health: Health, metrics: Metrics, stop: CancellationToken) -> anyhow::Result<()> {
    let health = Arc::new(health);
    let router = Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state(health)
        .merge(Router::new().route("/metrics", get(exposed)).with_state(metrics));
    run(listener, router, stop).await
}

/// Serves `/explain/NAMESPACE/NAME` until `stop`. The listener is on loopback: what policies read is not for other pods.
///
/// # Errors
/// When the listener fails.
pub async fn serve_explain(listener: TcpListener, explain: Explain, stop: CancellationToken) -> anyhow::Result<()> {
    let router = Router::new().route("/explain/{namespace}/{name}", get(explained)).with_state(Arc::new(explain));
    run(listener, router, stop).await
}

async fn run(listener: TcpListener, router: Router, stop: CancellationToken) -> anyhow::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await?;
    Ok(())
}

async fn alive(State(health): State<Arc<Health>>) -> Response {
    answer((health.alive)(), "the loop does not move")
}

async fn ready(State(health): State<Arc<Health>>) -> Response {
    answer((health.ready)(), "the caches are not synced yet")
}

fn answer(well: bool, otherwise: &'static str) -> Response {
    if well { "ok\n".into_response() } else { (StatusCode::SERVICE_UNAVAILABLE, format!("{otherwise}\n")).into_response() }
}

async fn exposed(State(metrics): State<Metrics>) -> Response {
    match metrics.exposition() {
        Ok(text) => ([(CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn explained(State(explain): State<Arc<Explain>>, Path((namespace, name)): Path<(String, String)>) -> Response {
    match explain(&namespace, &name) {
        Some(explanation) => axum::Json(explanation).into_response(),
        None => {
            let text = format!("no decision for policy {namespace}/{name} here: is the name right, and does this replica lead?\n");
            (StatusCode::NOT_FOUND, text).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use serde_json::json;
    use tower::ServiceExt;

    use super::*;

    async fn get_status(router: Router, path: &str) -> StatusCode {
        router.oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap().status()
    }

    #[tokio::test]
    async fn readiness_and_liveness_are_told_apart() {
        let health = Arc::new(Health { alive: Box::new(|| true), ready: Box::new(|| false) });
        let router = Router::new().route("/healthz", get(alive)).route("/readyz", get(ready)).with_state(health);
        assert_eq!(get_status(router.clone(), "/healthz").await, StatusCode::OK);
        assert_eq!(get_status(router, "/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test]
    async fn an_unknown_policy_is_not_found() {
        let explain: Explain = Box::new(|namespace, name| (namespace == "helpdesk" && name == "kb").then(|| json!({})));
        let router = Router::new().route("/explain/{namespace}/{name}", get(explained)).with_state(Arc::new(explain));
        assert_eq!(get_status(router.clone(), "/explain/helpdesk/kb").await, StatusCode::OK);
        assert_eq!(get_status(router, "/explain/helpdesk/other").await, StatusCode::NOT_FOUND);
    }
}
