//! The front end: fans a query out to every shard, and answers with the sections that came in time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use futures::future::join_all;
use hedgerow_client::{Hedger, Metrics, OnFailure};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::follow::Document;
use crate::hedging::{Hedging, Missed, Way};
use crate::metrics::exposition;
use crate::read::{QUERY_HEADER, Read, Reader};
use crate::replicas::Addresses;
use crate::serve::{listen, serve, stopped};

/// The target of the policy that this front end's calls belong to.
const TARGET: &str = "shard-read";

/// Serves `GET /search` and `GET /metrics`: `shard_read_duration_seconds` (each shard call as its caller sees it),
/// `shard_read_timeouts_total` (those cut at the deadline, which never enter the histogram), `search_queries_total`,
/// `search_queries_missed_total` (with a section missing), and, whatever the way of hedging, `shard_read_calls_total`,
/// `shard_read_attempts_total` and `shard_read_wins_total` (calls that another than the first attempt answered); besides
/// them the metrics of the Hedgerow client.
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
    /// How to hedge: none, static:MILLISECONDS, tower (`tower::hedge`), or hedgerow (as a document says)
    #[arg(long, value_name = "WAY", default_value = "hedgerow")]
    hedging: Way,
    #[command(flatten)]
    document: Document,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Index {
    index: String,
}

struct FrontEnd {
    shards: Vec<Shard>,
    hedging: Hedging,
    deadline: Duration,
    reader: Reader,
    reads: Histogram,
    timeouts: Counter,
    calls: Counter,
    wins: Counter,
    queries: Counter,
    missed: Counter,
    registry: Registry,
}

struct Shard {
    replicas: Arc<[SocketAddr]>,
    /// Which replica is next to be asked first.
    next: AtomicUsize,
}

/// What a user gets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Sections that came.
    pub sections: usize,
    /// Sections that there are.
    pub of: usize,
    /// Those of the missing ones that had not come by the deadline; others came to nothing.
    pub late: usize,
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
    let client_metrics = Metrics::default();
    let mut registry = Registry::default();
    client_metrics.register(&mut registry);
    let attempts = Counter::default();
    registry.register(
        "shard_read_attempts",
        "Reads sent, whatever for",
        attempts.clone(),
    );
    let reader = Reader::new(attempts);
    let hedging = match arguments.hedging {
        Way::None => Hedging::None,
        Way::Static(delay) => Hedging::Static(delay),
        Way::Tower => Hedging::tower(reader.clone()),
        Way::Hedgerow => {
            let deadline = Duration::from_millis(arguments.deadline_ms);
            let builder = Hedger::builder(TARGET)
                .metrics(&client_metrics)
                .deadline(deadline)
                // A read that came to nothing is sent to the next replica, if the budget has room for it.
                .on_failure(OnFailure::Retry);
            Hedging::Hedgerow(arguments.document.follow(builder).await?)
        }
    };
    let front_end = FrontEnd::new(addresses, hedging, reader, registry, &arguments);
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

impl FrontEnd {
    fn new(
        addresses: Addresses,
        hedging: Hedging,
        reader: Reader,
        mut registry: Registry,
        arguments: &Arguments,
    ) -> Self {
        let label = Index {
            index: arguments.index.clone(),
        };
        let reads = Family::<Index, Histogram>::new_with_constructor(|| Histogram::new(bounds()));
        let timeouts = Family::<Index, Counter>::default();
        let counter = |registry: &mut Registry, name, help| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
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
        let shards = addresses
            .shards
            .into_iter()
            .map(|replicas| Shard {
                replicas: replicas.into(),
                next: AtomicUsize::new(0),
            })
            .collect();
        Self {
            shards,
            hedging,
            deadline: Duration::from_millis(arguments.deadline_ms),
            reader,
            // Made now, so that both exist from the first scrape: a counter that appears with its first event hides it.
            reads: reads.get_or_create(&label).clone(),
            timeouts: timeouts.get_or_create(&label).clone(),
            calls: counter(&mut registry, "shard_read_calls", "Shard calls begun"),
            wins: counter(
                &mut registry,
                "shard_read_wins",
                "Shard calls that another than the first attempt answered",
            ),
            queries: counter(&mut registry, "search_queries", "Queries answered"),
            missed: counter(
                &mut registry,
                "search_queries_missed",
                "Queries answered with a section missing",
            ),
            registry,
        }
    }

    /// The shard's section, in time or not.
    async fn section(&self, number: usize, query: Option<u64>) -> Result<(), Missed> {
        let shard = &self.shards[number];
        let began = Instant::now();
        // A numbered query asks the same replicas in every run, so that runs can be compared.
        let first = match query {
            Some(query) => usize::try_from(query).unwrap_or_default().wrapping_add(number),
            None => shard.next.fetch_add(1, Relaxed),
        };
        let read = Read {
            query,
            replicas: Arc::clone(&shard.replicas),
            first: first % shard.replicas.len(),
            attempt: 0,
        };
        self.calls.inc();
        match self.hedging.call(&self.reader, &read, self.deadline).await {
            Ok(section) => {
                self.reads.observe(began.elapsed().as_secs_f64());
                if section.attempt > 0 {
                    self.wins.inc();
                }
                Ok(())
            }
            Err(Missed::Late) => {
                self.timeouts.inc();
                Err(Missed::Late)
            }
            Err(Missed::Failed(why)) => {
                tracing::debug!(%why, "a read failed");
                Err(Missed::Failed(why))
            }
        }
    }
}

async fn search(State(front_end): State<Arc<FrontEnd>>, headers: HeaderMap) -> Json<Answer> {
    let query = headers
        .get(QUERY_HEADER)
        .and_then(|query| query.to_str().ok()?.parse().ok());
    let shards = 0..front_end.shards.len();
    let sections = shards.map(|number| {
        let front_end = Arc::clone(&front_end);
        async move { front_end.section(number, query).await }
    });
    let came = join_all(sections).await;
    let answer = Answer {
        sections: came.iter().filter(|came| came.is_ok()).count(),
        of: came.len(),
        late: came
            .iter()
            .filter(|came| matches!(came, Err(Missed::Late)))
            .count(),
    };
    front_end.queries.inc();
    if answer.sections < answer.of {
        front_end.missed.inc();
    }
    Json(answer)
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
