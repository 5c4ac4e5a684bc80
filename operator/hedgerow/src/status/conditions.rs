//! The conditions of a policy.
//!
//! `Ready` does not depend on signals, so that nobody waits for ever for a service that is not deployed yet. A negative
//! condition is True when any target is concerned. `Stalled` and `Reconciling` are there only when they are so.

use hedgerow_api::{ConditionReason, ConditionType, Output, ReadingState, TargetStatus};
use hedgerow_tuner::{Decision, DiagnosisReason, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{DecidedTarget, Facts, Written};
use crate::cluster::{Fault, Instead};
use crate::words;

/// A condition before it is put beside those that are there.
struct Said {
    type_: ConditionType,
    status: bool,
    reason: &'static str,
    message: String,
}

/// The conditions that tell `facts`, whose targets have these statuses.
pub(super) fn conditions(facts: &Facts<'_>, targets: &[TargetStatus]) -> Vec<Condition> {
    let accepted = accepted(facts);
    let published = published(facts);
    let ready = ready(&accepted, &published);
    let mut said = Vec::from([
        signals_available(facts, targets),
        hedging_disabled(facts, targets, &published),
        low_confidence(targets),
    ]);
    said.extend(effective(targets));
    said.extend(abnormal(&accepted, &published));
    said.extend([accepted, published, ready]);
    said.sort_by_key(|said| ORDER.iter().position(|&type_| type_ == said.type_));
    said.into_iter().map(|said| placed(said, facts)).collect()
}

/// The order in which people read them.
const ORDER: [ConditionType; 9] = [
    ConditionType::Ready,
    ConditionType::Stalled,
    ConditionType::Reconciling,
    ConditionType::Accepted,
    ConditionType::Published,
    ConditionType::SignalsAvailable,
    ConditionType::HedgingDisabled,
    ConditionType::LowConfidence,
    ConditionType::Effective,
];

fn placed(said: Said, facts: &Facts<'_>) -> Condition {
    let type_ = said.type_.as_str();
    let status = if said.status { "True" } else { "False" };
    let before = facts
        .before
        .conditions
        .iter()
        .find(|before| before.type_ == type_);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: said.reason.to_owned(),
        message: said.message,
        observed_generation: Some(facts.generation),
        last_transition_time: before.filter(|before| before.status == status).map_or_else(
            || words::time(facts.now),
            |before| before.last_transition_time.clone(),
        ),
    }
}

fn accepted(facts: &Facts<'_>) -> Said {
    let said = |status, reason, message: String| Said {
        type_: ConditionType::Accepted,
        status,
        reason,
        message,
    };
    if let Some(refusal) = facts.refusal {
        return said(false, refusal.reason.as_str(), refusal.message.clone());
    }
    let conflicted = ConditionReason::Conflicted.as_str();
    let lost = facts.written.values().find_map(|written| match written {
        Written::Refused { reason, message } if *reason == conflicted => Some(message),
        _ => None,
    });
    if let Some(message) = lost {
        return said(false, conflicted, message.clone());
    }
    let unguarded = names(
        facts
            .targets
            .iter()
            .filter(|target| target.rules.switch.signals.is_empty())
            .map(|target| target.name),
    );
    if unguarded.is_empty() {
        said(
            true,
            ConditionReason::Accepted.as_str(),
            "The spec is accepted".to_owned(),
        )
    } else {
        let concerned = words::concerned(
            &unguarded,
            facts.targets.len(),
            "targets without a saturation signal",
        );
        said(
            true,
            ConditionReason::NoOffSwitch.as_str(),
            format!("Accepted, but nothing turns hedging off under load: {concerned}"),
        )
    }
}

fn published(facts: &Facts<'_>) -> Said {
    let said = |status, reason, message| Said {
        type_: ConditionType::Published,
        status,
        reason,
        message,
    };
    let config_maps: std::collections::BTreeSet<&str> = facts
        .spec
        .into_iter()
        .flat_map(|spec| &spec.publish)
        .map(|output| &*output.config_map)
        .collect();
    let outcomes = || config_maps.iter().filter_map(|name| facts.written.get(*name));
    let refused = outcomes().find_map(|written| match written {
        Written::Refused { reason, message } => Some((*reason, message)),
        _ => None,
    });
    let failed = outcomes().find_map(|written| match written {
        Written::Pending { message } => Some(message),
        _ => None,
    });
    let total = config_maps.len();
    let done = outcomes()
        .filter(|written| **written == Written::Published)
        .count();
    // A document that cannot say what was decided is written, off. That depends on the signals: HedgingDisabled tells it.
    let is_written_off =
        |fault: &Fault| fault.reason == ConditionReason::OrdersRefused && fault.instead == Instead::Off;
    let faults = facts.faults.iter();
    let fault = faults
        .filter(|(_, fault)| !is_written_off(fault))
        .min_by_key(|(_, fault)| fault.is_transient());
    match (refused, failed) {
        _ if facts.refusal.is_some() => said(
            false,
            ConditionReason::Pending.as_str(),
            "Documents are switched off until the policy is accepted".to_owned(),
        ),
        (Some((reason, message)), _) => said(false, reason, message.clone()),
        (None, Some(message)) => said(false, ConditionReason::WriteFailed.as_str(), message.clone()),
        (None, None) if let Some(((config_map, key), fault)) = fault => said(
            false,
            fault.reason.as_str(),
            format!("{config_map}/{key}: {}", fault.message),
        ),
        (None, None) if done < total => said(
            false,
            ConditionReason::Pending.as_str(),
            format!("{done} of {total} ConfigMaps are written"),
        ),
        (None, None) => match &facts.not_nudged {
            Some(why) => said(
                true,
                ConditionReason::NudgeForbidden.as_str(),
                format!("{total} of {total} ConfigMaps are written, but nudgePods has no effect: {why}"),
            ),
            None => said(
                true,
                ConditionReason::Published.as_str(),
                format!("{total} of {total} ConfigMaps are written"),
            ),
        },
    }
}

fn ready(accepted: &Said, published: &Said) -> Said {
    let (status, reason, message) = match first_fault(accepted, published) {
        Some(fault) => (false, fault.reason, fault.message.clone()),
        None => (
            true,
            ConditionReason::Published.as_str(),
            "Accepted, and every document is written".to_owned(),
        ),
    };
    Said {
        type_: ConditionType::Ready,
        status,
        reason,
        message,
    }
}

fn first_fault<'a>(accepted: &'a Said, published: &'a Said) -> Option<&'a Said> {
    [accepted, published].into_iter().find(|said| !said.status)
}

/// `Stalled` when only a person can mend it, `Reconciling` when the operator is at it.
fn abnormal(accepted: &Said, published: &Said) -> Option<Said> {
    let why = first_fault(accepted, published)?;
    let transient = [
        ConditionReason::Pending.as_str(),
        ConditionReason::WriteFailed.as_str(),
        ConditionReason::BaseUnavailable.as_str(),
    ]
    .contains(&why.reason);
    Some(Said {
        type_: if transient {
            ConditionType::Reconciling
        } else {
            ConditionType::Stalled
        },
        status: true,
        reason: why.reason,
        message: why.message.clone(),
    })
}

/// Told from the statuses, whose readings are those of the last write, so that no reading moves it.
fn signals_available(facts: &Facts<'_>, targets: &[TargetStatus]) -> Said {
    let said = |status, reason, message| Said {
        type_: ConditionType::SignalsAvailable,
        status,
        reason,
        message,
    };
    let nothing_is_read = "Nothing is read until the policy is accepted".to_owned();
    if facts.refusal.is_some() || targets.is_empty() {
        return said(false, ConditionReason::Pending.as_str(), nothing_is_read);
    }
    if let Some(why) = facts.source_failing {
        return said(
            false,
            ConditionReason::SourceFailing.as_str(),
            format!("The source fails for all its targets: {}", why.reason),
        );
    }
    if targets.iter().any(not_read_yet) {
        let message = "The first reading is on its way".to_owned();
        return said(false, ConditionReason::Pending.as_str(), message);
    }
    let unknown: Vec<(String, &'static str)> = targets.iter().filter_map(first_unknown).collect();
    match unknown.first() {
        None => said(
            true,
            ConditionReason::Fresh.as_str(),
            "Every signal has a fresh reading".to_owned(),
        ),
        Some(&(_, reason)) => {
            let names: Vec<String> = unknown.iter().map(|(name, _)| name.clone()).collect();
            said(
                false,
                reason,
                words::concerned(&names, targets.len(), "targets with an unknown reading"),
            )
        }
    }
}

/// A reading has a time from the first answer on, whatever it says.
fn not_read_yet(target: &TargetStatus) -> bool {
    target
        .readings
        .as_ref()
        .is_none_or(|readings| readings.time.is_none())
}

/// What is unknown of a target, with why; and the bounded name of the first such reason.
fn first_unknown(target: &TargetStatus) -> Option<(String, &'static str)> {
    let state = ReadingState::Unknown.as_str();
    let latency = target
        .readings
        .as_ref()
        .filter(|readings| readings.state.as_deref() == Some(state));
    let latency = latency.map(|readings| ("latency", readings.reason.as_deref()));
    let signals = target
        .signals
        .iter()
        .filter(|signal| signal.state.as_deref() == Some(state));
    let signals = signals.map(|signal| (signal.name.as_str(), signal.reason.as_deref()));
    let (what, reason) = latency.into_iter().chain(signals).next()?;
    let known = hedgerow_tuner::UnknownReason::ALL
        .iter()
        .find(|known| Some(known.as_str()) == reason);
    let reason = known.map_or(ConditionReason::Pending.as_str(), |known| known.as_str());
    Some((format!("{} ({what} {reason})", target.name), reason))
}

fn hedging_disabled(facts: &Facts<'_>, targets: &[TargetStatus], published: &Said) -> Said {
    let waits = |decision: &Decision| !published.status && waits_for_its_document(decision);
    let decided_off = |target: &DecidedTarget<'_>| target.decision.orders.hedging.is_none();
    let off = || {
        let targets = facts.targets.iter().zip(targets);
        let targets = targets.filter(|(target, _)| is_switched(facts, target.name));
        targets.filter(|(target, _)| decided_off(target) || unsaid(facts, target.name).is_some())
    };
    // What turns a target off by itself goes before what stands in the way of a document.
    let worst = off().filter(|(target, _)| decided_off(target) && !waits(target.decision));
    let worst: Option<Reason> = worst.map(|(target, _)| target.decision.orders.reason).min();
    let worst = worst.map(Reason::as_str);
    let worst = worst.or_else(|| off().find_map(|(target, _)| unsaid(facts, target.name)));
    let worst = worst.or_else(|| off().next().map(|_| published.reason));
    let names = off().map(|(target, status)| {
        let reason = if !decided_off(target) {
            unsaid(facts, target.name).unwrap_or_default()
        } else if waits(target.decision) {
            published.reason
        } else {
            status.reason.as_deref().unwrap_or_default()
        };
        format!("{} ({reason})", target.name)
    });
    let names: Vec<String> = names.collect();
    let (status, reason, message) = match (facts.refusal, worst) {
        (Some(refusal), _) => (
            true,
            refusal.reason.as_str(),
            "The policy is not accepted".to_owned(),
        ),
        (None, Some(worst)) => (
            true,
            worst,
            words::concerned(&names, targets.len(), "targets are not hedged"),
        ),
        (None, None) => (
            false,
            ConditionReason::Hedging.as_str(),
            "Every target is hedged".to_owned(),
        ),
    };
    Said {
        type_: ConditionType::HedgingDisabled,
        status,
        reason,
        message,
    }
}

/// The documents of a target whose clients follow them while they run.
fn live_outputs<'a>(facts: &Facts<'a>, target: &str) -> impl Iterator<Item = &'a Output> {
    let outputs = facts.spec.into_iter().flat_map(|spec| &spec.publish);
    outputs.filter(move |output| {
        let names_it = output.targets.iter().any(|named| *named.name == *target);
        names_it && !output.format.is_manual()
    })
}

/// Whether any clients of a target are switched by its documents. Of those that need a restart nobody knows what they do.
pub(super) fn is_switched(facts: &Facts<'_>, target: &str) -> bool {
    live_outputs(facts, target).next().is_some()
}

/// Why no document of a target tells its clients to hedge, though that was decided; `None` when one does.
fn unsaid(facts: &Facts<'_>, target: &str) -> Option<&'static str> {
    let faults = live_outputs(facts, target).map(|output| {
        let fault = facts
            .faults
            .get(&(output.config_map.to_string(), output.key.to_string()));
        fault.filter(|fault| fault.instead != Instead::OldBase)
    });
    let faults: Option<Vec<&Fault>> = faults.collect();
    faults?.first().map(|fault| fault.reason.as_str())
}

/// Whether it would hedge, but for a document that is not written: clients are told no more than that one says.
fn waits_for_its_document(decision: &Decision) -> bool {
    let would_hedge = matches!(decision.reason, Reason::Tuned | Reason::Ramping | Reason::Held);
    decision.orders.hedging.is_none() && would_hedge && decision.orders.reason != Reason::Observing
}

/// Told from the statuses, whose doubts have the numbers of the last write, so that no reading moves it.
fn low_confidence(targets: &[TargetStatus]) -> Said {
    let doubts = targets.iter().filter_map(|target| {
        let doubt = target.readings.as_ref()?.low_confidence.as_ref()?;
        Some(format!("{} ({doubt})", target.name))
    });
    let doubts: Vec<String> = doubts.collect();
    let (status, reason, message) = if doubts.is_empty() {
        (
            false,
            ConditionReason::EnoughData,
            "Every delay is backed by enough data".to_owned(),
        )
    } else {
        (
            true,
            ConditionReason::LittleData,
            words::concerned(&doubts, targets.len(), "targets"),
        )
    };
    Said {
        type_: ConditionType::LowConfidence,
        status,
        reason: reason.as_str(),
        message,
    }
}

/// Told from the statuses, whose diagnoses have the numbers of when they were found, so that no reading moves it. Nothing is
/// said while nothing is decided.
fn effective(targets: &[TargetStatus]) -> Option<Said> {
    let said = |status, reason, message| Said {
        type_: ConditionType::Effective,
        status,
        reason,
        message,
    };
    if targets.is_empty() {
        return None;
    }
    let diagnosed = |target: &TargetStatus| {
        let found = target.diagnoses.iter().map(|diagnosis| {
            let message = diagnosis.message.as_deref().unwrap_or_default();
            format!("{} ({}: {message})", target.name, diagnosis.reason)
        });
        found.collect::<Vec<_>>()
    };
    let found: Vec<String> = targets.iter().flat_map(diagnosed).collect();
    let worst = DiagnosisReason::ALL.iter().find(|known| {
        let mut all = targets.iter().flat_map(|target| &target.diagnoses);
        all.any(|diagnosis| diagnosis.reason == known.as_str())
    });
    Some(match worst {
        None => said(
            true,
            ConditionReason::AsExpected.as_str(),
            "Nothing is known that speaks against hedging".to_owned(),
        ),
        Some(worst) => {
            let concerned = targets
                .iter()
                .filter(|target| !target.diagnoses.is_empty())
                .count();
            let named = words::first_few(&found);
            let of = targets.len();
            said(
                false,
                worst.as_str(),
                format!("{concerned} of {of} targets gain less by hedging than they could: {named}"),
            )
        }
    })
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.map(str::to_owned).collect()
}
