//! The process that holds every replica, each with a listener of its own, and a listener to watch and disturb them.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::disturb::Disturbance;
use crate::races::Races;
use crate::read::{HEDGE_HEADER, QUERY_HEADER, VERSION_HEADER};
use crate::replica::{Answer, Common, Read, Replica};
use crate::serve::{listen, serve, stopped};

/// Serves every replica: `GET /read` on a port each, and on the control port `GET /metrics` and `POST /control`.
///
/// Metrics: `shard_queue_depth`, `shard_reads_total`, `shard_hedged_reads_total` and `shard_busy_seconds_total` (the time
/// for which reads held a slot) of each replica; `shard_losers_total` and `shard_loser_survival_seconds_total` (attempts
/// that lived on after another one of their call had answered, and for how long) of all.
///
/// Control, each until it is said otherwise: `latency=1.3` (reads take 1.3 times as long), `stale=true` (old data, in a
/// tenth of the time), `failing=true` (503 at once), `runs_on=true` (reads do not end with their caller); and `bulk=120`
/// (120 bulk jobs are queued). `shard=0&replica=1` narrows it to one replica.
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
    /// Reads that a replica serves at a time; more of them wait
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..))]
    slots: u16,
    /// Where to watch and disturb them; unset: a free loopback port
    #[arg(long, value_name = "ADDRESS")]
    control: Option<SocketAddr>,
    /// A numbered query takes the same time in every run with the same seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
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

#[derive(Debug)]
struct Shared {
    index: String,
    replicas: Vec<Arc<Replica>>,
    races: Arc<Races>,
}

/// Serves until told to stop.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let place = |i: u16| {
        (
            usize::from(i / arguments.replicas),
            usize::from(i % arguments.replicas),
        )
    };
    let common = Common {
        slots: arguments.slots.into(),
        seed: arguments.seed,
        races: Arc::default(),
    };
    let replicas: Vec<_> = (0..arguments.shards * arguments.replicas)
        .map(|i| Arc::new(Replica::new(place(i).0, place(i).1, &common)))
        .collect();
    let shared = Arc::new(Shared {
        index: arguments.index,
        replicas: replicas.clone(),
        races: common.races,
    });

    let mut tasks = JoinSet::new();
    let mut shards = vec![Vec::new(); usize::from(arguments.shards)];
    for replica in replicas {
        let (listener, address) = listen(None).await?;
        shards[replica.shard].push(address);
        let router = Router::new()
            .route("/read", get(read))
            .with_state(Arc::clone(&replica));
        tasks.spawn(serve(listener, router));
        tasks.spawn(async move {
            replica.work_off_bulk().await;
            Ok(())
        });
    }
    let (listener, control) = listen(arguments.control).await?;
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

async fn read(
    State(replica): State<Arc<Replica>>,
    headers: HeaderMap,
) -> Result<([(HeaderName, HeaderValue); 1], &'static str), StatusCode> {
    let number = |value: &HeaderValue| value.to_str().ok()?.parse().ok();
    let asked = Read {
        query: headers.get(QUERY_HEADER).and_then(number),
        hedge: headers.contains_key(HEDGE_HEADER),
    };
    match replica.read(asked).await {
        Answer::Section(version) => Ok((
            [(HeaderName::from_static(VERSION_HEADER), version.into())],
            "section",
        )),
        Answer::Unavailable => Err(StatusCode::SERVICE_UNAVAILABLE),
    }
}

async fn disturb(
    State(shared): State<Arc<Shared>>,
    Query(wanted): Query<Disturbance>,
) -> Result<(), (StatusCode, String)> {
    wanted.check().map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    let concerned = |one: &&Arc<Replica>| wanted.concerns(one.shard, one.replica);
    for replica in shared.replicas.iter().filter(concerned) {
        replica.disturb(&wanted);
    }
    Ok(())
}

async fn metrics(State(shared): State<Arc<Shared>>) -> String {
    let mut text = String::new();
    let index = &shared.index;
    let of_all: Vec<_> = shared.replicas.iter().map(|one| (one, one.series())).collect();
    let families = of_all.first().map(|(_, series)| *series).into_iter().flatten();
    for (place, (name, kind, _)) in families.enumerate() {
        let _ = writeln!(text, "# TYPE {name} {kind}");
        for (Replica { shard, replica, .. }, series) in of_all.iter().map(|(one, series)| (&***one, series)) {
            let value = series[place].2;
            let _ = writeln!(
                text,
                "{name}{{index=\"{index}\",shard=\"{shard}\",replica=\"{replica}\"}} {value}"
            );
        }
    }
    let survived = shared.races.survived().as_secs_f64();
    for (name, value) in [
        ("shard_losers_total", shared.races.losers() as f64),
        ("shard_loser_survival_seconds_total", survived),
    ] {
        let _ = writeln!(text, "# TYPE {name} counter\n{name}{{index=\"{index}\"}} {value}");
    }
    text
}
