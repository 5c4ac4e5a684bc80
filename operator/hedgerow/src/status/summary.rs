//! The policy in a line: the columns of `kubectl get`.

use hedgerow_api::{Summary, TargetState, TargetStatus};
use hedgerow_tuner::Reason;

use super::Facts;
use super::conditions::is_switched;
use crate::words;

/// The summary of the targets as their statuses tell them.
pub(super) fn summary(facts: &Facts<'_>, targets: &[TargetStatus]) -> Summary {
    let told = || {
        facts
            .targets
            .iter()
            .filter_map(|target| target.decision.orders.hedging)
    };
    Summary {
        hedging: hedging(facts, targets),
        delay: range(told().map(|hedging| hedging.delay_ms), words::millis),
        budget: range(told().map(|hedging| hedging.percent), words::percent),
        reason: Some(reason(facts).as_str().to_owned()),
    }
}

/// How many targets are hedged, of those whose clients are switched by their documents. Those that only a person or a restart
/// switches are told apart: what their clients do is not known.
fn hedging(facts: &Facts<'_>, targets: &[TargetStatus]) -> Option<String> {
    let off = TargetState::NotHedging.as_str();
    let switched = targets.iter().filter(|target| is_switched(facts, &target.name));
    let (on, off): (Vec<_>, Vec<_>) = switched.partition(|target| target.state.as_deref() != Some(off));
    let switched = on.len() + off.len();
    let by_hand = targets.len() - switched;
    match (switched, by_hand) {
        (0, 0) => None,
        (0, by_hand) => Some(format!("{by_hand} by hand")),
        (switched, 0) => Some(format!("{}/{switched}", on.len())),
        (switched, by_hand) => Some(format!("{}/{switched} +{by_hand} by hand", on.len())),
    }
}

/// The reason of the target that is worst off: the names are declared in the order of precedence.
fn reason(facts: &Facts<'_>) -> Reason {
    if let Some(refusal) = facts.refusal {
        return refusal.reason;
    }
    let reasons = facts.targets.iter().map(|target| target.decision.reason);
    reasons.min().unwrap_or(Reason::WarmingUp)
}

/// `512ms`, or `80ms-512ms` where the targets differ; none when there is nothing to tell.
fn range(values: impl Iterator<Item = f64>, say: impl Fn(f64) -> String) -> Option<String> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (say(*values.first()?), say(*values.last()?));
    Some(if least == most {
        least
    } else {
        format!("{least}-{most}")
    })
}
