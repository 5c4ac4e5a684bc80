//! The real programs, as `tests/parts/build` pins and builds them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

/// A program that the tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    static FOUND: Mutex<BTreeMap<Part, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = found.get(&part) {
        return Ok(path.clone());
    }
    let script = repository().join("tests/parts/build");
    let output = Command::new(&script)
        .args(["--no-build", "--path", part.name()])
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} is not there; `tests/parts/build {}` builds it. {}",
            part.name(),
            part.name(),
            said.trim()
        );
    }
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    found.insert(part, path.clone());
    Ok(path)
}
