//! An observer: it knows policies and documents alone, and judges whether hedging became less safe.

use std::fmt;

use anyhow::{Context, Result, ensure};
use hedgerow_tests::{Audit, Mark, Namespace};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::policy::KEY;

/// What [`policy`](crate::policy::policy) allows, by its own text or by the defaults of the API: `delay.min`, the deadline, and
/// the budget in per cent.
const LEAST_DELAY_MS: f64 = 1.0;
const LONGEST_DELAY_MS: f64 = 1000.0;
const BUDGET: f64 = 10.0;
/// The first step of the ramp, and what a step adds at most: the budget comes back at 25, 50, 100 %.
const FIRST_STEP: f64 = 0.25;
const NEXT_STEP: f64 = 2.0;
/// Decimals of a document are rounded.
const ROUNDING: f64 = 1e-6;

/// One content of a document, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version {
    pub(crate) written: Timestamp,
    /// Each policy counts its own.
    pub(crate) policy: String,
    pub(crate) revision: u64,
    pub(crate) reason: String,
    /// `None` while off: milliseconds and per cent.
    pub(crate) hedging: Option<(f64, f64)>,
}

impl Version {
    fn read(written: Timestamp, document: &Value) -> Result<Self> {
        let number = |pointer: &str| {
            let value = document.pointer(pointer).and_then(Value::as_f64);
            value.with_context(|| format!("no {pointer} in {document}"))
        };
        let enabled = document["enabled"].as_bool().context("no `enabled`")?;
        let hedging =
            enabled.then(|| Ok::<_, anyhow::Error>((number("/delayMs")?, number("/budget/percent")?)));
        Ok(Self {
            written,
            policy: document["policyUID"].as_str().unwrap_or_default().to_owned(),
            revision: document["revision"].as_u64().context("no revision")?,
            reason: document["reason"].as_str().unwrap_or_default().to_owned(),
            hedging: hedging.transpose()?,
        })
    }

    fn is_same_as(&self, other: &Self) -> bool {
        (&self.policy, self.revision) == (&other.policy, other.revision)
    }

    fn is_within_the_policy(&self) -> Result<()> {
        if let Some((delay, percent)) = self.hedging {
            ensure!(
                (LEAST_DELAY_MS..=LONGEST_DELAY_MS).contains(&delay),
                "outside the policy: {self}"
            );
            ensure!(percent > 0.0 && percent <= BUDGET, "outside the policy: {self}");
        }
        Ok(())
    }

    /// Neither on after off, nor a shorter delay, nor a larger budget.
    fn is_as_safe_as(&self, before: &Self) -> Result<()> {
        if let Some((delay, percent)) = self.hedging {
            let Some((delay_before, percent_before)) = before.hedging else {
                anyhow::bail!("it turned on: {before}, then {self}");
            };
            ensure!(
                delay >= delay_before - ROUNDING,
                "a shorter delay: {before}, then {self}"
            );
            ensure!(
                percent <= percent_before + ROUNDING,
                "a larger budget: {before}, then {self}"
            );
        }
        Ok(())
    }

    fn follows_by_the_ramp(&self, before: &Self) -> Result<()> {
        if let Some((_, percent)) = self.hedging {
            let most = match before.hedging {
                None => BUDGET * FIRST_STEP,
                Some((_, before)) => before * NEXT_STEP,
            };
            ensure!(
                percent <= most + ROUNDING,
                "not by the ramp: {before}, then {self}"
            );
        }
        Ok(())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hedging {
            None => write!(f, "off ({})", self.reason),
            Some((delay, percent)) => write!(f, "{delay:.0} ms, {percent} % ({})", self.reason),
        }
    }
}

/// Watches the document under [`KEY`] of one ConfigMap, by what the API server says was written.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    audit: Audit,
    namespace: String,
    config_map: String,
}

impl Observer {
    pub(crate) fn of(audit: &Audit, namespace: &Namespace, config_map: &str) -> Self {
        let namespace = namespace.name().to_owned();
        Self {
            audit: audit.clone(),
            namespace,
            config_map: config_map.to_owned(),
        }
    }

    /// Every content that the operator has written, renewals left out. A write whose answer was cut short counts: it may have
    /// happened.
    pub(crate) fn versions(&self) -> Vec<Version> {
        let mut versions: Vec<Version> = Vec::new();
        for event in self.audit.since(Mark::default()).unwrap() {
            let object = &event.object_ref;
            let named = object.name == self.config_map
                || event.request_object["metadata"]["name"] == *self.config_map;
            let landed = event.succeeded() || event.code() == 0;
            let by_operator = event.user().starts_with("system:serviceaccount:");
            if object.resource != "configmaps"
                || object.namespace != self.namespace
                || !(named && landed && by_operator)
            {
                continue;
            }
            if let Some(text) = event.request_object["data"][KEY].as_str() {
                let document = serde_json::from_str(text).unwrap();
                let version = Version::read(event.received.parse().unwrap(), &document).unwrap();
                if versions.last().is_none_or(|last| !last.is_same_as(&version)) {
                    versions.push(version);
                }
            }
        }
        versions
    }

    /// What was published from `fault` on. Until `good`, from when on readings were good again, nothing may be less safe than
    /// what was there when the fault began; from then on hedging may come back, by the steps of the ramp alone.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn judge(&self, fault: Timestamp, good: Timestamp) -> Result<(Version, Vec<Version>)> {
        let mut versions = self.versions();
        let since = versions.partition_point(|version| version.written < fault);
        let meanwhile = versions.split_off(since);
        let before = versions.pop().context("nothing was published before the fault")?;
        let mut last = &before;
        for version in &meanwhile {
            version.is_within_the_policy()?;
            ensure!(
                version.policy != last.policy || version.revision > last.revision,
                "what was published was forgotten: {last}, then {version}"
            );
            if version.written < good {
                version.is_as_safe_as(last)?;
            } else {
                version.follows_by_the_ramp(last)?;
            }
            last = version;
        }
        Ok((before, meanwhile))
    }

    /// Judges, and tells: a row of the table.
    pub(crate) fn row(&self, name: &str, fault: Timestamp, good: Timestamp) -> Result<String> {
        let (before, mut meanwhile) = self
            .judge(fault, good)
            .with_context(|| format!("{name}: {:#?}", self.versions()))?;
        let after = meanwhile.pop().unwrap_or_else(|| before.clone());
        let shown: Vec<_> = meanwhile.iter().map(ToString::to_string).collect();
        let shown = if shown.is_empty() {
            "nothing".to_owned()
        } else {
            shown.join("; ")
        };
        Ok(format!("| {name} | {before} | {shown} | {after} |"))
    }
}

/// Prints rows, and fails when one of them is a failure.
pub(crate) fn tell(rows: Vec<(&str, Result<String>)>) {
    println!("| fault | before | published meanwhile | after |\n| --- | --- | --- | --- |");
    let mut failed = Vec::new();
    for (name, row) in rows {
        match row {
            Ok(row) => println!("{row}"),
            Err(error) => failed.push(format!("{name}: {error:#}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

mod tests {
    use super::Version;

    fn version(revision: u64, hedging: Option<(f64, f64)>) -> Version {
        Version {
            written: "2026-01-01T00:00:00Z".parse().unwrap(),
            policy: String::new(),
            revision,
            reason: String::new(),
            hedging,
        }
    }

    #[test]
    fn what_is_less_safe_is_seen() {
        let (off, on) = (version(1, None), version(2, Some((500.0, 10.0))));
        assert!(off.is_as_safe_as(&on).is_ok());
        assert!(on.is_as_safe_as(&off).is_err());
        assert!(version(3, Some((499.0, 10.0))).is_as_safe_as(&on).is_err());
        assert!(version(3, Some((500.0, 10.1))).is_as_safe_as(&on).is_err());
        assert!(version(3, Some((600.0, 5.0))).is_as_safe_as(&on).is_ok());
        assert!(version(3, Some((600.0, 2.5))).follows_by_the_ramp(&off).is_ok());
        assert!(version(3, Some((600.0, 5.0))).follows_by_the_ramp(&off).is_err());
        assert!(version(3, Some((600.0, 11.0))).is_within_the_policy().is_err());
        assert!(version(3, Some((1001.0, 10.0))).is_within_the_policy().is_err());
    }
}
