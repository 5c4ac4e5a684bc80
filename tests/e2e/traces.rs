//! What the operator sends to a collector of traces.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use hedgerow_tests::eventually;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;

use crate::policy::policy;
use crate::scene::{SOON, Scene};

/// A collector that takes OTLP over HTTP, and keeps what it got.
#[derive(Clone, Debug, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

impl Collector {
    async fn serve(&self) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/v1/traces", post(take))
            .with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}")
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.0.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// A span of that name with this attribute, beneath one of the name `parent`; none: at the root.
    fn span(&self, name: &str, attribute: (&str, &str), parent: Option<&str>) -> Result<Span> {
        let spans = self.spans();
        let fits = |span: &&Span| {
            let above = spans.iter().find(|above| above.span_id == span.parent_span_id);
            span.name == name
                && text(&span.attributes, attribute.0) == Some(attribute.1)
                && above.map(|above| above.name.as_str()) == parent
        };
        let found = spans.iter().find(fits).cloned();
        found.with_context(|| format!("no {name} with {attribute:?} beneath {parent:?}"))
    }
}

async fn take(State(collector): State<Collector>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if headers["content-type"] != "application/x-protobuf" {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE;
    }
    let Ok(request) = ExportTraceServiceRequest::decode(body) else {
        return StatusCode::BAD_REQUEST;
    };
    collector.0.lock().unwrap().push(request);
    StatusCode::OK
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

#[tokio::test]
async fn a_collector_sees_polls_queries_decisions_and_writes() {
    let collector = Collector::default();
    let endpoint = collector.serve().await;
    let mut scene = Scene::with_operator("traces", |operator| operator.traces_to(&endpoint)).await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;

    let kb = format!("{}/kb", scene.namespace.name());
    eventually("every span is there, in its place", SOON, async || {
        collector.span("poll", ("kind", "latency"), None)?;
        collector.span("poll", ("kind", "saturation"), None)?;
        let query = collector.span("query", ("source", "default"), Some("poll"))?;
        ensure!(text(&query.attributes, "db.query.text").is_some_and(|text| !text.is_empty()));
        ensure!(
            query.kind == 3,
            "a client's span is of kind 3, this is of {}",
            query.kind
        );
        collector.span("decide", ("policy", &kb), Some("poll"))?;
        collector.span("reconcile", ("policy", &kb), None)?;
        let write = collector.span("write", ("object", "configmap"), Some("reconcile"))?;
        ensure!(text(&write.attributes, "outcome") == Some("ok"));
        collector.span("write", ("object", "status"), Some("reconcile"))?;
        Ok(())
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", scene.operator.log_tail()));

    let requests = collector.0.lock().unwrap().clone();
    let resource = requests[0].resource_spans[0].resource.as_ref().unwrap();
    assert_eq!(text(&resource.attributes, "service.name"), Some("hedgerow"));

    let names: std::collections::BTreeSet<String> =
        collector.spans().into_iter().map(|span| span.name).collect();
    let ours = ["decide", "poll", "query", "reconcile", "write"].map(str::to_owned);
    assert_eq!(names, ours.into(), "and none of the libraries");
    assert!(scene.operator.stop().await.unwrap().success());
}
