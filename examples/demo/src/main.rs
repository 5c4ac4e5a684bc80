//! The help-desk demo: policy in, Prometheus read, delay tuned, ConfigMaps pushed, hedging off in an incident.

mod observer;
mod record;
mod report;
mod script;
mod show;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use hedgerow_stage::{Expectation, exit_code};

/// Plays the help-desk case on real parts.
///
/// Starts etcd, kube-apiserver, Prometheus, the operator under its own RBAC, and a search cluster of 8 shards with 2
/// replicas each; then goes through its phases: unhedged, tuned, drift, incident, stop by hand, and each way back. Takes
/// about 5 minutes. Exits with 1 when a phase does not show what it must.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Leave everything running at the end, and say how to reach it; Ctrl-C ends it
    #[arg(long)]
    keep: bool,
    /// Play in pods of a node of this machine instead of with processes; needs root
    #[arg(long)]
    node: bool,
    /// Where to write the report
    #[arg(long, value_name = "FILE", default_value = "build/demo/report.html")]
    report: PathBuf,
    /// Queries per second that the load sends
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code("The demo", run(&Arguments::parse()).await)
}

async fn run(arguments: &Arguments) -> Result<bool> {
    let show = show::Show::new();
    let stage = if arguments.node {
        stage::Stage::of_pods(&show, arguments.rate).await?
    } else {
        stage::Stage::of_processes(&show, arguments.rate).await?
    };
    let observer = observer::Observer::start(&stage).await?;
    let played = script::play(&stage, &observer, &show).await;
    let (expectations, why) = match played {
        Ok(expectations) => (expectations, None),
        // What was seen until then is still worth a report: it shows where it went wrong.
        Err(interrupted) => (interrupted.expectations, Some(interrupted.why)),
    };
    let page = report::html(&observer.record(), &expectations)?;
    if let Some(folder) = arguments.report.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&arguments.report, page)
        .with_context(|| format!("cannot write {}", arguments.report.display()))?;
    show.table(&expectations, &arguments.report);
    if arguments.keep {
        show.kept(&stage);
        tokio::signal::ctrl_c().await?;
    }
    match why {
        Some(why) => Err(why),
        None => Ok(expectations.iter().all(Expectation::holds)),
    }
}
