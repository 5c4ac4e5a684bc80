//! Programs that run to their end.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// What a program said.
#[derive(Clone, Debug)]
pub struct Output {
    /// Whether its exit code was 0.
    pub success: bool,
    /// Its exit code; `None` when it was killed.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// What it printed.
    ///
    /// # Errors
    /// When it failed, with what it said of it.
    pub fn printed(self) -> Result<String> {
        ensure!(self.success, "{}", self.stderr);
        Ok(self.stdout)
    }
}

impl From<std::process::Output> for Output {
    fn from(output: std::process::Output) -> Self {
        Self {
            success: output.status.success(),
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs a command with `input` on standard input, and returns what it said, be it a failure.
///
/// # Errors
/// When it cannot be started.
pub async fn output_of(mut command: Command, input: &str) -> Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}", command.as_std().get_program().display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input closes it; what it says then tells why.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    Ok(child.wait_with_output().await?.into())
}
