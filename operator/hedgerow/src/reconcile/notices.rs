//! What is worth an event: transitions, never a state that lasts. Pure.

use hedgerow_api::{ConditionReason, ConditionType, HedgePolicyStatus, TargetState, TargetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::cluster::{Change, NamespacedName, Notice, Severity, WriteError};

/// The events that follow from how two statuses of one policy differ.
pub(super) fn notices(before: &HedgePolicyStatus, after: &HedgePolicyStatus) -> Vec<Notice> {
    let mut notices: Vec<Notice> = after
        .targets
        .iter()
        .filter_map(|target| changed(before, target))
        .collect();
    let told = [
        ConditionType::Ready,
        ConditionType::SignalsAvailable,
        ConditionType::Effective,
    ];
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

/// The API server does not take the status of a policy, so that people see none.
pub(super) fn status_refused(why: &WriteError) -> Notice {
    Notice {
        severity: Severity::Warning,
        reason: "StatusRefused",
        action: "Reconcile",
        note: format!("the status cannot be told: {why}; apply the policy again as it is documented"),
    }
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
    if told_elsewhere(&is) || was.as_ref().is_some_and(told_elsewhere) {
        return None;
    }
    let is_known = |condition: &Condition| condition.reason != ConditionReason::Pending.as_str();
    let is_true = is.status == "True";
    let news = match was.filter(is_known) {
        Some(was) => was.status != is.status,
        // That all is well from the first is none.
        None => !is_true,
    };
    if !news || !is_known(&is) {
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
            ConditionType::Effective if is_true => "Effective",
            ConditionType::Effective => "NotEffective",
            _ if is_true => "SignalsAvailable",
            _ => "SignalsUnknown",
        },
        action: "Reconcile",
        note: format!("{}: {}", is.reason, is.message),
    })
}

#[cfg(test)]
mod tests {
    use hedgerow_api::Change as HistoryChange;
    use hedgerow_tuner::Timestamp;

    use super::*;
    use crate::words;

    fn condition(type_: ConditionType, status: &str, reason: &str) -> Condition {
        Condition {
            type_: type_.as_str().to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: "numbers".to_owned(),
            observed_generation: None,
            last_transition_time: words::time(Timestamp::default()),
        }
    }

    fn told(state: TargetState, to: &str, reason: &str) -> HedgePolicyStatus {
        let change = HistoryChange {
            to: Some(to.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some("queue 80, off above 50".to_owned()),
            ..HistoryChange::default()
        };
        let target = TargetStatus {
            name: "shard-read".to_owned(),
            state: Some(state.as_str().to_owned()),
            history: vec![change],
            ..TargetStatus::default()
        };
        HedgePolicyStatus {
            targets: vec![target],
            ..HedgePolicyStatus::default()
        }
    }

    fn with(type_: ConditionType, status: &str, reason: &str) -> HedgePolicyStatus {
        HedgePolicyStatus {
            conditions: vec![condition(type_, status, reason)],
            ..HedgePolicyStatus::default()
        }
    }

    #[test]
    fn going_off_is_a_warning_with_the_numbers() {
        let (on, off) = (
            told(TargetState::Hedging, "512ms, 10%", "Tuned"),
            told(TargetState::NotHedging, "off", "Saturated"),
        );
        let notices = notices(&on, &off);
        assert_eq!(notices.len(), 1);
        assert_eq!(
            (notices[0].severity, notices[0].reason),
            (Severity::Warning, "Saturated")
        );
        assert!(
            notices[0]
                .note
                .starts_with("shard-read: nothing -> off: queue 80"),
            "{}",
            notices[0].note
        );
    }

    #[test]
    fn a_state_that_lasts_is_no_event() {
        let off = told(TargetState::NotHedging, "off", "Saturated");
        assert_eq!(notices(&off, &off), []);
        let ready = with(ConditionType::Ready, "False", "NameConflict");
        assert_eq!(notices(&ready, &ready), []);
    }

    #[test]
    fn a_policy_that_becomes_ready_for_the_first_time_is_no_news() {
        let (pending, ready) = (
            with(ConditionType::Ready, "Unknown", "Pending"),
            with(ConditionType::Ready, "True", "Published"),
        );
        assert_eq!(notices(&pending, &ready), []);
    }

    #[test]
    fn signals_are_told_once_they_were_read() {
        let signals = |status, reason| with(ConditionType::SignalsAvailable, status, reason);
        let unread = signals("False", "Pending");
        assert_eq!(notices(&HedgePolicyStatus::default(), &unread), []);
        assert_eq!(notices(&unread, &signals("True", "Fresh")), []);
        assert_eq!(
            notices(&unread, &signals("False", "MetricNotFound"))[0].reason,
            "SignalsUnknown"
        );
    }

    #[test]
    fn a_diagnosis_is_a_warning_once_and_its_end_is_told() {
        let (effective, not) = (
            with(ConditionType::Effective, "True", "AsExpected"),
            with(ConditionType::Effective, "False", "SlowTogether"),
        );
        let found = notices(&effective, &not);
        assert_eq!(
            (found[0].severity, found[0].reason),
            (Severity::Warning, "NotEffective")
        );
        assert!(found[0].note.starts_with("SlowTogether: "), "{}", found[0].note);
        assert_eq!(notices(&not, &not), []);
        assert_eq!(notices(&not, &effective)[0].reason, "Effective");
        assert_eq!(notices(&HedgePolicyStatus::default(), &effective), []);
    }

    #[test]
    fn losing_readiness_is_a_warning() {
        let (ready, not) = (
            with(ConditionType::Ready, "True", "Published"),
            with(ConditionType::Ready, "False", "NameConflict"),
        );
        let notices = notices(&ready, &not);
        assert_eq!(
            (notices[0].severity, notices[0].reason),
            (Severity::Warning, "NotReady")
        );
    }

    #[test]
    fn a_source_that_fails_is_not_told_for_each_policy() {
        let (fresh, failing) = (
            with(ConditionType::SignalsAvailable, "True", "Fresh"),
            with(ConditionType::SignalsAvailable, "False", "SourceFailing"),
        );
        assert_eq!(notices(&fresh, &failing), []);
        assert_eq!(notices(&failing, &fresh), []);
    }

    #[test]
    fn an_edit_that_was_put_back_names_the_editor() {
        let editor = Change::PutBack {
            editor: Some("kubectl-edit".to_owned()),
        };
        let notice = put_right(&NamespacedName::new("helpdesk", "kb-hedging"), &editor).unwrap();
        assert!(notice.note.contains("kubectl-edit") && notice.note.contains("helpdesk/kb-hedging"));
    }
}
