//! `kubectl hedge`: see what Hedgerow decided and why, and switch hedging off by hand.
//!
//! What is shown is the status of the policies, with what the leading replica says where it can be reached. Nothing is
//! written but ConfigMaps named `hedgerow-off`.

mod age;
pub mod cli;
pub mod complete;
mod doctor;
mod explain;
#[cfg(test)]
mod fixtures;
mod history;
mod leader;
mod output;
mod plan;
mod reasons;
mod session;
mod status;
mod stops;

use clap::CommandFactory;
use hedgerow::exit::Outcome;

use crate::cli::{Cli, Command};
use crate::session::Session;

/// Does what was typed.
///
/// # Errors
/// What was refused, failed, is not valid or could not be reached; each with its exit code.
pub async fn run(cli: &Cli) -> Outcome {
    let session = async || Session::open(&cli.place).await;
    match &cli.command {
        Command::Status(args) => status::run(&session().await?, args).await,
        Command::Explain(args) => explain::run(&session().await?, args).await,
        Command::Off(args) => stops::off(&session().await?, args).await,
        Command::On(args) => stops::on(&session().await?, args).await,
        Command::History(args) => history::run(&session().await?, args).await,
        Command::Completion { shell } => hedgerow::print::completions(Cli::command(), *shell),
        Command::Man { into } => hedgerow::print::man(Cli::command(), into.as_deref()),
        Command::Plan(args) => plan::run(&session().await?, args).await,
        Command::Doctor(args) => doctor::run(&session().await?, args).await,
    }
}
