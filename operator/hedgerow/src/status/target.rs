//! One target.

use hedgerow_api::{
    BudgetStatus, DelayStatus, DiagnosisStatus, EffectStatus, InUseStatus, ReadingState, ReadingsStatus,
    SignalStatus, TargetState, TargetStatus,
};
use hedgerow_tuner::{
    Basis, Decision, Diagnosis, LimitedBy, Rules, SignalView, Timestamp, Unknown, WindowCounts,
};

use super::{DecidedTarget, history};
use crate::{chain, words};

/// The status of a target; `notes` are what there is to know of what it reads, `before` is the status that is there.
pub(super) fn status(
    target: &DecidedTarget<'_>,
    notes: Vec<String>,
    before: Option<&TargetStatus>,
    now: Timestamp,
) -> TargetStatus {
    let mut fresh = snapshot(target, notes);
    if let Some(before) = before.filter(|before| decided_alike(&fresh, before)) {
        return before.clone();
    }
    fresh.history = history::with(&fresh, before, now);
    fresh
}

fn snapshot(target: &DecidedTarget<'_>, notes: Vec<String>) -> TargetStatus {
    let DecidedTarget {
        name,
        rules,
        decision,
    } = target;
    let hedging = decision.orders.hedging;
    let state = match hedging {
        None => TargetState::NotHedging,
        Some(hedging) if hedging.percent < rules.budget.percent => TargetState::Ramping,
        Some(_) => TargetState::Hedging,
    };
    TargetStatus {
        name: (*name).to_owned(),
        state: Some(state.as_str().to_owned()),
        reason: Some(decision.reason.as_str().to_owned()),
        message: Some(decision.message.to_string()),
        revision: i64::try_from(decision.revision).ok(),
        delay: Some(DelayStatus {
            applied: hedging.map(|hedging| words::millis(hedging.delay_ms)),
            recommended: decision.recommended_ms.map(words::millis),
            limited_by: delay_limit(decision),
            message: Some(chain::delay(rules, decision)),
        }),
        budget: Some(BudgetStatus {
            percent: hedging.map(|hedging| words::percent(hedging.percent)),
            cap: Some(words::percent(rules.budget.percent)),
            limited_by: rules
                .budget
                .limited_by_source
                .then(|| LimitedBy::Source.as_str().to_owned()),
        }),
        effect: Some(EffectStatus {
            hedge_share: decision.effect.hedge_share.map(words::share),
            win_share: decision
                .counts
                .as_ref()
                .and_then(|counts| win_share(&counts.windows))
                .map(words::share),
            miss_share_unhedged: decision.effect.miss_share_unhedged.map(words::share),
            unhedged_basis: decision.effect.unhedged_basis.map(basis),
            miss_share_hedged: decision.effect.miss_share_hedged.map(words::share),
            hedged_basis: decision.effect.hedged_basis.map(basis),
        }),
        diagnoses: decision.diagnoses.iter().map(diagnosis).collect(),
        signals: decision.signals.iter().map(signal).collect(),
        readings: Some(readings(decision)),
        in_use: Some(InUseStatus {
            notes,
            ..in_use(rules)
        }),
        history: Vec::new(),
    }
}

/// Whether two statuses tell the same decision. What moves with every reading does not count.
fn decided_alike(a: &TargetStatus, b: &TargetStatus) -> bool {
    settled(a) == settled(b)
}

/// A status without what moves with every reading.
fn settled(status: &TargetStatus) -> TargetStatus {
    let signal = |signal: &SignalStatus| SignalStatus {
        message: None,
        value: None,
        ..signal.clone()
    };
    let applied_alone = |delay: &DelayStatus| DelayStatus {
        applied: delay.applied.clone(),
        ..DelayStatus::default()
    };
    let reason_alone = |diagnosis: &DiagnosisStatus| DiagnosisStatus {
        message: None,
        ..diagnosis.clone()
    };
    let state_alone = |readings: &ReadingsStatus| ReadingsStatus {
        state: readings.state.clone(),
        reason: readings.reason.clone(),
        low_confidence: readings.low_confidence.as_ref().map(|_| String::new()),
        ..ReadingsStatus::default()
    };
    TargetStatus {
        message: None,
        delay: status.delay.as_ref().map(applied_alone),
        effect: None,
        diagnoses: status.diagnoses.iter().map(reason_alone).collect(),
        signals: status.signals.iter().map(signal).collect(),
        readings: status.readings.as_ref().map(state_alone),
        history: Vec::new(),
        ..status.clone()
    }
}

fn diagnosis(diagnosis: &Diagnosis) -> DiagnosisStatus {
    DiagnosisStatus {
        reason: diagnosis.reason.as_str().to_owned(),
        message: Some(diagnosis.message.clone()),
    }
}

fn basis(basis: Basis) -> String {
    basis.as_str().to_owned()
}

/// The share of the hedges that answered first, over the widest window in which there were any.
fn win_share(windows: &[WindowCounts]) -> Option<f64> {
    let counts = windows.iter().rfind(|counts| counts.hedges > 0.0)?;
    counts.won()
}

/// A limit of the budget is told with the budget.
fn delay_limit(decision: &Decision) -> Option<String> {
    let limit = decision.limited_by.filter(|&limit| limit != LimitedBy::Source)?;
    Some(limit.as_str().to_owned())
}

fn signal(view: &SignalView) -> SignalStatus {
    let unknown = view.unknown.as_ref();
    let waits = match (view.value, view.on_below) {
        (Some(value), Some(on_below)) if view.saturated => Some(format!(
            "{} {}, back under {}",
            view.name,
            words::number(value),
            words::number(on_below)
        )),
        _ => None,
    };
    SignalStatus {
        name: view.name.clone(),
        state: Some(reading_state(unknown).as_str().to_owned()),
        reason: unknown.map(|why| why.reason.as_str().to_owned()),
        message: unknown.map(|why| why.message.clone()).or(waits),
        saturated: Some(view.saturated),
        value: view.value.map(words::number),
        off_above: view.off_above.map(words::number),
        on_below: view.on_below.map(words::number),
        unknown_since: view.unknown_since.map(words::time),
    }
}

fn readings(decision: &Decision) -> ReadingsStatus {
    let view = &decision.latency;
    let unknown = view.unknown.as_ref();
    ReadingsStatus {
        time: view.at.map(words::time),
        state: Some(reading_state(unknown).as_str().to_owned()),
        reason: unknown.map(|why| why.reason.as_str().to_owned()),
        message: unknown.map(|why| why.message.clone()),
        low_confidence: decision.low_confidence.clone(),
        samples: view.samples.and_then(words::whole),
        window: view.window.map(words::duration),
        p50: view.p50_ms.map(words::millis),
        p95: view.p95_ms.map(words::millis),
        p99: view.p99_ms.map(words::millis),
    }
}

fn reading_state(unknown: Option<&Unknown>) -> ReadingState {
    if unknown.is_some() {
        ReadingState::Unknown
    } else {
        ReadingState::Fresh
    }
}

fn in_use(rules: &Rules) -> InUseStatus {
    // The measure is `metric/unit`.
    let measure = rules.measure.rsplit_once('/');
    InUseStatus {
        metric: measure.map(|(metric, _)| metric.to_owned()),
        measures: Some(words::measures(rules.measures).to_owned()),
        unit: measure.map(|(_, unit)| unit.to_owned()),
        min_samples: Some(rules.windows.min_samples.into()),
        delay_max: Some(words::duration(rules.delay.max)),
        max_staleness: Some(words::duration(rules.max_staleness)),
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_share_of_wins_is_of_the_widest_window_with_hedges_and_never_a_guess() {
        let counted = |minutes: u64, hedges: f64, wins: Option<f64>| WindowCounts {
            window: Duration::from_secs(60 * minutes),
            calls: 1000.0,
            hedges,
            blocked: None,
            wins,
        };
        let share = |windows: &[WindowCounts]| win_share(windows).map(words::share);
        let narrow = counted(1, 10.0, Some(1.0));
        assert_eq!(
            share(&[narrow, counted(10, 40.0, Some(30.0))]).as_deref(),
            Some("75%")
        );
        assert_eq!(share(&[narrow, counted(10, 40.0, None)]), None);
        assert_eq!(share(&[counted(10, 0.0, Some(0.0))]), None);
        assert_eq!(share(&[]), None);
    }
}
