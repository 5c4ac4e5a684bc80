//! The configuration as it is typed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::{Settings, SettingsError, Sources};

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct File {
    #[serde(default = "default_instance")]
    instance: String,
    namespace: Option<String>,
    #[serde(default)]
    watch_namespaces: Vec<String>,
    #[serde(default)]
    leader_election: LeaderElection,
    #[serde(default)]
    listen: Listen,
    #[serde(default = "default_writes")]
    writes_per_second: u32,
    #[serde(default = "default_propagation")]
    propagation: String,
    #[serde(default)]
    nudge: bool,
    #[serde(default)]
    sources: Vec<Source>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct LeaderElection {
    enabled: bool,
    lease: String,
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            enabled: true,
            lease: "hedgerow".to_owned(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Listen {
    #[serde(deserialize_with = "socket_address")]
    address: SocketAddr,
    #[serde(deserialize_with = "socket_address")]
    explain: SocketAddr,
    #[serde(deserialize_with = "some_socket_address")]
    status_page: Option<SocketAddr>,
}

fn some_socket_address<'de, D: Deserializer<'de>>(written: D) -> Result<Option<SocketAddr>, D::Error> {
    socket_address(written).map(Some)
}

fn socket_address<'de, D: Deserializer<'de>>(written: D) -> Result<SocketAddr, D::Error> {
    let written = String::deserialize(written)?;
    let why = format!("{written:?} is not an IP address with a port; for example '0.0.0.0:8080'");
    written.parse().map_err(|_| serde::de::Error::custom(why))
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8080),
            explain: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081),
            status_page: None,
        }
    }
}

/// One source.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Source {
    pub(super) name: Option<String>,
    pub(super) url: Option<String>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) authentication: Authentication,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) offset: Option<String>,
    pub(super) replica_label: Option<String>,
    pub(super) concurrency: Option<usize>,
    pub(super) timeout: Option<String>,
    pub(super) max_body_bytes: Option<usize>,
    pub(super) namespaces: Option<Vec<String>>,
    pub(super) enforce_namespace_label: Option<String>,
    pub(super) ceilings: Ceilings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Authentication {
    pub(super) bearer: Option<Bearer>,
    pub(super) basic: Option<Basic>,
    pub(super) mtls: Option<Mtls>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Bearer {
    pub(super) token_file: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Basic {
    pub(super) username: String,
    pub(super) password_file: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Mtls {
    pub(super) cert_file: PathBuf,
    pub(super) key_file: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Ceilings {
    pub(super) min_interval: Option<String>,
    pub(super) min_saturation_interval: Option<String>,
    pub(super) max_window: Option<String>,
    pub(super) max_budget_percent: Option<String>,
    pub(super) max_targets_per_namespace: Option<usize>,
}

fn default_instance() -> String {
    "hedgerow".to_owned()
}

fn default_writes() -> u32 {
    20
}

/// A mounted file follows its ConfigMap after 70 to 84 s with the kubelet's defaults.
fn default_propagation() -> String {
    "90s".to_owned()
}

impl File {
    pub(super) fn resolve(self) -> Result<Settings, SettingsError> {
        loopback("listen.explain", "explanations are", self.listen.explain)?;
        if let Some(address) = self.listen.status_page {
            loopback("listen.statusPage", "the status page is", address)?;
        }
        if self.writes_per_second == 0 {
            return Err(SettingsError::key(
                "writesPerSecond",
                "must be at least 1; leave it out for 20",
            ));
        }
        if self.sources.is_empty() {
            return Err(SettingsError::key(
                "sources",
                "no source is declared, so no policy could be decided; add one with name, url and namespaces",
            ));
        }
        if self.leader_election.enabled && self.leader_election.lease.is_empty() {
            return Err(SettingsError::key(
                "leaderElection.lease",
                "must name a Lease; leave it out for \"hedgerow\", or set leaderElection.enabled: false",
            ));
        }
        Ok(Settings {
            propagation: duration(
                "propagation",
                &self.propagation,
                Duration::ZERO..=Duration::from_secs(3600),
            )?,
            instance: label_value("instance", self.instance)?,
            namespace: self.namespace,
            watch_namespaces: self.watch_namespaces,
            lease: self.leader_election.enabled.then_some(self.leader_election.lease),
            listen: self.listen.address,
            listen_loopback: self.listen.explain,
            listen_status_page: self.listen.status_page,
            writes_per_second: self.writes_per_second,
            nudge: self.nudge,
            sources: sources(self.sources)?,
        })
    }
}

/// What is not for other pods listens on loopback.
fn loopback(key: &str, what: &str, address: SocketAddr) -> Result<(), SettingsError> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let port = address.port();
    Err(SettingsError::key(
        key,
        format!(
            "{address} is not a loopback address; {what} not for other pods: use 127.0.0.1:{port} and kubectl port-forward"
        ),
    ))
}

fn sources(declared: Vec<Source>) -> Result<Sources, SettingsError> {
    let mut resolved: Vec<super::DeclaredSource> = Vec::with_capacity(declared.len());
    for (at, source) in declared.into_iter().enumerate() {
        let source = source.resolve(at)?;
        if resolved
            .iter()
            .any(|other| other.settings.name == source.settings.name)
        {
            return Err(SettingsError::key(
                format!("sources[{at}].name"),
                format!(
                    "{:?} is declared twice; give each source its own name",
                    source.settings.name
                ),
            ));
        }
        resolved.push(source);
    }
    Ok(Sources::collect(resolved))
}

/// A duration as policies write it, within a range.
pub(super) fn duration(
    key: &str,
    text: &str,
    range: std::ops::RangeInclusive<Duration>,
) -> Result<Duration, SettingsError> {
    let value = hedgerow_api::text::parse_duration(text)
        .map_err(|why| SettingsError::key(key, format!("{text:?} is {why}")))?;
    if range.contains(&value) {
        return Ok(value);
    }
    Err(SettingsError::key(
        key,
        format!(
            "{text} is out of range; use {} to {}",
            crate::words::duration(*range.start()),
            crate::words::duration(*range.end())
        ),
    ))
}

/// What can stand as the value of a Kubernetes label.
fn label_value(key: &str, text: String) -> Result<String, SettingsError> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if text.len() <= 63 && text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().last()) {
        return Ok(text);
    }
    Err(SettingsError::key(
        key,
        format!(
            "{text:?} cannot be a label value; use up to 63 letters, digits, '-', '_' and '.', such as \"hedgerow\""
        ),
    ))
}
