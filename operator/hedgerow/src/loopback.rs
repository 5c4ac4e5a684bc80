//! What is served to loopback alone: explanations and plans, for people with `kubectl port-forward`.
//!
//! A port that is forwarded can be asked by every website that a browser shows, under a name of its own that it lets point to
//! loopback. So whatever is served here answers to names of loopback alone.

use std::future::Future;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;

use crate::cluster::PolicyKey;
use crate::explain::explain;
use crate::index::Index;
use crate::plan::{self, Planner};

/// Serves `/explain/NAMESPACE/NAME` and `/plan` until `stop`.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    index: Index,
    planner: Planner,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(index, planner))
        .with_graceful_shutdown(stop)
        .await
}

fn router(index: Index, planner: Planner) -> Router {
    let explanations = Router::new()
        .route("/explain/{namespace}/{name}", get(explanation))
        .with_state(index);
    let plans = Router::new()
        .route("/plan", post(plan::serve))
        .layer(DefaultBodyLimit::max(plan::MOST_BYTES))
        .with_state(planner);
    explanations.merge(plans).layer(middleware::from_fn(guard))
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

/// Answers requests for a name of loopback alone.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let mut response = if is_asked_for(request.headers()) {
        next.run(request).await
    } else {
        let message = "ask for this as http://localhost:PORT/, through kubectl port-forward\n";
        (StatusCode::FORBIDDEN, message).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Whether a request is for a name of loopback.
fn is_asked_for(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let authority: Option<http::uri::Authority> = host.and_then(|host| host.parse().ok());
    authority.is_some_and(|authority| matches!(authority.host(), "localhost" | "127.0.0.1" | "[::1]"))
}

#[cfg(test)]
mod tests;
