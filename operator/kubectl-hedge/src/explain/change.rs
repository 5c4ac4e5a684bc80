//! What would have to change for a target to be decided otherwise, and what to do about what is wrong.

use hedgerow_api::{ConditionType, HedgePolicyStatus, SignalStatus, TargetState, TargetStatus};

use crate::reasons::{self, remedy};

/// What would have to change for a target.
pub(super) fn of_target(target: &TargetStatus) -> Vec<String> {
    let mut changes = Vec::new();
    let reason = target.reason.as_deref().unwrap_or_default();
    let is_off = target.state.as_deref() == Some(TargetState::NotHedging.as_str());
    if is_off && let Some(remedy) = remedy(&[reasons::DECIDED], reason) {
        changes.push(format!("{reason}: {remedy}"));
    }
    for signal in &target.signals {
        changes.extend(of_signal(signal));
    }
    let readings = target.readings.as_ref();
    if let Some(reason) = readings.and_then(|readings| readings.reason.as_deref()) {
        changes.push(unknown("the latency", reason));
    }
    if !is_off {
        if let Some(patience) = target
            .in_use
            .as_ref()
            .and_then(|in_use| in_use.max_staleness.as_deref())
        {
            changes.push(format!(
                "hedging goes off when the latency is unknown for {patience}"
            ));
        }
        let limit = target
            .delay
            .as_ref()
            .and_then(|delay| delay.limited_by.as_deref());
        if let Some((limit, remedy)) =
            limit.and_then(|limit| Some((limit, remedy(&[reasons::LIMITS], limit)?)))
        {
            changes.push(format!("the delay is limited by {limit}: {remedy}"));
        }
    }
    for diagnosis in &target.diagnoses {
        if let Some(remedy) = remedy(&[reasons::DIAGNOSED], &diagnosis.reason) {
            changes.push(format!("{}: {remedy}", diagnosis.reason));
        }
    }
    changes
}

fn of_signal(signal: &SignalStatus) -> Option<String> {
    let name = &signal.name;
    if let Some(reason) = &signal.reason {
        return Some(unknown(name, reason));
    }
    let value = signal.value.as_deref()?;
    match (signal.saturated, &signal.off_above, &signal.on_below) {
        (Some(true), Some(_), Some(on_below)) => {
            Some(format!("{name} must fall under {on_below}; it was {value}"))
        }
        (Some(true), ..) => Some(format!("{name} must stop firing")),
        (_, Some(off_above), _) => Some(format!(
            "hedging goes off when {name} is above {off_above}; it was {value}"
        )),
        (_, None, _) => Some(format!("hedging goes off when {name} fires")),
    }
}

fn unknown(what: &str, reason: &str) -> String {
    match remedy(&[reasons::UNKNOWN], reason) {
        Some(remedy) => format!("{what} must be known ({reason}): {remedy}"),
        None => format!("{what} must be known ({reason})"),
    }
}

/// Something that is wrong with a policy as a whole.
pub(crate) struct Trouble {
    /// The condition that says so.
    pub(crate) condition: ConditionType,
    /// One of the bounded names.
    pub(crate) reason: String,
    /// What is so, and what to do.
    pub(crate) text: String,
}

/// What is wrong with a policy as a whole, and what to do.
pub(crate) fn of_policy(status: &HedgePolicyStatus) -> Vec<Trouble> {
    let failed = [
        ConditionType::Accepted,
        ConditionType::Published,
        ConditionType::SignalsAvailable,
    ];
    let of = |&type_: &ConditionType| {
        let mut conditions = status.conditions.iter();
        let condition = conditions.find(|one| one.type_ == type_.as_str() && one.status == "False")?;
        let known = [reasons::OTHERS, reasons::DECIDED, reasons::UNKNOWN];
        let remedy =
            remedy(&known, &condition.reason).map_or_else(String::new, |remedy| format!(". To do: {remedy}"));
        Some(Trouble {
            condition: type_,
            reason: condition.reason.clone(),
            text: format!(
                "{type_} is False, {}: {}{remedy}",
                condition.reason, condition.message
            ),
        })
    };
    failed.iter().filter_map(of).collect()
}
