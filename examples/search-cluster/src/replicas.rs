//! The process that holds every replica, each with a listener of its own, and a listener to watch and disturb them.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::replica::Replica;
use crate::serve::{listen, serve, stopped};

/// Serves every replica: `GET /read` on a port each, and on the control port `GET /metrics` (`shard_queue_depth`,
/// `shard_reads_total`, `shard_hedged_reads_total`) and `POST /control?latency=1.3&bulk=120` (reads take 1.3 times as
/// long; 120 bulk jobs are queued at each replica).
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where to write the addresses, as JSON, once all listen
    #[arg(long, value_name = "FILE")]
    addresses: PathBuf,
    /// How many shards
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1000))]
    shards: u16,
    /// How many replicas of each shard
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    replicas: u16,
    /// The `index` label of their series
    #[arg(long, default_value = "kb")]
    index: String,
}

/// Where the replicas listen.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Addresses {
    /// The listener to watch and disturb them.
    pub control: SocketAddr,
    /// The replicas of each shard.
    pub shards: Vec<Vec<SocketAddr>>,
}

/// What disturbs the replicas.
#[derive(Debug, Deserialize)]
struct Disturbance {
    /// Reads take this many times the usual.
    latency: Option<f64>,
    /// Bulk jobs to queue at each replica.
    bulk: Option<u64>,
}

#[derive(Debug)]
struct Shared {
    index: String,
    replicas: Vec<Arc<Replica>>,
    /// The latency factor in thousandths, so that it fits an atomic.
    latency_thousandths: AtomicU64,
}

#[derive(Clone, Debug)]
struct One {
    replica: Arc<Replica>,
    shared: Arc<Shared>,
}

/// Serves until told to stop.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let place = |i: u16| {
        (
            usize::from(i / arguments.replicas),
            usize::from(i % arguments.replicas),
        )
    };
    let replicas: Vec<_> = (0..arguments.shards * arguments.replicas)
        .map(|i| Arc::new(Replica::new(place(i).0, place(i).1)))
        .collect();
    let shared = Arc::new(Shared {
        index: arguments.index,
        replicas: replicas.clone(),
        latency_thousandths: AtomicU64::new(1000),
    });

    let mut tasks = JoinSet::new();
    let mut shards = vec![Vec::new(); usize::from(arguments.shards)];
    for replica in replicas {
        let (listener, address) = listen(None).await?;
        shards[replica.shard].push(address);
        let one = One {
            replica: Arc::clone(&replica),
            shared: Arc::clone(&shared),
        };
        tasks.spawn(serve(
            listener,
            Router::new().route("/read", get(read)).with_state(one),
        ));
        tasks.spawn(async move {
            replica.work_off_bulk().await;
            Ok(())
        });
    }
    let (listener, control) = listen(None).await?;
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/control", post(disturb))
        .with_state(shared);
    tasks.spawn(serve(listener, router));

    write_whole(
        &arguments.addresses,
        &serde_json::to_vec_pretty(&Addresses { control, shards })?,
    )?;
    tokio::select! {
        stop = stopped() => stop,
        Some(ended) = tasks.join_next() => ended?,
    }
}

/// Writes a file that is never seen in part: whoever waits for it reads it as soon as it is there.
fn write_whole(path: &std::path::Path, content: &[u8]) -> Result<()> {
    let part = path.with_extension("part");
    std::fs::write(&part, content)
        .and_then(|()| std::fs::rename(&part, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

async fn read(State(one): State<One>, headers: HeaderMap) -> &'static str {
    let factor = one.shared.latency_thousandths.load(Relaxed) as f64 / 1000.0;
    one.replica
        .read(headers.contains_key(crate::front_end::HEDGE_HEADER), factor)
        .await;
    "section"
}

async fn disturb(
    State(shared): State<Arc<Shared>>,
    Query(wanted): Query<Disturbance>,
) -> Result<(), (StatusCode, String)> {
    if let Some(factor) = wanted.latency {
        if !(0.01..=100.0).contains(&factor) {
            return Err((
                StatusCode::BAD_REQUEST,
                format!("latency must be from 0.01 to 100, is {factor}\n"),
            ));
        }
        shared
            .latency_thousandths
            .store((factor * 1000.0).round() as u64, Relaxed);
    }
    if let Some(jobs) = wanted.bulk {
        for replica in &shared.replicas {
            replica.queue_bulk(jobs.min(100_000));
        }
    }
    Ok(())
}

async fn metrics(State(shared): State<Arc<Shared>>) -> String {
    let mut text = String::new();
    for (name, kind) in [
        ("shard_queue_depth", "gauge"),
        ("shard_reads_total", "counter"),
        ("shard_hedged_reads_total", "counter"),
    ] {
        let _ = writeln!(text, "# TYPE {name} {kind}");
        for replica in &shared.replicas {
            let value = replica.series().get(name).copied().unwrap_or_default();
            let _ = writeln!(
                text,
                "{name}{{index=\"{}\",shard=\"{}\",replica=\"{}\"}} {value}",
                shared.index, replica.shard, replica.replica
            );
        }
    }
    text
}
