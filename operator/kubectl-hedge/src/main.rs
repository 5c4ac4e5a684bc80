//! The `kubectl-hedge` program.

use std::process::ExitCode;

use clap::Parser;
use kubectl_hedge::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let outcome = kubectl_hedge::run(&Cli::parse()).await;
    outcome.unwrap_or_else(|failure| failure.report())
}
