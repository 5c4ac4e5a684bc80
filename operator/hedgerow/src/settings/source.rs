//! A source as the administrator declared it.

use std::time::Duration;

use hedgerow_signals::{Authentication, SourceSettings};

use super::SettingsError;
use super::file::{self, duration};

/// A source, who may name it, and what it allows.
#[derive(Clone, Debug)]
pub struct DeclaredSource {
    /// How it is reached.
    pub settings: SourceSettings,
    /// Who may name it.
    pub namespaces: AllowedNamespaces,
    /// The label that holds the namespace, added to every query; `None`: policies may read any series.
    pub namespace_label: Option<String>,
    /// What a policy gets at most.
    pub ceilings: Ceilings,
}

/// Who may name a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedNamespaces {
    /// Every namespace; written as `["*"]`.
    All,
    /// These.
    Only(Vec<String>),
}

/// What a policy gets at most. They win over the policy and are reported as `limitedBy: Source`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ceilings {
    /// The delay is not recomputed more often than this.
    pub min_interval: Option<Duration>,
    /// The switch is not evaluated more often than this.
    pub min_saturation_interval: Option<Duration>,
    /// No window is longer than this.
    pub max_window: Option<Duration>,
    /// Hedges per 100 calls at most.
    pub max_budget_percent: Option<f64>,
    /// Targets of one namespace; those of younger policies are refused.
    pub max_targets_per_namespace: Option<usize>,
}

impl AllowedNamespaces {
    /// Whether policies of `namespace` may name the source.
    pub fn allow(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|name| name == namespace),
        }
    }
}

impl DeclaredSource {
    /// A source that every namespace may name, without ceilings, reached as usual.
    pub fn plain(name: &str, url: &str) -> Self {
        Self {
            settings: SourceSettings {
                name: name.to_owned(),
                url: url.to_owned(),
                ca_file: None,
                authentication: Authentication::None,
                headers: std::collections::BTreeMap::new(),
                offset: Duration::ZERO,
                replica_label: None,
                concurrency: DEFAULT_CONCURRENCY,
                timeout: DEFAULT_TIMEOUT,
                max_body_bytes: DEFAULT_MAX_BODY_BYTES,
            },
            namespaces: AllowedNamespaces::All,
            namespace_label: None,
            ceilings: Ceilings::default(),
        }
    }
}

/// Few enough that a source serves dashboards beside us.
const DEFAULT_CONCURRENCY: usize = 4;
/// Well under the default `maxUnknown`, so that a slow source is noticed before a switch opens.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Some hundred times what 200 label sets need.
const DEFAULT_MAX_BODY_BYTES: usize = 32 * 1024 * 1024;

impl file::Source {
    /// What the `at`-th source means.
    pub(super) fn resolve(self, at: usize) -> Result<DeclaredSource, SettingsError> {
        let key = |name: &str| format!("sources[{at}].{name}");
        let required = |name: &str, value: Option<String>, remedy: &str| {
            value
                .filter(|value| !value.is_empty())
                .ok_or_else(|| SettingsError::key(key(name), remedy))
        };
        let name = required(
            "name",
            self.name,
            "is missing; policies say it in spec.source (default: \"default\")",
        )?;
        let url = required(
            "url",
            self.url,
            "is missing; for example http://prometheus.monitoring:9090",
        )?;
        let mut declared = DeclaredSource::plain(&name, &url);
        declared.namespaces = allowed(&key("namespaces"), self.namespaces)?;
        declared.ceilings = self.ceilings.resolve(&key("ceilings"))?;
        declared.namespace_label = match self.enforce_namespace_label {
            Some(label) if !is_label_name(&label) => {
                return Err(not_a_label(&key("enforceNamespaceLabel"), &label));
            }
            label => label,
        };

        let settings = &mut declared.settings;
        settings.ca_file = self.ca_file;
        settings.authentication = self.authentication.resolve(&key("authentication"))?;
        settings.headers = self.headers;
        settings.replica_label = match self.replica_label {
            Some(label) if !is_label_name(&label) => return Err(not_a_label(&key("replicaLabel"), &label)),
            label => label,
        };
        if let Some(offset) = self.offset {
            settings.offset = duration(&key("offset"), &offset, Duration::ZERO..=Duration::from_secs(600))?;
        }
        if let Some(timeout) = self.timeout {
            let range = Duration::from_millis(100)..=Duration::from_secs(60);
            settings.timeout = duration(&key("timeout"), &timeout, range)?;
        }
        if let Some(concurrency) = self.concurrency {
            settings.concurrency = within(&key("concurrency"), concurrency, 1..=64)?;
        }
        if let Some(bytes) = self.max_body_bytes {
            settings.max_body_bytes = within(&key("maxBodyBytes"), bytes, 64 * 1024..=1024 * 1024 * 1024)?;
        }
        Ok(declared)
    }
}

/// Who may name the source: said, never assumed.
fn allowed(key: &str, namespaces: Option<Vec<String>>) -> Result<AllowedNamespaces, SettingsError> {
    let names = namespaces.filter(|names| !names.is_empty()).ok_or_else(|| {
        SettingsError::key(
            key,
            "is missing; list the namespaces whose policies may name this source, or write [\"*\"] for all",
        )
    })?;
    match names.iter().any(|name| name == "*") {
        true if names.len() == 1 => Ok(AllowedNamespaces::All),
        true => Err(SettingsError::key(
            key,
            "\"*\" already means all namespaces; write [\"*\"] alone, or only names",
        )),
        false => Ok(AllowedNamespaces::Only(names)),
    }
}

impl file::Authentication {
    fn resolve(self, key: &str) -> Result<Authentication, SettingsError> {
        match (self.bearer, self.basic, self.mtls) {
            (None, None, None) => Ok(Authentication::None),
            (Some(bearer), None, None) => Ok(Authentication::Bearer {
                token_file: bearer.token_file,
            }),
            (None, Some(basic), None) => Ok(Authentication::Basic {
                username: basic.username,
                password_file: basic.password_file,
            }),
            (None, None, Some(mtls)) => Ok(Authentication::Mtls {
                cert_file: mtls.cert_file,
                key_file: mtls.key_file,
            }),
            _ => Err(SettingsError::key(
                key,
                "more than one is given; keep one of bearer, basic and mtls",
            )),
        }
    }
}

impl file::Ceilings {
    fn resolve(self, key: &str) -> Result<Ceilings, SettingsError> {
        let parse = |name: &str, text: Option<String>, range| {
            text.map(|text| duration(&format!("{key}.{name}"), &text, range))
                .transpose()
        };
        let seconds = |from, to| Duration::from_secs(from)..=Duration::from_secs(to);
        Ok(Ceilings {
            min_interval: parse("minInterval", self.min_interval, seconds(5, 600))?,
            min_saturation_interval: parse(
                "minSaturationInterval",
                self.min_saturation_interval,
                seconds(1, 60),
            )?,
            max_window: parse("maxWindow", self.max_window, seconds(60, 24 * 3600))?,
            max_budget_percent: self
                .max_budget_percent
                .map(|text| percent(&format!("{key}.maxBudgetPercent"), &text))
                .transpose()?,
            max_targets_per_namespace: self.max_targets_per_namespace,
        })
    }
}

fn percent(key: &str, text: &str) -> Result<f64, SettingsError> {
    text.parse()
        .ok()
        .filter(|value| *value > 0.0 && *value <= 100.0)
        .ok_or_else(|| {
            SettingsError::key(
                key,
                format!("{text:?} is no share of calls; use a number above 0, up to 100"),
            )
        })
}

fn within(key: &str, value: usize, range: std::ops::RangeInclusive<usize>) -> Result<usize, SettingsError> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (from, to) = (range.start(), range.end());
    Err(SettingsError::key(
        key,
        format!("{value} is out of range; use {from} to {to}"),
    ))
}

fn is_label_name(text: &str) -> bool {
    let head = |c: char| c.is_ascii_alphabetic() || c == '_';
    let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.chars().next().is_some_and(head) && text.chars().all(rest) && text != "__name__"
}

fn not_a_label(key: &str, text: &str) -> SettingsError {
    SettingsError::key(
        key,
        format!("{text:?} is not a label name; use letters, digits and '_', such as \"namespace\""),
    )
}
