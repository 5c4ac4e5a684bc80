//! What the API server does wrong. Each fault has an operator and a namespace of its own, which reaches the API server by way
//! of a gate; the service saturates while all faults last.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::join_all;
use hedgerow_tests::{Act, Asked, Gate, Namespace, Operator, OperatorOptions, Streams, eventually};
use http::StatusCode;
use serde_json::json;

use crate::observer::{Observer, tell};
use crate::policy::{KEY, hasty as policy};
use crate::scene::document;
use crate::service::Service;
use crate::shared;
use crate::stage::{now, says};

/// Names, as docs/faults.md has them.
pub(crate) const FAULTS: [&str; 6] = [
    "stalled",
    "429-with-retry-after",
    "500s",
    "410-on-watches",
    "slow-by-5-s",
    "conflict-on-every-write",
];

/// How long the faults last: longer than a write may take and than a lease lasts.
const A_WHILE: Duration = Duration::from_secs(20);

/// What is answered to whom.
type Answers = Box<dyn Fn(&Asked) -> Act + Send + Sync>;

/// What is wrong, and what becomes of the watches that there are.
fn wrong(name: &str) -> (Streams, Answers) {
    match name {
        "stalled" => (Streams::Dead, Box::new(|_| Act::Hang)),
        "429-with-retry-after" => (
            Streams::Cut,
            Box::new(|_| {
                answer(
                    StatusCode::TOO_MANY_REQUESTS,
                    "TooManyRequests",
                    vec![("retry-after", "1".into())],
                )
            }),
        ),
        "500s" => (
            Streams::Cut,
            Box::new(|_| answer(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", Vec::new())),
        ),
        "410-on-watches" => (
            Streams::Cut,
            Box::new(|asked| match asked.is_watch() {
                true => answer(StatusCode::GONE, "Expired", Vec::new()),
                false => Act::Pass,
            }),
        ),
        "slow-by-5-s" => (Streams::Flow, Box::new(|_| Act::Late(Duration::from_secs(5)))),
        _ => (
            Streams::Flow,
            Box::new(
                |asked| match asked.is_write() && asked.uri.path().contains("/configmaps") {
                    true => answer(StatusCode::CONFLICT, "Conflict", Vec::new()),
                    false => Act::Pass,
                },
            ),
        ),
    }
}

fn answer(status: StatusCode, reason: &str, mut headers: Vec<(&'static str, String)>) -> Act {
    headers.push(("content-type", "application/json".into()));
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": "by the gate",
        "code": status.as_u16(),
    });
    Act::Answer(status, headers, body.to_string())
}

struct Install {
    name: &'static str,
    gate: Gate,
    namespace: Namespace,
    operator: Operator,
}

impl Install {
    async fn new(name: &'static str, source: &str) -> Self {
        let cluster = shared::cluster().await;
        let namespace = shared::namespace(&format!("api-{name}")).await;
        let home = shared::namespace(&format!("api-{name}-operator")).await;
        let gate = Gate::start().await.unwrap();
        cluster.behind(&gate).unwrap();
        let operator = OperatorOptions::new(cluster, &home, &[&namespace])
            .source(source)
            .through_gate(&gate)
            .start()
            .await
            .unwrap();
        namespace.apply(&policy(name).to_string()).await.unwrap();
        Self {
            name,
            gate,
            namespace,
            operator,
        }
    }

    async fn says(&self, reasons: &[&str]) -> Result<()> {
        let said = says(&self.namespace, crate::policy::CONFIG_MAP, reasons).await;
        said.map(drop)
            .map_err(|error| error.context(self.operator.log_tail()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_the_api_server_makes_hedging_less_safe() {
    lasting(&FAULTS, A_WHILE, wrong).await;
}

/// The API server and the network between say nothing: what ends it is the operator's own patience, of 205 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes five minutes: make test-faults"]
async fn a_watch_that_is_silently_dead_is_noticed() {
    let service = Service::start().await;
    let prometheus = service.scraped().await;
    let install = Install::new("dead-watch", &prometheus.url()).await;
    install.says(&["Tuned"]).await.unwrap();
    let fault = now();
    install.gate.set_streams(Streams::Dead);
    install.gate.set_streams(Streams::Flow);
    let stop = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "hedgerow-off" } });
    install.namespace.apply(&stop.to_string()).await.unwrap();
    let begun = std::time::Instant::now();
    eventually("the stop is noticed", Duration::from_secs(260), async || {
        let document = document(&install.namespace, crate::policy::CONFIG_MAP, KEY).await?;
        ensure!(document["reason"] == "Stopped", "{document}");
        Ok(())
    })
    .await
    .map_err(|error| error.context(install.operator.log_tail()))
    .unwrap();
    println!("a stop is noticed after {:?}", begun.elapsed());
    let cluster = shared::cluster().await;
    let observer = Observer::of(&cluster.audit(), &install.namespace, crate::policy::CONFIG_MAP);
    tell(vec![(
        "watch silently dead",
        observer.row("watch silently dead", fault, now()),
    )]);
}

async fn lasting(faults: &[&'static str], time: Duration, wrong: impl Fn(&str) -> (Streams, Answers)) {
    let service = Service::start().await;
    let prometheus = service.scraped().await;
    let url = prometheus.url();
    let installs = join_all(faults.iter().map(|name| Install::new(name, &url))).await;
    for ready in join_all(installs.iter().map(|install| install.says(&["Tuned"]))).await {
        ready.unwrap();
    }

    let fault = now();
    for install in &installs {
        let (streams, way) = wrong(install.name);
        install.gate.set(way);
        install.gate.set_streams(streams);
    }
    service.queue(80.0);
    tokio::time::sleep(time).await;
    for install in &installs {
        install.gate.heal();
    }
    // Off as soon as it may be said.
    let off = join_all(installs.iter().map(|install| install.says(&["Saturated"]))).await;
    let good = now();
    service.queue(3.0);
    let after = join_all(installs.iter().map(|install| install.says(&["Tuned"]))).await;

    let audit = shared::cluster().await.audit();
    let rows = installs
        .iter()
        .zip(off)
        .zip(after)
        .map(|((install, off), after)| {
            let observer = Observer::of(&audit, &install.namespace, crate::policy::CONFIG_MAP);
            (
                install.name,
                off.and(after)
                    .and_then(|()| observer.row(install.name, fault, good)),
            )
        });
    tell(rows.collect());
}
