//! A small server that answers as a test says, and remembers what it was asked.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;

/// One request that the server got.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    /// The form's fields.
    pub(crate) form: Vec<(String, String)>,
}

impl Asked {
    pub(crate) fn field(&self, name: &str) -> &str {
        let field = self.form.iter().find(|(key, _)| key == name);
        field.map_or("", |(_, value)| value)
    }
}

/// What the server remembers, and how it answers.
#[derive(Clone)]
struct Script {
    asked: Arc<Mutex<Vec<Asked>>>,
    answer: Arc<dyn Fn(&Asked) -> Response + Send + Sync>,
}

/// The server, until the test ends.
pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&Asked) -> Response + Send + Sync + 'static) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script = Script {
            asked: asked.clone(),
            answer: Arc::new(answer),
        };
        let app = Router::new().fallback(handle).with_state(script);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, asked }
    }

    /// What it was asked, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn handle(
    State(script): State<Script>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let form = reqwest::Url::parse(&format!("http://form/?{}", String::from_utf8_lossy(&body))).unwrap();
    let request = Asked {
        method,
        uri,
        headers,
        form: form
            .query_pairs()
            .map(|(key, value)| (key.into_owned(), value.into_owned()))
            .collect(),
    };
    script.asked.lock().unwrap().push(request.clone());
    (script.answer)(&request)
}

/// An answer with these elements: `(labels as JSON, time, value)`.
pub(crate) fn vector(elements: &[(String, i64, f64)]) -> Response {
    let elements: Vec<_> = elements
        .iter()
        .map(|(labels, time, value)| format!(r#"{{"metric":{labels},"value":[{time},"{value}"]}}"#))
        .collect();
    json(&format!(
        r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#,
        elements.join(",")
    ))
}

pub(crate) fn json(body: &str) -> Response {
    ([("content-type", "application/json")], body.to_owned()).into_response()
}
