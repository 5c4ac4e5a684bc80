//! How a program that takes minutes shows itself, and how it ends.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

/// A live line on standard error, with the time that has passed. Hidden where there is no terminal.
pub fn spinner() -> ProgressBar {
    let live = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("  {spinner} {elapsed_precise} {msg}") {
        live.set_style(style);
    }
    live.enable_steady_tick(Duration::from_millis(200));
    live
}

/// 0 when all was as expected, else 1; why a run could not go on is said on standard error.
pub fn exit_code(run: &str, outcome: Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(why) => {
            eprintln!("\n{run} could not go on: {why:#}");
            ExitCode::from(1)
        }
    }
}
