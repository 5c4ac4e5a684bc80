//! What is so about each document.

use hedgerow_api::{DeliveryKind, Format, Output, OutputState, OutputStatus};

use super::{Facts, Written};
use crate::cluster::{Fault, Instead};

/// The statuses of the documents, in the order of the spec.
pub(super) fn outputs(facts: &Facts<'_>) -> Vec<OutputStatus> {
    let outputs = facts.spec.into_iter().flat_map(|spec| &spec.publish);
    outputs.map(|output| of_output(facts, output)).collect()
}

fn of_output(facts: &Facts<'_>, output: &Output) -> OutputStatus {
    let format = output.format;
    let (state, message) = written(facts, output);
    let is_written = !matches!(state, OutputState::Pending | OutputState::Refused);
    let delivery = if format.is_manual() {
        DeliveryKind::Manual
    } else if format.needs_copy() {
        DeliveryKind::ByCopy
    } else {
        DeliveryKind::Live
    };
    OutputStatus {
        config_map: output.config_map.to_string(),
        key: output.key.to_string(),
        format: Some(format.as_str().to_owned()),
        delivery: Some(delivery.as_str().to_owned()),
        expires: Some(expires(facts, format)),
        budget: (!format.has_budget()).then(|| "ByClient".to_owned()),
        state: Some(state.as_str().to_owned()),
        revision: match output.targets.as_slice() {
            [target] if is_written => revision(facts, &target.name),
            _ => None,
        },
        message: message.or_else(|| needed(format).map(str::to_owned)),
    }
}

/// Whether the document is written, and what is wrong with it.
fn written(facts: &Facts<'_>, output: &Output) -> (OutputState, Option<String>) {
    let place = (output.config_map.to_string(), output.key.to_string());
    match facts.written.get(&place.0) {
        None => (OutputState::Pending, None),
        Some(Written::Pending { message }) => (OutputState::Pending, Some(message.clone())),
        Some(Written::Refused { message, .. }) => (OutputState::Refused, Some(message.clone())),
        Some(Written::Published) => match facts.faults.get(&place) {
            None => (OutputState::Published, None),
            Some(fault) => (faulty(fault), Some(fault.message.clone())),
        },
    }
}

fn faulty(fault: &Fault) -> OutputState {
    match fault.instead {
        Instead::Nothing if fault.is_transient() => OutputState::Pending,
        Instead::Nothing => OutputState::Refused,
        Instead::OldBase => OutputState::OldBase,
        Instead::Off => OutputState::Unhedged,
    }
}

fn revision(facts: &Facts<'_>, target: &str) -> Option<i64> {
    let target = facts.targets.iter().find(|known| known.name == target)?;
    i64::try_from(target.decision.revision).ok()
}

/// Only native documents say until when they hold.
fn expires(facts: &Facts<'_>, format: Format) -> bool {
    let lasts = facts
        .spec
        .is_some_and(|spec| spec.expiry.parse().is_ok_and(|expiry| expiry.is_none()));
    format.is_native() && !lasts
}

/// What the document's clients need to take it on.
const fn needed(format: Format) -> Option<&'static str> {
    match format {
        Format::Cassandra => Some("a person has to run the statements"),
        format if format.needs_copy() => Some(
            "the client does not follow a mounted file: have a sidecar copy it into one that stays (docs/formats.md), or \
             switching off does not reach it",
        ),
        format if format.is_manual() => Some("the client needs a restart to take a change on"),
        _ => None,
    }
}
