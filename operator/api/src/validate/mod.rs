//! What the schema checks on admission, checked again at run time: an object may have been stored before the schema had a rule,
//! or come from a file that no API server has seen.

mod at;
mod latency;
mod publish;
mod saturation;
mod target;

use std::collections::BTreeSet;
use std::fmt;

use self::at::At;
use crate::{HedgePolicySpec, limits, rules};

/// A field that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Where it is, as Kubernetes writes it: `spec.targets[0].delay.percentile`.
    pub path: String,
    /// What must be so: words that follow the path.
    pub message: String,
    /// What is there instead, where that helps.
    pub value: Option<String>,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        match &self.value {
            Some(value) => write!(f, ", is {value:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FieldError {}

/// Checks a spec as the schema does, with the same messages. A spec that passes has a value for everything: no method of it
/// fails thereafter.
///
/// # Errors
/// Every field that is not as it must be, in the order of the fields.
pub fn validate(spec: &HedgePolicySpec) -> Result<(), Vec<FieldError>> {
    let mut errors = Vec::new();
    check_spec(&mut At::root(&mut errors), spec);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn check_spec(at: &mut At<'_>, spec: &HedgePolicySpec) {
    at.field("source").text(&spec.source);
    let interval = at.field("interval").duration(&spec.interval, limits::INTERVAL);
    let saturation_interval = at
        .field("saturationInterval")
        .duration(&spec.saturation_interval, limits::SATURATION_INTERVAL);
    at.field("maxStaleness")
        .duration(&spec.max_staleness, limits::MAX_STALENESS);
    at.field("expiry").expiry(&spec.expiry, limits::EXPIRY);
    if let (Some(interval), Some(saturation_interval)) = (interval, saturation_interval) {
        at.rule(
            rules::SATURATION_INTERVAL_WITHIN_INTERVAL,
            saturation_interval <= interval,
            Some(&spec.saturation_interval),
        );
    }

    let mut targets = at.field("targets");
    targets.length(spec.targets.len(), 1, limits::MAX_TARGETS);
    targets.unique(spec.targets.iter().map(|target| &target.name));
    for (index, target) in spec.targets.iter().enumerate() {
        target::check(&mut targets.index(index), target);
    }

    let mut publish = at.field("publish");
    publish.length(spec.publish.len(), 1, limits::MAX_OUTPUTS);
    publish.unique(
        spec.publish
            .iter()
            .map(|output| (&output.config_map, &output.key)),
    );
    for (index, output) in spec.publish.iter().enumerate() {
        publish::check(&mut publish.index(index), output);
    }

    let known: BTreeSet<&str> = spec.targets.iter().map(|target| &*target.name).collect();
    let published: BTreeSet<&str> = spec
        .publish
        .iter()
        .flat_map(|output| &output.targets)
        .map(|target| &*target.name)
        .collect();
    at.rule(
        rules::PUBLISHED_TARGETS_EXIST,
        published.is_subset(&known),
        published.difference(&known).next(),
    );
    at.rule(
        rules::TARGETS_ARE_PUBLISHED,
        known.is_subset(&published),
        known.difference(&published).next(),
    );
    publish::check_together(at, spec);
}
