//! What people and tools are told: from what was decided and written to `status`. Pure, and no decision is made from it.
//!
//! A reading alone never changes a status. What moves with every reading (messages with numbers, figures, recommended
//! delays) is taken when the decision was written and then carried over from the status that is there, as long as what was
//! decided is the same.

mod conditions;
mod history;
mod outputs;
mod summary;
mod target;

use std::collections::BTreeMap;

use hedgerow_api::{HedgePolicySpec, HedgePolicyStatus};
use hedgerow_tuner::{Decision, Reason, Rules, Timestamp, Unknown};

use crate::cluster::Fault;
use crate::notes;

/// Why a policy is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `Invalid` or `SourceNotAvailable`.
    pub reason: Reason,
    /// The field and the remedy.
    pub message: String,
}

/// What became of one ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is as it shall be.
    Published,
    /// It is not, and the operator tries again.
    Pending {
        /// Why not.
        message: String,
    },
    /// It is not, and only a person can mend that.
    Refused {
        /// A bounded name.
        reason: &'static str,
        /// Why not, and the remedy.
        message: String,
    },
}

/// One target as it was decided when its documents were written.
#[derive(Clone, Debug)]
pub struct DecidedTarget<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it was decided by.
    pub rules: &'a Rules,
    /// What was decided.
    pub decision: &'a Decision,
}

/// Everything a status is made of.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The generation of the spec that this is about.
    pub generation: i64,
    /// The spec; `None` when it cannot be decoded.
    pub spec: Option<&'a HedgePolicySpec>,
    /// Why the policy is not followed.
    pub refusal: Option<&'a Refusal>,
    /// The targets, in the order of the spec; none when the policy is not valid.
    pub targets: Vec<DecidedTarget<'a>>,
    /// What became of each ConfigMap, by name; what is missing was not tried yet.
    pub written: &'a BTreeMap<String, Written>,
    /// What is not as it should be of a document, by ConfigMap and key.
    pub faults: &'a BTreeMap<(String, String), Fault>,
    /// Why pods that are to read safer documents at once are not told to.
    pub not_nudged: Option<String>,
    /// Why the source fails for all its targets.
    pub source_failing: Option<&'a Unknown>,
    /// The status that is there.
    pub before: &'a HedgePolicyStatus,
    /// Now.
    pub now: Timestamp,
}

/// The status that tells `facts`.
pub fn status(facts: &Facts<'_>) -> HedgePolicyStatus {
    let known = |name: &str| facts.before.targets.iter().find(|target| target.name == name);
    let notes = |name: &str| {
        let spec = facts.spec.into_iter().flat_map(|spec| &spec.targets);
        spec.filter(|target| *target.name == *name)
            .flat_map(notes::of)
            .collect()
    };
    let targets: Vec<_> = facts
        .targets
        .iter()
        .map(|target| target::status(target, notes(target.name), known(target.name), facts.now))
        .collect();
    HedgePolicyStatus {
        observed_generation: Some(facts.generation),
        summary: Some(summary::summary(facts, &targets)),
        conditions: conditions::conditions(facts, &targets),
        outputs: outputs::outputs(facts),
        targets,
    }
}

#[cfg(test)]
mod tests;
