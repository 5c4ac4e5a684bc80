//! What turns hedging off, and the reason that is told.

use crate::saturation::Saturation;
use crate::switch::Phase;
use crate::{Diagnosis, DiagnosisReason, Message, Mode, Readings, Reason, Rules, Stop};

/// What turns hedging off whatever latency says, by precedence.
pub(super) fn halted(rules: &Rules, readings: &Readings, saturation: &Saturation) -> Option<Reason> {
    let stop = readings.stop.as_ref().map(Stop::reason);
    if stop == Some(Reason::Stopped) || rules.mode == Mode::Disabled {
        Some(Reason::Stopped)
    } else if stop.is_some() {
        stop
    } else if rules.fault().is_some() {
        Some(Reason::Invalid)
    } else if saturation.is_above() {
        Some(Reason::Saturated)
    } else if saturation.is_blind() {
        Some(Reason::SaturationUnknown)
    } else {
        None
    }
}

/// Whether this turns hedging off whatever is read.
pub(super) const fn is_forced(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Stopped | Reason::Invalid | Reason::SourceNotAvailable
    )
}

/// The decision's reason.
pub(super) fn reason(mode: Mode, blocker: Option<Reason>, phase: Phase, latency_known: bool) -> Reason {
    match (blocker, phase) {
        (Some(Reason::LatencyUnknown), phase) if phase.is_first() => Reason::WarmingUp,
        (Some(reason), _) if is_forced(reason) || reason == Reason::Saturated => reason,
        (_, phase) if phase.is_saturated() => Reason::Saturated,
        (Some(reason), _) => reason,
        (None, Phase::Off { first: true, .. }) => Reason::WarmingUp,
        (None, Phase::Off { .. }) => Reason::CoolingDown,
        (None, _) if mode == Mode::Observe => Reason::Observing,
        (None, _) if !latency_known => Reason::Held,
        (None, Phase::Ramping { .. }) => Reason::Ramping,
        (None, Phase::Full { .. }) => Reason::Tuned,
    }
}

/// What is said of hedges that do not win, when that keeps hedging off.
pub(super) fn no_benefit(reason: Reason, diagnoses: &[Diagnosis]) -> Option<Message> {
    let said = diagnoses
        .iter()
        .find(|diagnosis| diagnosis.reason == DiagnosisReason::NoBenefit);
    said.filter(|_| reason == Reason::NoBenefit)
        .map(|diagnosis| diagnosis.message.clone().into())
}
