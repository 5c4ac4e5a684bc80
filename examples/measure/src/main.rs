//! Is hedging by Hedgerow worth it? Four ways of hedging under the same load, in the cases in which hedging goes wrong.

mod checks;
mod figures;
mod lane;
mod play;
mod progress;
mod report;
mod scenario;
mod stage;
mod way;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum as _};
use hedgerow_stage::{Expectation, exit_code};
use serde_json::json;

use crate::lane::Load;
use crate::progress::Progress;
use crate::scenario::Scenario;
use crate::stage::Stage;

/// Compares four ways of hedging under the same load: none, a static delay, `tower::hedge`, and Hedgerow.
///
/// Starts etcd, kube-apiserver, Prometheus and the operator, and then plays one case after another. In each, every way has
/// a search cluster of its own (8 shards of 2 replicas, a deadline of 1 s) and they run at the same time: the same queries
/// come at the same moments, and reading one query at one replica takes the same time whichever way asks. So they differ
/// by what they do, and what disturbs the machine disturbs all of them. The servers sleep rather than compute, so that two
/// cores carry all four. Takes about 8 minutes.
///
/// Columns: latency as users see it, from the moment at which a query was due; queries complete and late (a section had
/// not come by the deadline); attempts per shard call; wins (share of the extra attempts that answered their call); how
/// long losers lived on at the servers; server time per shard call; the deepest queue of any replica.
#[derive(Debug, Parser)]
#[command(version, after_help = PROMISES)]
struct Arguments {
    /// Play these cases only; may be repeated
    #[arg(long, value_enum, value_name = "NAME")]
    scenario: Vec<Scenario>,
    /// Queries per second of each way; each is 8 shard calls
    #[arg(long, default_value_t = 20.0)]
    rate: f64,
    /// What arrivals and service times are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of tables
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print one table in Markdown instead
    #[arg(long)]
    markdown: bool,
    /// Put the tables into README.md and docs/measured.md of the working directory
    #[arg(long, conflicts_with = "scenario")]
    write: bool,
}

const PROMISES: &str = "Exits with 1 when Hedgerow does not do what it promises:
  slow-replica    at most a fifth of the late queries of unhedged, and hedging stays on
  slow-together   the operator's condition Effective is False, with the reason SlowTogether, within 2 minutes
  stale-replica   at most half of the incomplete queries of unhedged
  first-error     likewise
  losers-run-on   at most 1.1 times the server time of unhedged
  brown-out       p50 at most 1.5 times that of unhedged in it, and 1.1 times 30 s later
  all             attempts <= 1.1 x calls, from the first call to any moment; and in any stretch of time
                  attempts <= 1.1 x calls + clients x buckets of each x what a bucket holds, which here is that of one
                  front end with one bucket: the larger of 10 and 10 % of the calls of the busiest second

Examples:
  make measure                            build what it needs, and play everything
  make measure ARGS='--scenario brown-out'
  make measure ARGS=--write               everything, and its tables into README.md and docs/measured.md
  make -s measure ARGS=--json | jq '.cases[].checks'";

#[tokio::main]
async fn main() -> ExitCode {
    exit_code("The measurement", run(&Arguments::parse()).await)
}

async fn run(arguments: &Arguments) -> Result<bool> {
    ensure!(
        (1.0..=200.0).contains(&arguments.rate),
        "--rate must be from 1 to 200, is {}",
        arguments.rate
    );
    let mut scenarios = match &arguments.scenario[..] {
        [] => Scenario::value_variants().to_vec(),
        some => some.to_vec(),
    };
    scenarios.sort();
    scenarios.dedup();
    let load = Load {
        rate: arguments.rate,
        seed: arguments.seed,
    };

    let progress = Progress::new();
    progress.say("setting the stage: etcd, kube-apiserver, Prometheus, the operator");
    let stage = Stage::set(&scenarios).await?;
    progress.say(&format!("logs: {}", stage.folder().display()));
    let mut cases = Vec::new();
    for scenario in scenarios {
        let played = play::play(&stage, scenario, load, &progress)
            .await
            .with_context(|| scenario.name())?;
        for line in checks::lines(&played) {
            let mark = if line.holds() { "ok" } else { "NOT AS EXPECTED" };
            progress.say(&format!(
                "  {}: {} ({}) {mark}",
                line.what,
                line.shown(),
                line.expected
            ));
        }
        cases.push(played);
    }
    progress.end();

    let lines: Vec<Vec<Expectation>> = cases.iter().map(checks::lines).collect();
    if arguments.json {
        let cases = cases.iter().zip(&lines).map(|(played, lines)| {
            let checks = lines
                .iter()
                .map(|line| json!({ "line": line, "holds": line.holds() }));
            json!({ "played": played, "checks": checks.collect::<Vec<_>>() })
        });
        let cases: Vec<_> = cases.collect();
        println!(
            "{:#}",
            json!({ "rate": load.rate, "seed": load.seed, "cases": cases })
        );
    } else if arguments.markdown {
        print!("{}", report::markdown(&cases));
    } else {
        for played in &cases {
            print!("{}", report::terminal(played));
        }
        println!("\n{}", hedgerow_stage::table(&lines.concat()));
    }
    if arguments.write {
        report::write(Path::new("."), &cases)?;
    }
    Ok(lines.iter().flatten().all(Expectation::holds))
}
