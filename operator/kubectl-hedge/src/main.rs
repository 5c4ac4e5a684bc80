//! The `kubectl-hedge` program. By the name `kubectl_complete-hedge` it answers kubectl's completion.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use kubectl_hedge::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    // It can only be installed once.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let mut words = std::env::args();
    let name = words.next().unwrap_or_default();
    if Path::new(&name)
        .file_name()
        .is_some_and(|name| name == "kubectl_complete-hedge")
    {
        print!(
            "{}",
            kubectl_hedge::complete::complete(&words.collect::<Vec<_>>()).await
        );
        return ExitCode::SUCCESS;
    }
    let outcome = kubectl_hedge::run(&Cli::parse()).await;
    outcome.unwrap_or_else(|failure| failure.report())
}
