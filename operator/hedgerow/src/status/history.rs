//! The last changes of what clients are told.

use hedgerow_api::{Change, TargetStatus};
use hedgerow_tuner::Timestamp;

use crate::words;

/// How many changes are kept.
const KEPT: usize = 10;

/// The history of a target whose status becomes `after`: newest first. It grows only when clients are told something else.
pub(super) fn with(after: &TargetStatus, before: Option<&TargetStatus>, now: Timestamp) -> Vec<Change> {
    let mut history = before.map_or_else(Vec::new, |before| before.history.clone());
    let (from, to) = (before.map(told), told(after));
    if from.as_ref() != Some(&to) {
        history.insert(
            0,
            Change {
                time: Some(words::time(now)),
                from,
                to: Some(to),
                reason: after.reason.clone(),
                message: after.message.clone(),
            },
        );
        history.truncate(KEPT);
    }
    history
}

/// What clients are told, in a few words: `512ms, 10%` or `off`.
fn told(status: &TargetStatus) -> String {
    let delay = status.delay.as_ref().and_then(|delay| delay.applied.as_deref());
    let percent = status
        .budget
        .as_ref()
        .and_then(|budget| budget.percent.as_deref());
    match (delay, percent) {
        (Some(delay), Some(percent)) => format!("{delay}, {percent}"),
        _ => "off".to_owned(),
    }
}
