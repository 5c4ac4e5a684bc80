//! A real API server does not answer as these tests need it, a plain 410 or a page of one object: so they script one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::super::caches::Caches;
use super::*;

/// Answers in this order, and then waits for ever.
#[derive(Default)]
struct Script {
    answers: VecDeque<(StatusCode, String)>,
    /// What was asked: `list`, `list next` (a page), `look` (a list of one), or `watch VERSION`.
    asked: Vec<String>,
}

type Shared = Arc<Mutex<Script>>;

async fn answer(State(script): State<Shared>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let answer = {
        let mut script = script.lock().unwrap();
        let asked = match (query.get("watch"), query.get("continue")) {
            (Some(_), _) => format!("watch {}", query["resourceVersion"]),
            (None, Some(token)) => format!("list {token}"),
            (None, None) if query["limit"] == "1" => "look".to_owned(),
            (None, None) => "list".to_owned(),
        };
        script.asked.push(asked);
        script.answers.pop_front()
    };
    match answer {
        Some(answer) => answer.into_response(),
        None => std::future::pending().await,
    }
}

fn object(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "helpdesk", "resourceVersion": version },
    })
}

fn list(version: &str, next: &str, objects: &[Value]) -> (StatusCode, String) {
    let list = json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": { "resourceVersion": version, "continue": next },
        "items": objects,
    });
    (StatusCode::OK, list.to_string())
}

fn watch(events: &[(&str, Value)]) -> (StatusCode, String) {
    let lines = events
        .iter()
        .map(|(kind, object)| format!("{}\n", json!({ "type": kind, "object": object })));
    (StatusCode::OK, lines.collect())
}

fn status(code: u16) -> Value {
    json!({ "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": "Test", "message": "no" })
}

fn refused(code: u16) -> (StatusCode, String) {
    (StatusCode::from_u16(code).unwrap(), status(code).to_string())
}

/// The names that are known.
#[derive(Default)]
struct Names(Mutex<BTreeSet<NamespacedName>>);

impl Cache for Names {
    type Object = ConfigMap;

    fn known(&self) -> Vec<NamespacedName> {
        self.0.lock().unwrap().iter().cloned().collect()
    }

    fn set(&self, name: NamespacedName, object: Option<ConfigMap>) {
        let mut names = self.0.lock().unwrap();
        match object {
            Some(_) => names.insert(name),
            None => names.remove(&name),
        };
    }
}

/// Follows the script until it has asked so often; tells what it asked, which names it knows then, and its last error.
async fn follow_script(
    answers: Vec<(StatusCode, String)>,
    asks: usize,
) -> (Vec<String>, Vec<String>, Option<String>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let script = Shared::default();
    script.lock().unwrap().answers = answers.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = axum::serve(
        listener,
        Router::new().fallback(answer).with_state(Arc::clone(&script)),
    );
    let server = tokio::spawn(async move { server.await.unwrap() });
    let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
    let source = Source {
        what: "ConfigMaps",
        matters: "nothing acts",
        namespace: None,
        api: Api::all(client),
        labels: None,
        fields: None,
    };
    let (names, caches) = (Names::default(), Caches::default());
    let (_leads, leadership) = watch::channel(Leadership::Standby);
    let slot = caches.slot("ConfigMaps", None);
    let enough = async {
        while script.lock().unwrap().asked.len() < asks {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let patience = Duration::from_secs(30);
    tokio::select! {
        () = follow(source, &names, slot, leadership, Box::new(|_| {})) => unreachable!(),
        asked = timeout(patience, enough) => asked.expect("it asks in time"),
    }
    server.abort();
    let asked = script.lock().unwrap().asked.clone();
    let known = names.known().into_iter().map(|name| name.name).collect();
    (asked, known, caches.watched().remove(0).error)
}

#[tokio::test]
async fn a_version_that_the_server_knows_no_longer_is_listed_anew() {
    for gone in [refused(410), watch(&[("ERROR", status(410))])] {
        let answers = vec![list("1", "", &[object("kb", "1")]), gone, list("7", "", &[])];
        let (asked, known, error) = follow_script(answers, 4).await;
        assert_eq!(asked, ["list", "watch 1", "list", "watch 7"]);
        assert_eq!(known, [""; 0], "what went meanwhile is known to be gone");
        assert_eq!(error, None);
    }
}

#[tokio::test]
async fn a_watch_that_is_refused_for_now_goes_on_from_where_it_was() {
    let answers = vec![
        list("1", "", &[object("kb", "1")]),
        refused(500),
        refused(500),
        list("1", "more", &[object("another", "1")]),
    ];
    let (asked, known, _) = follow_script(answers, 5).await;
    assert_eq!(asked, ["list", "watch 1", "look", "look", "watch 1"]);
    assert_eq!(known, ["kb"]);
}

/// etcd was restored from before: a watch from a version that is yet to come says nothing until it comes.
#[tokio::test]
async fn a_server_whose_versions_went_back_is_listed_anew() {
    for cut in [refused(500), watch(&[])] {
        let answers = vec![
            list("1000", "", &[object("kb", "9")]),
            cut,
            list("998", "", &[]),
            list("998", "", &[object("off", "3")]),
        ];
        let (asked, known, error) = follow_script(answers, 5).await;
        assert_eq!(asked, ["list", "watch 1000", "look", "list", "watch 998"]);
        assert_eq!(known, ["off"]);
        assert_eq!(error, None);
    }
}

#[tokio::test]
async fn a_watch_that_ends_goes_on_from_the_last_that_was_heard() {
    let added = ("ADDED", object("off", "3"));
    let bookmark = ("BOOKMARK", object("", "5"));
    let answers = vec![
        list("1", "", &[object("kb", "1")]),
        watch(&[added, bookmark]),
        list("5", "", &[]),
        watch(&[("DELETED", object("kb", "6"))]),
        list("6", "", &[]),
    ];
    let (asked, known, error) = follow_script(answers, 6).await;
    assert_eq!(asked, ["list", "watch 1", "look", "watch 5", "look", "watch 6"]);
    assert_eq!(known, ["off"]);
    assert_eq!(error, None);
}

#[tokio::test]
async fn all_pages_of_a_list_are_one_list() {
    let answers = vec![
        list("1", "next", &[object("a", "1")]),
        list("1", "", &[object("b", "1")]),
    ];
    let (asked, known, _) = follow_script(answers, 3).await;
    assert_eq!(asked, ["list", "list next", "watch 1"]);
    assert_eq!(known, ["a", "b"]);
}

#[tokio::test]
async fn a_token_that_is_not_taken_is_told_with_the_remedy() {
    let (_, _, error) = follow_script(vec![refused(401)], 2).await;
    let error = error.unwrap();
    assert!(error.contains("kubectl create token"), "{error}");
}

#[tokio::test]
async fn an_error_is_known_until_the_watch_works_again() {
    let (_, known, error) = follow_script(vec![refused(403)], 2).await;
    assert_eq!(known, [""; 0]);
    assert!(
        error.is_some(),
        "it is not known to be mended before it is answered"
    );
}
