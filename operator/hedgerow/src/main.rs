//! The `hedgerow` program.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use hedgerow::cli::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    // The Kubernetes client and the Prometheus client share one TLS provider, and it can only be installed once.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let outcome = match Cli::parse().command {
        Command::Run(args) => hedgerow::run::run(&args).await,
        Command::Plan(args) => hedgerow::plan::run(&args).await,
        Command::Check(args) => hedgerow::check::run(&args).await,
        Command::Crd => hedgerow::print::crd(),
        Command::Schema => hedgerow::print::schema(),
        Command::Completions { shell } => hedgerow::print::completions(Cli::command(), shell),
        Command::Man { into } => hedgerow::print::man(Cli::command(), into.as_deref()),
    };
    outcome.unwrap_or_else(|failure| failure.report())
}
