//! An open-loop load: queries come when they come, however long the answers take.

use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::{BodyExt as _, Empty};
use hyper::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rand::RngExt as _;
use rand_distr::Exp;
use tokio::time::{Instant, sleep_until};

use crate::serve::stopped;

/// Sends queries at random moments (Poisson arrivals), without waiting for answers, for a bounded time. The front end
/// counts what became of them.
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
}

/// Sends until the time is over, or told to stop.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let gap = Exp::new(arguments.rate)
        .ok()
        .filter(|_| (0.01..=1000.0).contains(&arguments.rate));
    let gap = gap.with_context(|| format!("--rate must be from 0.01 to 1000, is {}", arguments.rate))?;
    let client: Client<HttpConnector, Empty<bytes::Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let sending = async {
        let mut next = Instant::now();
        while next < end {
            next += Duration::try_from_secs_f64(rand::rng().sample(gap)).unwrap_or_default();
            sleep_until(next).await;
            let query = client.get(arguments.url.clone());
            tokio::spawn(async move {
                match query.await {
                    Ok(answer) => drop(answer.into_body().collect().await),
                    Err(why) => tracing::warn!(%why, "no answer"),
                }
            });
        }
        Ok(())
    };
    tokio::select! {
        stop = stopped() => stop,
        sent = sending => sent,
    }
}
