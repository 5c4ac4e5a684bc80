//! What the demo and the measurement stand on: a control plane with Hedgerow installed, the operator, and the programs of
//! the search cluster.

mod control_plane;
mod expect;
mod exposition;
mod servers;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hedgerow_tests::Process;

pub use control_plane::ControlPlane;
pub use expect::{Expectation, table};
pub use exposition::series;
pub use servers::{Control, Servers};
pub use terminal::{exit_code, spinner};

/// Where policies, their clients and their documents live.
pub const NAMESPACE: &str = "helpdesk";

/// Starts a program that was built together with this one; its log is `NAME.log` in `folder`.
///
/// # Errors
/// When it is not built, or cannot be started.
pub fn start(binary: &str, name: &str, folder: &Path, arguments: &[&str]) -> Result<Process> {
    let mut command = Command::new(program(binary)?);
    command.args(arguments);
    Process::spawn(name, &command, &folder.join(format!("{name}.log")))
}

/// A path as an argument.
///
/// # Errors
/// When it is not UTF-8.
pub fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}

/// A program that was built together with this one.
fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(
        path.exists(),
        "{} is not built: run this by `make`, which builds it",
        path.display()
    );
    Ok(path)
}
