//! A server that has nothing, so that it is asked everything; and the operator's way to ask it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use hedgerow::compile::compile;
use hedgerow::settings::{DeclaredSource, Settings};
use hedgerow_api::decode_spec;
use hedgerow_signals::{Source, TargetQuery};
use serde_json::Value;

use crate::LABEL;

type Queries = Arc<Mutex<Vec<String>>>;

/// The server. It has no rules API, so that alerts are asked for by their series.
pub(crate) struct Recorder {
    source: DeclaredSource,
    queries: Queries,
}

impl Recorder {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let queries = Queries::default();
        let app = Router::new()
            .route("/api/v1/query", post(record))
            .fallback(|| async { StatusCode::NOT_FOUND })
            .with_state(Arc::clone(&queries));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let text = format!(
            "sources: [{{ name: default, url: '{url}', namespaces: ['*'], enforceNamespaceLabel: {LABEL} }}]"
        );
        let settings = Settings::parse("operator.yaml", &text).unwrap();
        Self {
            source: settings.sources.available("default", "any").unwrap().clone(),
            queries,
        }
    }

    /// Reads all that the policies, each in its namespace, name: twice, since gauges are asked for anew when their scrape
    /// interval is known.
    pub(crate) async fn read(&self, policies: &[(&str, Value)]) {
        let compiled = |(namespace, spec): &(&str, Value)| {
            let spec = decode_spec(spec).unwrap_or_else(|why| panic!("{why:?}: {spec}"));
            let compiled = compile(&spec, namespace, &self.source, Duration::from_secs(90)).unwrap();
            compiled.targets.into_iter().map(|target| target.query)
        };
        let targets: Vec<TargetQuery> = policies.iter().flat_map(compiled).collect();
        let source = Source::new(self.source.settings.clone()).unwrap();
        source.read(&targets).await;
        source.read(&targets).await;
        // What people are shown is to be pasted into a console that may enforce nothing.
        let shown = targets.iter().flat_map(|target| source.queries_for(target));
        self.queries.lock().unwrap().extend(shown);
    }

    /// What it was asked.
    pub(crate) fn queries(&self) -> Vec<String> {
        let queries = self.queries.lock().unwrap().clone();
        assert!(!queries.is_empty());
        queries
    }
}

async fn record(
    State(queries): State<Queries>,
    body: String,
) -> ([(&'static str, &'static str); 1], &'static str) {
    let form = reqwest::Url::parse(&format!("http://form/?{body}")).unwrap();
    let query = form.query_pairs().find(|(name, _)| name == "query").unwrap().1;
    queries.lock().unwrap().push(query.into_owned());
    (
        [("content-type", "application/json")],
        r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#,
    )
}
