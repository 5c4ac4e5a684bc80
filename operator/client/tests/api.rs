//! Following a document through the Kubernetes API, its faults included, in virtual time.

#![cfg(feature = "kube")]
#![allow(clippy::unwrap_used)] // Helpers of tests.

mod common;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Scraped, document_with, revision};
use hedgerow_client::{Hedger, Metrics};
use http::{Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::service_fn;

/// An API server with room for one ConfigMap. A watch is answered after a second with what happened since its
/// resourceVersion and then ends, as a server ends each watch in time.
#[derive(Clone, Default)]
struct Api(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    config_map: Option<Value>,
    /// The events; an event's resourceVersion is its place, counted from one.
    events: Vec<Value>,
    /// Every request is answered with this.
    fault: Option<StatusCode>,
    /// Watches from before this resourceVersion are too old.
    kept_from: usize,
    /// That is said before the stream instead of in it.
    refuses_old: bool,
    /// The query of each request.
    asked: Vec<String>,
}

impl Api {
    fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let api = api.clone();
            let query = request.uri().query().unwrap_or_default().to_owned();
            async move { Ok::<_, Infallible>(api.answer(query).await) }
        });
        kube::Client::new(service, "default")
    }

    /// Writes or deletes the ConfigMap.
    fn write(&self, data: Option<Value>) {
        let mut state = self.0.lock().unwrap();
        let version = (state.events.len() + 1).to_string();
        let kind = match (&state.config_map, &data) {
            (None, _) => "ADDED",
            (Some(_), Some(_)) => "MODIFIED",
            (Some(_), None) => "DELETED",
        };
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "kb-hedging", "namespace": "helpdesk", "resourceVersion": version },
            "data": data.clone().unwrap_or_default(),
        });
        state.events.push(json!({ "type": kind, "object": object }));
        state.config_map = data.map(|_| object);
    }

    fn publish(&self, revision: u64) {
        let document = document_with([("/revision", json!(revision))]);
        self.write(Some(json!({ "shard-read.json": document })));
    }

    fn fail(&self, fault: impl Into<Option<StatusCode>>) {
        self.0.lock().unwrap().fault = fault.into();
    }

    /// Starts anew with the same objects, and knows no old events any more.
    fn restart(&self) {
        let mut state = self.0.lock().unwrap();
        state.events.push(json!(null));
        state.kept_from = state.events.len();
    }

    async fn answer(&self, query: String) -> Response<Body> {
        let watched_from = query
            .contains("watch=true")
            .then(|| parameter(&query, "resourceVersion").parse::<usize>().unwrap());
        self.0.lock().unwrap().asked.push(query);
        if watched_from.is_some() {
            sleep(Duration::from_secs(1)).await;
        }
        let state = self.0.lock().unwrap();
        if let Some(code) = state.fault {
            return respond(code, failure(code).to_string());
        }
        let text = match watched_from {
            Some(from) if from < state.kept_from && state.refuses_old => {
                return respond(StatusCode::GONE, failure(StatusCode::GONE).to_string());
            }
            // As the real one says it: in the stream.
            Some(from) if from < state.kept_from => {
                json!({ "type": "ERROR", "object": failure(StatusCode::GONE) }).to_string()
            }
            Some(from) => state.events[from..]
                .iter()
                .map(|event| format!("{event}\n"))
                .collect(),
            None => json!({
                "kind": "ConfigMapList",
                "apiVersion": "v1",
                "metadata": { "resourceVersion": state.events.len().to_string() },
                "items": state.config_map.iter().collect::<Vec<_>>(),
            })
            .to_string(),
        };
        respond(StatusCode::OK, text)
    }

    fn follow(&self, metrics: &Metrics) -> Hedger {
        Hedger::builder("shard-read").metrics(metrics).follow_config_map(
            self.client(),
            "helpdesk",
            "kb-hedging",
            "shard-read.json",
        )
    }
}

fn failure(code: StatusCode) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16() })
}

fn respond(code: StatusCode, text: String) -> Response<Body> {
    Response::builder()
        .status(code)
        .body(Body::from(text.into_bytes()))
        .unwrap()
}

fn parameter<'a>(query: &'a str, name: &str) -> &'a str {
    let value = |pair: &'a str| pair.strip_prefix(name)?.strip_prefix('=');
    query.split('&').find_map(value).unwrap()
}

async fn until_revision(hedger: &Hedger, expected: Option<u64>) {
    let reached = async {
        while revision(hedger) != expected {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(300), reached).await.unwrap();
}

/// Longer than any pause between two tries.
async fn a_while() {
    sleep(Duration::from_secs(120)).await;
}

#[tokio::test(start_paused = true)]
async fn a_config_map_that_comes_later_is_followed_until_its_key_or_itself_is_deleted() {
    let api = Api::default();
    let hedger = api.follow(&Metrics::default());
    a_while().await;
    assert_eq!(revision(&hedger), None);
    api.publish(1);
    until_revision(&hedger, Some(1)).await;
    api.publish(2);
    until_revision(&hedger, Some(2)).await;
    api.write(Some(json!({ "other.json": "{}" })));
    until_revision(&hedger, None).await;
    api.publish(3);
    until_revision(&hedger, Some(3)).await;
    api.write(None);
    until_revision(&hedger, None).await;
    api.publish(4);
    until_revision(&hedger, Some(4)).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_the_api_refuses_the_last_document_holds_and_the_newest_is_followed_afterwards() {
    let (api, metrics) = (Api::default(), Metrics::default());
    let scraped = Scraped::new(&metrics);
    api.publish(1);
    let hedger = api.follow(&metrics);
    until_revision(&hedger, Some(1)).await;
    let mut newest = 1;
    for fault in [401, 403, 404, 429, 500, 503] {
        api.fail(StatusCode::from_u16(fault).unwrap());
        api.publish(newest + 1);
        a_while().await;
        assert_eq!(revision(&hedger), Some(newest), "{fault}");
        newest += 1;
        api.fail(None);
        until_revision(&hedger, Some(newest)).await;
    }
    assert_eq!(
        scraped.get("documents_total{target=\"shard-read\",outcome=\"accepted\"}"),
        Some(7.0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_read_at_first_does_not_hedge_until_it_may() {
    let api = Api::default();
    api.publish(1);
    api.fail(StatusCode::FORBIDDEN);
    let hedger = api.follow(&Metrics::default());
    a_while().await;
    assert_eq!(revision(&hedger), None);
    api.fail(None);
    until_revision(&hedger, Some(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_server_is_no_change_and_what_was_deleted_meanwhile_is_missing() {
    let (api, metrics) = (Api::default(), Metrics::default());
    let scraped = Scraped::new(&metrics);
    api.publish(1);
    let hedger = api.follow(&metrics);
    until_revision(&hedger, Some(1)).await;
    api.restart();
    a_while().await;
    assert_eq!(revision(&hedger), Some(1));
    assert_eq!(
        scraped.get("documents_total{target=\"shard-read\",outcome=\"accepted\"}"),
        Some(1.0)
    );
    api.write(None);
    api.restart();
    until_revision(&hedger, None).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_as_too_old_begins_with_a_list() {
    let api = Api::default();
    api.0.lock().unwrap().refuses_old = true;
    api.publish(1);
    let hedger = api.follow(&Metrics::default());
    until_revision(&hedger, Some(1)).await;
    api.publish(2);
    api.restart();
    until_revision(&hedger, Some(2)).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_one_config_map_is_asked_for_and_nothing_after_the_last_hedger_went() {
    let api = Api::default();
    api.publish(1);
    let hedger = api.follow(&Metrics::default());
    until_revision(&hedger, Some(1)).await;
    drop(hedger);
    a_while().await;
    let asked = std::mem::take(&mut api.0.lock().unwrap().asked);
    assert!(!asked.is_empty());
    for query in asked {
        assert!(
            query.contains("fieldSelector=metadata.name%3Dkb-hedging"),
            "{query}"
        );
    }
    a_while().await;
    assert_eq!(api.0.lock().unwrap().asked, Vec::<String>::new());
}
