//! The status page: what is decided, read and written now, for a person with `kubectl port-forward`.
//!
//! Off unless it is configured. It only shows: there is nothing to press, no script, and nothing from elsewhere. It listens on
//! loopback, and answers only to names of loopback, so that no website that a browser shows can read it by a name of its own.

mod chart;
mod trail;
mod view;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::cluster::Caches;
use crate::index::Index;
use crate::loopback;
use crate::words;

use self::trail::Trails;

/// How often a point is kept of each target.
const PERIOD: Duration = Duration::from_secs(10);

/// How often a page that shall renew itself does.
const RENEWED: Duration = Duration::from_secs(10);

const STYLE: &str = include_str!("page/style.css");

/// Nothing but its own style sheet, and shown in no frame.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What is shown. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Page {
    index: Index,
    caches: Caches,
    leads: watch::Receiver<bool>,
    instance: Arc<str>,
    trails: Trails,
}

impl Page {
    /// A page about the policies in `index`, of the replica that `leads` or not, of the install `instance`.
    pub fn new(index: Index, caches: Caches, leads: watch::Receiver<bool>, instance: &str) -> Self {
        Self {
            index,
            caches,
            leads,
            instance: instance.into(),
            trails: Trails::default(),
        }
    }

    /// Serves it until `stop`, and keeps what it shows of the past meanwhile.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let watching = self.clone();
        let server = axum::serve(listener, self.router()).with_graceful_shutdown(stop);
        tokio::select! {
            ended = async { server.await } => ended,
            () = watching.keep() => Ok(()),
        }
    }

    fn router(self) -> Router {
        Router::new()
            .route("/", get(page))
            .route("/style.css", get(style))
            .layer(middleware::from_fn(loopback::guard))
            .layer(middleware::from_fn(confine))
            .with_state(self)
    }

    /// Keeps a point of each target now and then, for ever.
    async fn keep(self) {
        let mut tick = interval(PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.trails.keep(&self.index.views(), words::now());
        }
    }
}

async fn page(State(page): State<Page>, RawQuery(wishes): RawQuery) -> Response {
    let live = wishes.as_deref() == Some(view::LIVE);
    let seen = view::Seen {
        instance: &page.instance,
        leads: *page.leads.borrow(),
        policies: &page.index.views(),
        watches: &page.caches.watched(),
        trails: &page.trails.all(),
        now: words::now(),
        renewed: live.then_some(RENEWED),
    };
    Html(view::page(&seen).into_string()).into_response()
}

async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

/// Tells browsers what they may do with whatever is answered.
async fn confine(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
