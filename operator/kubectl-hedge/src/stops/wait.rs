//! Waits until policies are off, which is until their documents say so.

use std::collections::BTreeSet;
use std::time::Duration;

use hedgerow::cluster::PolicyKey;
use hedgerow::exit::Failure;
use hedgerow_api::{ConditionType, DeliveryKind, HedgePolicyStatus, TargetState};
use hedgerow_tuner::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use tokio::time::{Instant, sleep};

use crate::session::{Policy, Session, key};

const PAUSE: Duration = Duration::from_millis(300);

/// How far a policy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Off {
    /// It is decided, and every document says so.
    Written,
    /// It is decided, and a person has to mend what keeps a document from being written.
    Stuck(String),
    /// Not yet, and why.
    NotYet(String),
}

/// Which policies are waited for.
pub(super) enum Of<'a> {
    Policy(&'a str),
    Namespace,
    All,
}

/// Waits until each is off, and says each on standard output once it is. Fails when some are not in time.
pub(super) async fn until_off(session: &Session, of: &Of<'_>, within: Duration) -> Result<(), Failure> {
    let end = Instant::now() + within;
    let mut said: BTreeSet<PolicyKey> = BTreeSet::new();
    let mut progress = String::new();
    loop {
        let policies = concerned(session, of).await?;
        let mut waiting = Vec::new();
        let mut stuck = Vec::new();
        for policy in &policies {
            let name = key(policy);
            match off(policy) {
                Off::Written if said.insert(name.clone()) => println!("{}", written(policy)),
                Off::Written => {}
                Off::Stuck(why) => stuck.push(format!("{name}: {why}")),
                Off::NotYet(why) => waiting.push(format!("{name}: {why}")),
            }
        }
        if policies.is_empty() {
            eprintln!("there are no policies there now; the stop holds for those to come");
            return Ok(());
        }
        if waiting.is_empty() && stuck.is_empty() {
            return Ok(());
        }
        if waiting.is_empty() || Instant::now() >= end {
            let missing = [stuck, waiting].concat();
            return Err(Failure::failed(format!(
                "the stop is ordered, but {} of {} policies are not known to be off{}:\n  {}\nkubectl hedge doctor tells what \
                 is wrong",
                missing.len(),
                policies.len(),
                if Instant::now() >= end {
                    format!(" after {} s", within.as_secs())
                } else {
                    String::new()
                },
                missing.join("\n  ")
            )));
        }
        let now = format!(
            "{} of {} policies are off",
            policies.len() - waiting.len() - stuck.len(),
            policies.len()
        );
        if now != progress {
            eprintln!("waiting: {now}");
            progress = now;
        }
        sleep(PAUSE).await;
    }
}

async fn concerned(session: &Session, of: &Of<'_>) -> Result<Vec<Policy>, Failure> {
    match of {
        Of::Policy(name) => Ok(vec![session.policy(name).await?]),
        Of::Namespace => session.policies(Some(&session.namespace)).await,
        Of::All => session.policies(None).await,
    }
}

/// How far it is with a stop. A policy that is not accepted is off as well, for another reason.
pub(super) fn off(policy: &Policy) -> Off {
    let status = policy.status.clone().unwrap_or_default();
    let is_refused =
        condition(&status, ConditionType::Accepted).is_some_and(|accepted| accepted.status == "False");
    let stopped = Reason::Stopped.as_str();
    if status.targets.is_empty() && !is_refused {
        return Off::NotYet("the operator has not come to it yet".to_owned());
    }
    let target = status.targets.iter().find(|target| {
        let is_off = target.state.as_deref() == Some(TargetState::NotHedging.as_str());
        !is_off || (target.reason.as_deref() != Some(stopped) && !is_refused)
    });
    if let Some(target) = target {
        let (state, reason) = (target.state.as_deref(), target.reason.as_deref());
        let (state, reason) = (state.unwrap_or("unknown"), reason.unwrap_or("unknown"));
        return Off::NotYet(format!("{} is {state} ({reason})", target.name));
    }
    let message = |condition: &Condition| format!("{}: {}", condition.reason, condition.message);
    match condition(&status, ConditionType::Published) {
        Some(published) if published.status == "True" => Off::Written,
        // What a refused policy has published before is written off, and no condition says when that is done.
        _ if is_refused => Off::Written,
        published => {
            let why = published.map_or_else(|| "nothing is said of its documents".to_owned(), message);
            match condition(&status, ConditionType::Stalled) {
                Some(stalled) if stalled.status == "True" => Off::Stuck(why),
                _ => Off::NotYet(why),
            }
        }
    }
}

/// That a policy is off, since when, and who does not follow by himself.
fn written(policy: &Policy) -> String {
    let status = policy.status.clone().unwrap_or_default();
    if let Some(accepted) =
        condition(&status, ConditionType::Accepted).filter(|accepted| accepted.status == "False")
    {
        return format!("{} is off: it is not accepted ({})", key(policy), accepted.reason);
    }
    let changes = status.targets.iter().filter_map(|target| target.history.first());
    let stopped = changes.filter(|change| change.reason.as_deref() == Some(Reason::Stopped.as_str()));
    let at = stopped
        .filter_map(|change| change.time.as_ref())
        .max_by_key(|time| time.0);
    let at = at.map_or_else(String::new, |at| format!(" at {}", at.0));
    let documents: Vec<String> = status
        .outputs
        .iter()
        .map(|output| format!("{}/{}", output.config_map, output.key))
        .collect();
    let mut text = format!("{} is off: written{at} to {}", key(policy), documents.join(", "));
    let manual = status
        .outputs
        .iter()
        .filter(|output| output.delivery.as_deref() == Some(DeliveryKind::Manual.as_str()));
    for output in manual {
        text += &format!(
            "\n  {}/{} reaches its clients by a restart or a person, and not by itself",
            output.config_map, output.key
        );
    }
    text
}

fn condition(status: &HedgePolicyStatus, type_: ConditionType) -> Option<&Condition> {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(state: &str, reason: &str, conditions: serde_json::Value) -> Policy {
        serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "cart" }, "spec": {},
            "status": { "targets": [{ "name": "read", "state": state, "reason": reason }], "conditions": conditions },
        }))
        .unwrap()
    }

    fn said(type_: &str, status: &str, reason: &str) -> serde_json::Value {
        json!({ "type": type_, "status": status, "reason": reason, "message": "m", "lastTransitionTime": "2026-11-30T12:00:00Z" })
    }

    #[test]
    fn off_is_decided_and_written() {
        let published = json!([said("Published", "True", "Published")]);
        assert_eq!(
            off(&policy("NotHedging", "Stopped", published.clone())),
            Off::Written
        );
        for (state, reason) in [
            ("Hedging", "Tuned"),
            ("NotHedging", "Saturated"),
            ("Ramping", "Stopped"),
        ] {
            let told = off(&policy(state, reason, published.clone()));
            assert!(matches!(told, Off::NotYet(_)), "{state} {reason}: {told:?}");
        }
    }

    #[test]
    fn a_document_that_is_not_written_is_waited_for_or_said() {
        let pending = json!([said("Published", "False", "WriteFailed")]);
        assert!(matches!(
            off(&policy("NotHedging", "Stopped", pending)),
            Off::NotYet(_)
        ));
        let stuck = json!([
            said("Published", "False", "NameConflict"),
            said("Stalled", "True", "NameConflict")
        ]);
        assert_eq!(
            off(&policy("NotHedging", "Stopped", stuck)),
            Off::Stuck("NameConflict: m".to_owned())
        );
    }

    #[test]
    fn nothing_said_is_not_off() {
        let mut policy = policy("NotHedging", "Stopped", json!([]));
        assert!(matches!(off(&policy), Off::NotYet(_)));
        policy.status = None;
        assert!(matches!(off(&policy), Off::NotYet(_)));
    }
}
