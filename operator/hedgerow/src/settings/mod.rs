//! The operator's configuration: what an administrator says in a file.
//!
//! [`file`](self) is what was typed; [`Settings`] is what it means. Every error names the key and the remedy.

mod file;
mod source;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

pub use source::{AllowedNamespaces, Ceilings, DeclaredSource};

/// What the administrator decided.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The id of this install, written on each ConfigMap of ours.
    pub instance: String,
    /// The operator's own namespace: its Lease, its events, and the `hedgerow-off` ConfigMap that stops everything.
    pub namespace: Option<String>,
    /// The namespaces watched; empty: all.
    pub watch_namespaces: Vec<String>,
    /// The name of the Lease; `None`: this process leads without asking.
    pub lease: Option<String>,
    /// Where health and metrics are served.
    pub listen: SocketAddr,
    /// Where explanations are served, on a loopback address.
    pub listen_loopback: SocketAddr,
    /// Where the status page is served, on a loopback address; `None`: nowhere.
    pub listen_status_page: Option<SocketAddr>,
    /// API writes per second, the first lane apart.
    pub writes_per_second: u32,
    /// How long a document takes to reach its clients.
    pub propagation: Duration,
    /// Whether pods that policies name may be annotated, so that they read a safer document at once.
    pub nudge: bool,
    /// The sources, by name.
    pub sources: Sources,
}

/// The sources that policies may name.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    declared: BTreeMap<String, DeclaredSource>,
    /// The source that stands for every name; only without a configuration.
    fallback: Option<String>,
}

/// A source that a policy may not use. It does not tell whether the source exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "spec.source: there is no source {name:?} for namespace {namespace}; ask the administrator which sources this \
     namespace may name (sources[].namespaces in the operator's configuration)"
)]
pub struct SourceNotAvailable {
    /// The source that the policy names.
    pub name: String,
    /// The policy's namespace.
    pub namespace: String,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {why}")]
    Read {
        /// The file.
        path: String,
        /// Why not.
        why: std::io::Error,
    },
    /// It is not YAML of this shape.
    #[error(
        "the configuration {path} does not parse: {why}\nEvery key is described in examples/operator.yaml"
    )]
    Parse {
        /// The file.
        path: String,
        /// Where and why not.
        why: String,
    },
    /// A key has a value that it cannot have.
    #[error("{key}: {why}")]
    Key {
        /// The key, as a path.
        key: String,
        /// What is wrong, and the remedy.
        why: String,
    },
}

impl SettingsError {
    fn key(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Key {
            key: key.into(),
            why: why.into(),
        }
    }
}

impl Settings {
    /// Reads a configuration file.
    pub fn load(path: &Path) -> Result<Self, SettingsError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|why| SettingsError::Read {
            path: name.clone(),
            why,
        })?;
        Self::parse(&name, &text)
    }

    /// The configuration that `text` means; `name` is said in errors.
    pub fn parse(name: &str, text: &str) -> Result<Self, SettingsError> {
        let file: file::File = serde_saphyr::from_str(text).map_err(|why| SettingsError::Parse {
            path: name.to_owned(),
            why: why.to_string(),
        })?;
        file.resolve()
    }
}

impl Sources {
    /// The sources of a configuration.
    pub fn collect(sources: impl IntoIterator<Item = DeclaredSource>) -> Self {
        let by_name = |source: DeclaredSource| (source.settings.name.clone(), source);
        Self {
            declared: sources.into_iter().map(by_name).collect(),
            fallback: None,
        }
    }

    /// One source whatever a policy names: what `plan --prometheus URL` reads from.
    pub fn every_name(source: DeclaredSource) -> Self {
        let name = source.settings.name.clone();
        Self {
            fallback: Some(name),
            ..Self::collect([source])
        }
    }

    /// The source that a policy of `namespace` may use under `name`.
    pub fn available(&self, name: &str, namespace: &str) -> Result<&DeclaredSource, SourceNotAvailable> {
        self.declared
            .get(self.fallback.as_deref().unwrap_or(name))
            .filter(|source| source.namespaces.allow(namespace))
            .ok_or_else(|| SourceNotAvailable {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
            })
    }

    /// The same sources, each asked one question at a time.
    #[must_use]
    pub fn one_at_a_time(mut self) -> Self {
        for source in self.declared.values_mut() {
            source.settings.concurrency = 1;
        }
        self
    }

    /// Every source.
    pub fn iter(&self) -> impl Iterator<Item = &DeclaredSource> {
        self.declared.values()
    }
}

#[cfg(test)]
mod tests;
