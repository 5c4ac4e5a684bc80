//! An open-loop load: queries come when they come, however long the answers take.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::Exp;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::front_end::Answer;
use crate::read::QUERY_HEADER;
use crate::serve::stopped;

/// Sends queries at random moments (Poisson arrivals), without waiting for answers, for a bounded time. The front end
/// counts what became of them; `--record` writes it down, query by query.
///
/// A query's latency runs from the moment at which it was due, not from the one at which it could be sent: what a slow
/// service or a busy machine holds up counts as slow.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The front end's search
    #[arg(long)]
    url: Uri,
    /// Queries per second, on average
    #[arg(long, default_value_t = 50.0)]
    rate: f64,
    /// For how long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Queries are numbered, and come at the same moments in every run with the same seed
    #[arg(long)]
    seed: Option<u64>,
    /// Write a line of JSON for each query: `due` (Unix time), `latency` (both in seconds), `answer` (null: none came)
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// What became of one query.
#[derive(Debug, serde::Serialize)]
struct Asked {
    due: f64,
    latency: f64,
    answer: Option<Answer>,
}

/// Sends until the time is over, or told to stop; ends when the last answer is there.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let gap = Exp::new(arguments.rate)
        .ok()
        .filter(|_| (0.01..=1000.0).contains(&arguments.rate));
    let gap = gap.with_context(|| format!("--rate must be from 0.01 to 1000, is {}", arguments.rate))?;
    let (sender, asked) = mpsc::unbounded_channel();
    let recording = tokio::task::spawn_blocking(move || record(arguments.record, asked));
    let sending = async {
        let client: Client<HttpConnector, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let mut random = arguments
            .seed
            .map_or_else(|| StdRng::from_rng(&mut rand::rng()), StdRng::seed_from_u64);
        let (start, wall) = (Instant::now(), SystemTime::now());
        let mut next = Duration::ZERO;
        let end = Duration::from_secs(arguments.seconds);
        for number in 0_u64.. {
            next += Duration::try_from_secs_f64(random.sample(gap)).unwrap_or_default();
            if next >= end {
                break;
            }
            sleep_until(start + next).await;
            let mut query = Request::get(arguments.url.clone());
            if arguments.seed.is_some() {
                query = query.header(QUERY_HEADER, number);
            }
            let query = client.request(query.body(Empty::new())?);
            let (due, wall, sender) = (start + next, wall + next, sender.clone());
            tokio::spawn(async move {
                let answer =
                    match async { anyhow::Ok(query.await?.into_body().collect().await?.to_bytes()) }.await {
                        Ok(answer) => serde_json::from_slice(&answer).ok(),
                        Err(why) => {
                            tracing::warn!(%why, "no answer");
                            None
                        }
                    };
                let latency = due.elapsed().as_secs_f64();
                let due = wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
                // Nobody takes it down when the file could not be written, which ends all.
                let _ = sender.send(Asked { due, latency, answer });
            });
        }
        anyhow::Ok(())
    };
    tokio::select! {
        stop = stopped() => stop,
        sent = sending => sent,
    }?;
    drop(sender);
    recording.await?
}

/// Writes down what comes, until nothing more can come.
fn record(file: Option<PathBuf>, mut asked: mpsc::UnboundedReceiver<Asked>) -> Result<()> {
    let path = file
        .as_deref()
        .map_or_else(|| "/dev/null".into(), std::path::Path::to_string_lossy);
    let mut file = file
        .as_ref()
        .map(File::create)
        .transpose()
        .with_context(|| format!("cannot write {path}"))?
        .map(BufWriter::new);
    while let Some(asked) = asked.blocking_recv() {
        if let Some(file) = &mut file {
            serde_json::to_writer(&mut *file, &asked)?;
            file.write_all(b"\n")?;
        }
    }
    file.map_or(Ok(()), |mut file| Ok(file.flush()?))
}
