//! The real programs, as `tests/parts/build` and `tests/programs/build` pin and build them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

/// A program that the tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kubectl.
    Kubectl,
    /// Prometheus.
    Prometheus,
    /// promtool.
    Promtool,
    /// Envoy.
    Envoy,
    /// What moves the clock of one process: a library for `LD_PRELOAD`.
    LibFakeTime,
}

impl Part {
    /// Its name, as `tests/parts/build` knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::Prometheus => "prometheus",
            Self::Promtool => "promtool",
            Self::Envoy => "envoy",
            Self::LibFakeTime => "libfaketime",
        }
    }
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests)
}

/// Where a part lies. Builds nothing: that takes minutes, and a test run must not do it unasked.
///
/// # Errors
/// When it is not built yet, saying which command does it.
pub fn part(part: Part) -> Result<PathBuf> {
    let remedy = match part {
        Part::Envoy => "make programs",
        Part::LibFakeTime => "tests/parts/build libfaketime",
        _ => "make parts",
    };
    built("tests/parts/build", part.name(), remedy)
}

/// Where a program lies that reads documents with the code of the system that they are for, or that an example is of: see
/// `tests/programs/README.md`. Builds nothing either.
///
/// # Errors
/// When there is none of that name, or it is not built yet, saying which command does it.
pub fn program(name: &'static str) -> Result<PathBuf> {
    built("tests/programs/build", name, "make programs")
}

/// What `script` says where `name` lies, asked once.
fn built(script: &'static str, name: &'static str, remedy: &str) -> Result<PathBuf> {
    static FOUND: Mutex<BTreeMap<(&str, &str), PathBuf>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = found.get(&(script, name)) {
        return Ok(path.clone());
    }
    let output = Command::new(repository().join(script))
        .args(["--no-build", "--path", name])
        .output()
        .with_context(|| format!("cannot run {script}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name} is not there; `{remedy}` builds it. {}", said.trim());
    }
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    found.insert((script, name), path.clone());
    Ok(path)
}
