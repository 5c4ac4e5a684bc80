//! The front end: fans a query out to every shard, and answers with the sections that came in time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use futures::future::join_all;
use hedgerow_client::{Attempt, CallError, Hedger, Metrics};
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::time::Instant;

use crate::metrics::exposition;
use crate::replicas::Addresses;
use crate::serve::{listen, serve, stopped};

/// Says that a read is a hedge, so that a replica can count it.
pub(crate) const HEDGE_HEADER: &str = "hedge";
/// The target of the policy that this front end's calls belong to.
const TARGET: &str = "shard-read";

/// Serves `GET /search` and `GET /metrics`: `shard_read_duration_seconds` (each shard call as its caller sees it),
/// `shard_read_timeouts_total` (those cut at the deadline, which never enter the histogram), `search_queries_total`,
/// `search_queries_missed_total` (with a section missing), and the counters of the Hedgerow client.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file of addresses that `replicas` wrote
    #[arg(long, value_name = "FILE")]
    shards: PathBuf,
    /// Where to listen; unset: a free loopback port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Answer after this with the sections that are there, in milliseconds
    #[arg(long, default_value_t = 1000)]
    deadline_ms: u64,
    /// The `index` label of the series
    #[arg(long, default_value = "kb")]
    index: String,
    /// Hedge as the document in this key of a mounted ConfigMap says
    #[arg(long, value_name = "DIRECTORY/KEY", conflicts_with = "config_map")]
    document: Option<PathBuf>,
    /// Hedge as the document in a ConfigMap says, watched through the API
    #[arg(long, value_name = "NAMESPACE/NAME/KEY", requires = "kubeconfig")]
    config_map: Option<String>,
    /// How to reach the API
    #[arg(long, value_name = "FILE", requires = "config_map")]
    kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Index {
    index: String,
}

struct FrontEnd {
    shards: Vec<Shard>,
    hedger: Hedger,
    client: Client<HttpConnector, Empty<Bytes>>,
    reads: Histogram,
    timeouts: Counter,
    queries: Counter,
    missed: Counter,
    registry: Registry,
}

struct Shard {
    replicas: Vec<SocketAddr>,
    /// Which replica is next to be asked first.
    next: AtomicUsize,
}

/// What a user gets.
#[derive(Debug, Serialize)]
struct Answer {
    sections: usize,
    of: usize,
    message: String,
}

/// Serves until told to stop.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let text = std::fs::read(&arguments.shards).with_context(|| {
        format!(
            "cannot read {}: start `search-cluster replicas` first",
            arguments.shards.display()
        )
    })?;
    let addresses: Addresses = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a file of addresses", arguments.shards.display()))?;
    let metrics = Metrics::default();
    let hedger = hedger(&arguments, &metrics).await?;
    let front_end = FrontEnd::new(addresses, hedger, &metrics, arguments.index);
    let (listener, address) = listen(arguments.listen).await?;
    tracing::info!(%address, shards = front_end.shards.len(), "serving");
    let router = Router::new()
        .route("/search", get(search))
        .route("/metrics", get(exposed))
        .with_state(Arc::new(front_end));
    tokio::select! {
        stop = stopped() => stop,
        ended = serve(listener, router) => ended,
    }
}

async fn hedger(arguments: &Arguments, metrics: &Metrics) -> Result<Hedger> {
    let builder = Hedger::builder(TARGET)
        .metrics(metrics)
        .deadline(Duration::from_millis(arguments.deadline_ms));
    if let Some(path) = &arguments.document {
        let (Some(directory), Some(key)) = (path.parent(), path.file_name().and_then(|key| key.to_str()))
        else {
            bail!("--document must be DIRECTORY/KEY, is {}", path.display());
        };
        return Ok(builder.follow_directory(directory, key).await);
    }
    let (Some(place), Some(kubeconfig)) = (&arguments.config_map, &arguments.kubeconfig) else {
        return Ok(builder.follow_feed().0);
    };
    let parts: Vec<_> = place.split('/').collect();
    let [namespace, name, key] = parts[..] else {
        bail!("--config-map must be NAMESPACE/NAME/KEY, is {place}")
    };
    let client = kubernetes(kubeconfig).await?;
    Ok(builder.follow_config_map(client, namespace, name, key))
}

async fn kubernetes(kubeconfig: &std::path::Path) -> Result<kube::Client> {
    // One TLS provider for the process, installed before the first client; an error means that it is there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

impl FrontEnd {
    fn new(addresses: Addresses, hedger: Hedger, client_metrics: &Metrics, index: String) -> Self {
        let label = Index { index };
        let mut registry = Registry::default();
        let reads = Family::<Index, Histogram>::new_with_constructor(|| Histogram::new(bounds()));
        let timeouts = Family::<Index, Counter>::default();
        let (queries, missed) = (Counter::default(), Counter::default());
        registry.register(
            "shard_read_duration_seconds",
            "Time of a shard call as its caller sees it",
            reads.clone(),
        );
        registry.register(
            "shard_read_timeouts",
            "Shard calls cut at the deadline",
            timeouts.clone(),
        );
        registry.register("search_queries", "Queries answered", queries.clone());
        registry.register(
            "search_queries_missed",
            "Queries answered with a section missing",
            missed.clone(),
        );
        client_metrics.register(&mut registry);
        let shards = addresses
            .shards
            .into_iter()
            .map(|replicas| Shard {
                replicas,
                next: AtomicUsize::new(0),
            })
            .collect();
        Self {
            shards,
            hedger,
            client: Client::builder(TokioExecutor::new()).build_http(),
            // Made now, so that both exist from the first scrape: a counter that appears with its first event hides it.
            reads: reads.get_or_create(&label).clone(),
            timeouts: timeouts.get_or_create(&label).clone(),
            queries,
            missed,
            registry,
        }
    }

    /// Whether the shard's section came in time.
    async fn section(&self, shard: &Shard) -> bool {
        let began = Instant::now();
        let first = shard.next.fetch_add(1, Relaxed);
        let replica = |attempt: &Attempt| shard.replicas[(first + attempt.number) % shard.replicas.len()];
        match self
            .hedger
            .call(shard.replicas.len(), |attempt| {
                self.read(replica(&attempt), attempt)
            })
            .await
        {
            Ok(()) => {
                self.reads.observe(began.elapsed().as_secs_f64());
                true
            }
            Err(CallError::DeadlineExceeded { .. }) => {
                self.timeouts.inc();
                false
            }
            Err(why) => {
                tracing::warn!(%why, "a read failed");
                false
            }
        }
    }

    /// One attempt. Dropping it closes its connection, by which the replica learns that nobody waits.
    async fn read(&self, replica: SocketAddr, attempt: Attempt) -> Result<()> {
        let mut request = Request::get(format!("http://{replica}/read"));
        if attempt.is_hedge() {
            request = request.header(HEDGE_HEADER, attempt.number);
        }
        let answer = self.client.request(request.body(Empty::new())?).await?;
        if !answer.status().is_success() {
            bail!("{replica} answered {}", answer.status());
        }
        answer.into_body().collect().await?;
        Ok(())
    }
}

async fn search(State(front_end): State<Arc<FrontEnd>>) -> Json<Answer> {
    let came = join_all(front_end.shards.iter().map(|shard| front_end.section(shard))).await;
    let (sections, of) = (came.iter().filter(|came| **came).count(), came.len());
    front_end.queries.inc();
    if sections < of {
        front_end.missed.inc();
    }
    Json(Answer {
        sections,
        of,
        message: format!("{sections} of {of} sections"),
    })
}

async fn exposed(State(front_end): State<Arc<FrontEnd>>) -> Response {
    exposition(&front_end.registry)
}

/// Bucket bounds in seconds, 7 % apart from 50 ms to over a second: narrow enough to place a delay, few enough to scrape.
fn bounds() -> impl Iterator<Item = f64> {
    (0..46).map(|i| (50.0 * 1.07_f64.powi(i)).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_reach_beyond_the_deadline_of_a_second() {
        let bounds: Vec<f64> = bounds().collect();
        assert!(bounds.is_sorted() && bounds.first() == Some(&0.05));
        assert!(
            bounds.last().is_some_and(|last| (1.0..1.5).contains(last)),
            "{bounds:?}"
        );
    }
}
