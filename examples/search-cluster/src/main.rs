//! The help desk's search cluster: replicas that answer late now and then, a front end that fans out to them, and a load.
//!
//! Three processes over loopback HTTP, as Hedgerow's demo starts them:
//!
//! ```text
//! search-cluster load ──▶ search-cluster front-end ──▶ 8 shards x 2 replicas: search-cluster replicas
//! ```

mod counts;
mod disturb;
mod follow;
mod front_end;
mod hedging;
mod latency;
mod load;
mod metrics;
mod races;
mod read;
mod replica;
mod replicas;
mod serve;

use std::io::IsTerminal as _;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The help desk's search cluster, for trying out request hedging on one machine.
///
/// Each query is fanned out to every shard and answered after the deadline with the sections that are there, so that one
/// late shard in eight costs a section. `--help` of each command says what it serves.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLE)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Replicas(replicas::Arguments),
    FrontEnd(front_end::Arguments),
    Load(load::Arguments),
}

const EXAMPLE: &str = "Try it without hedging:
  search-cluster replicas --addresses /tmp/shards.json &
  search-cluster front-end --shards /tmp/shards.json --listen 127.0.0.1:8080 &
  search-cluster load --url http://127.0.0.1:8080/search --rate 50 --seconds 20
  curl -s http://127.0.0.1:8080/metrics | grep search_queries";

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter())
        .init();
    match Arguments::parse().command {
        Command::Replicas(arguments) => replicas::run(arguments).await,
        Command::FrontEnd(arguments) => front_end::run(arguments).await,
        Command::Load(arguments) => load::run(arguments).await,
    }
}

fn filter() -> tracing_subscriber::EnvFilter {
    tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into())
}
