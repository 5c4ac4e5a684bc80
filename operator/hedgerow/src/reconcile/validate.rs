//! Whether a policy can be followed. Pure.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_api::{FieldError, HedgePolicySpec};
use hedgerow_tuner::{Reason, Stop};

use crate::cluster::PolicyEntry;
use crate::compile::compile;
use crate::index::Follow;
use crate::settings::{DeclaredSource, Sources};
use crate::status::Refusal;

/// What became of looking at a policy.
pub(super) enum Verdict {
    /// It can be followed, if only to say that it is off.
    Follow(Box<Follow>),
    /// Nobody can say what it asks for.
    Invalid(Refusal),
}

/// Looks at a policy. `older` are the policies of its namespace that came before it.
pub(super) fn validate(
    entry: &PolicyEntry,
    older: impl Iterator<Item = Arc<PolicyEntry>>,
    sources: &Sources,
    propagation: Duration,
    stop: Option<Stop>,
) -> Verdict {
    let invalid = |message: String| {
        Verdict::Invalid(Refusal {
            reason: Reason::Invalid,
            message,
        })
    };
    let policy = match &entry.policy {
        Ok(policy) => policy,
        Err(why) => {
            return invalid(format!(
                "the object cannot be understood: {why}; apply it again as it is documented"
            ));
        }
    };
    let spec = &policy.spec;
    if let Err(errors) = hedgerow_api::validate(spec) {
        return invalid(listed(&errors));
    }
    let unavailable = |message: String| Refusal {
        reason: Reason::SourceNotAvailable,
        message,
    };
    let namespace = &entry.key.namespace;
    let (source, refusal) = match sources.available(&spec.source, namespace) {
        Ok(source) => (source.clone(), crowded(spec, older, source).map(unavailable)),
        // It is followed all the same, so that its documents are there and say that they are off.
        Err(why) => (
            DeclaredSource::plain(&spec.source, ""),
            Some(unavailable(why.to_string())),
        ),
    };
    match compile(spec, namespace, &source, propagation) {
        Ok(compiled) => Verdict::Follow(Box::new(Follow {
            uid: entry.uid.clone(),
            spec: Arc::new(spec.clone()),
            compiled: Arc::new(compiled),
            refusal,
            stop,
        })),
        Err(why) => invalid(why.to_string()),
    }
}

/// Why the targets of a policy are too many for its source, if they are.
fn crowded(
    spec: &HedgePolicySpec,
    older: impl Iterator<Item = Arc<PolicyEntry>>,
    source: &DeclaredSource,
) -> Option<String> {
    let most = source.ceilings.max_targets_per_namespace?;
    let own = spec.targets.len();
    let others: usize = older
        .filter_map(|other| other.policy.as_ref().ok().cloned())
        .filter(|other| other.spec.source == spec.source)
        .map(|other| other.spec.targets.len())
        .sum();
    (others + own > most).then(|| {
        format!(
            "spec.targets: source {} allows {most} targets in a namespace, older policies have {others} and this one has \
             {own}; remove some, or ask the administrator to raise ceilings.maxTargetsPerNamespace",
            source.settings.name
        )
    })
}

/// The first errors, and how many more there are.
fn listed(errors: &[FieldError]) -> String {
    const LISTED: usize = 3;
    let mut text = errors
        .iter()
        .take(LISTED)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ");
    if errors.len() > LISTED {
        text.push_str(&format!("; and {} more", errors.len() - LISTED));
    }
    text
}
