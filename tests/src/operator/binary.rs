//! The built binaries.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Result, anyhow};
use escargot::CargoBuild;

use crate::repository;

/// Which build of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// As tests are built.
    Debug,
    /// As it is shipped.
    Release,
}

/// Where the `hedgerow` binary lies. Cargo is asked once a run, and builds what has changed: a test never runs an old binary.
///
/// # Errors
/// When it does not build.
pub fn hedgerow(build: Build) -> Result<PathBuf> {
    static DEBUG: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    static RELEASE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = match build {
        Build::Debug => &DEBUG,
        Build::Release => &RELEASE,
    };
    built
        .get_or_init(|| cargo_build("hedgerow", build))
        .clone()
        .map_err(|error| anyhow!("hedgerow does not build: {error}"))
}

/// Where the `kubectl-hedge` binary lies, as tests are built.
///
/// # Errors
/// When it does not build.
pub fn kubectl_hedge() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT
        .get_or_init(|| cargo_build("kubectl-hedge", Build::Debug))
        .clone()
        .map_err(|error| anyhow!("kubectl-hedge does not build: {error}"))
}

/// The whole workspace and a test are selected because Cargo unifies features among what is selected, and counts the
/// dependencies of tests only when there is one: this way they are those that `cargo test --workspace` has built.
fn cargo_build(name: &str, build: Build) -> Result<PathBuf, String> {
    let cargo = CargoBuild::new()
        .manifest_path(repository().join("Cargo.toml"))
        .arg("--workspace")
        .bin(name);
    let cargo = of_this_test().fold(cargo, CargoBuild::env_remove);
    let cargo = match build {
        // The smallest of them.
        Build::Debug => cargo.test("release"),
        Build::Release => cargo.release(),
    };
    cargo
        .run()
        .map(|built| built.path().to_owned())
        .map_err(|error| error.to_string())
}

/// What Cargo told this test of its own package. To build scripts of dependencies that look at these names (ring's does) it would
/// be news, each time: they and all that needs them would be compiled anew, here and again by the next `cargo test`.
fn of_this_test() -> impl Iterator<Item = OsString> {
    let package = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    std::env::vars_os().map(|(name, _)| name).filter(package)
}
