//! What is worth an event: transitions, never a state that lasts. Pure.

use hedgerow_api::{ConditionReason, ConditionType, HedgePolicyStatus, TargetState, TargetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::cluster::{Change, NamespacedName, Notice, Severity};

/// The events that follow from how two statuses of one policy differ.
pub(super) fn notices(before: &HedgePolicyStatus, after: &HedgePolicyStatus) -> Vec<Notice> {
    let mut notices: Vec<Notice> = after
        .targets
        .iter()
        .filter_map(|target| changed(before, target))
        .collect();
    let told = [ConditionType::Ready, ConditionType::SignalsAvailable];
    notices.extend(told.into_iter().filter_map(|type_| flipped(type_, before, after)));
    notices
}

/// A ConfigMap was put right that somebody else had changed, or that another policy had written.
pub(super) fn put_right(name: &NamespacedName, change: &Change) -> Option<Notice> {
    let (severity, reason, note) = match change {
        Change::PutBack { editor } => (
            Severity::Warning,
            "PutBack",
            format!(
                "ConfigMap {name} was edited by {} and put back; change the policy instead",
                editor.as_deref().unwrap_or("somebody")
            ),
        ),
        Change::TakenOver => (
            Severity::Normal,
            "TakenOver",
            format!("ConfigMap {name} is taken over from a policy that is gone"),
        ),
        _ => return None,
    };
    Some(Notice {
        severity,
        reason,
        action: "Publish",
        note,
    })
}

/// Clients of a target are told something else than before.
fn changed(before: &HedgePolicyStatus, target: &TargetStatus) -> Option<Notice> {
    let known = before.targets.iter().find(|known| known.name == target.name);
    let change = target
        .history
        .first()
        .filter(|change| known.and_then(|known| known.history.first()) != Some(*change))?;
    let reason = hedgerow_tuner::Reason::ALL
        .iter()
        .find(|known| Some(known.as_str()) == change.reason.as_deref())?;
    let was_hedged =
        known.is_some_and(|known| known.state.as_deref() != Some(TargetState::NotHedging.as_str()));
    let is_hedged = target.state.as_deref() != Some(TargetState::NotHedging.as_str());
    Some(Notice {
        severity: if was_hedged && !is_hedged {
            Severity::Warning
        } else {
            Severity::Normal
        },
        reason: reason.as_str(),
        action: "Decide",
        note: format!(
            "{}: {} -> {}: {}",
            target.name,
            change.from.as_deref().unwrap_or("nothing"),
            change.to.as_deref().unwrap_or_default(),
            change.message.as_deref().unwrap_or_default()
        ),
    })
}

fn flipped(type_: ConditionType, before: &HedgePolicyStatus, after: &HedgePolicyStatus) -> Option<Notice> {
    let find = |status: &HedgePolicyStatus| {
        status
            .conditions
            .iter()
            .find(|known| known.type_ == type_.as_str())
            .cloned()
    };
    let (was, is): (Option<Condition>, Condition) = (find(before), find(after)?);
    // A source that fails is told once, on the operator's pod, and not for each policy.
    let told_elsewhere = |condition: &Condition| condition.reason == ConditionReason::SourceFailing.as_str();
    if told_elsewhere(&is)
        || was
            .as_ref()
            .is_some_and(|was| told_elsewhere(was) || was.status == is.status)
    {
        return None;
    }
    let is_true = is.status == "True";
    if was.is_none_or(|was| was.status == "Unknown") && is_true {
        return None;
    }
    Some(Notice {
        severity: if is_true {
            Severity::Normal
        } else {
            Severity::Warning
        },
        reason: match type_ {
            ConditionType::Ready if is_true => "Ready",
            ConditionType::Ready => "NotReady",
            _ if is_true => "SignalsAvailable",
            _ => "SignalsUnknown",
        },
        action: "Reconcile",
        note: format!("{}: {}", is.reason, is.message),
    })
}
