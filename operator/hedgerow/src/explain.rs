//! Why a target is hedged as it is: the last readings and the chain to the decision, as JSON for people who look.

use hedgerow_tuner::{Decision, SignalValue, SwitchState, Timestamp, Unknown};
use serde_json::{Value, json};

use crate::chain::chain;
use crate::index::TargetView;
use crate::words;

/// The explanation of a policy's targets.
pub(crate) fn explain(policy: &str, targets: &[TargetView]) -> Value {
    let targets: Vec<Value> = targets.iter().map(explain_target).collect();
    json!({ "policy": policy, "targets": targets })
}

fn explain_target(target: &TargetView) -> Value {
    json!({
        "target": target.name,
        "readings": { "latency": latency(target), "counters": counters(target), "saturation": saturation(target), "stop": target.readings.stop.as_ref().map(|stop| &stop.message) },
        "decision": target.decision.as_ref().map(decision),
        "chain": target.decision.as_ref().map(|decision| chain(&target.query, &target.rules, decision)),
        "memory": target.memory,
    })
}

fn latency(target: &TargetView) -> Value {
    let Some(latency) = &target.readings.latency else {
        return Value::Null;
    };
    windows(latency.at, &latency.windows, |window| {
        json!({
            "window": words::duration(window.window),
            "samples": window.distribution.as_ref().ok().map(hedgerow_tuner::Histogram::count),
            "unknown": window.distribution.as_ref().err().map(ToString::to_string),
            "cancelled": window.cancelled.as_ref().map(hedgerow_tuner::Histogram::count),
            "timeouts": window.timeouts,
            "caveat": window.caveat,
        })
    })
}

fn counters(target: &TargetView) -> Value {
    let Some(counts) = &target.readings.counts else {
        return Value::Null;
    };
    windows(counts.at, &counts.windows, |window| {
        json!({
            "window": words::duration(window.window),
            "calls": window.calls,
            "hedges": window.hedges,
            "blocked": window.blocked,
            "wins": window.wins,
        })
    })
}

fn windows<T>(at: Timestamp, read: &Result<Vec<T>, Unknown>, tell: impl Fn(&T) -> Value) -> Value {
    match read {
        Err(why) => json!({ "at": time(at), "unknown": why.to_string() }),
        Ok(windows) => json!({ "at": time(at), "windows": windows.iter().map(tell).collect::<Vec<_>>() }),
    }
}

fn saturation(target: &TargetView) -> Vec<Value> {
    let rules = target.rules.switch.signals.iter();
    rules
        .zip(&target.readings.signals)
        .map(|(rule, signal)| {
            let Some(signal) = signal else {
                return json!({ "name": rule.name });
            };
            let (series, alert) = match &signal.value {
                Ok(SignalValue::Series(series)) => (Some(series), None),
                Ok(SignalValue::Alert(alert)) => (None, Some(format!("{alert:?}"))),
                Err(_) => (None, None),
            };
            json!({
                "name": rule.name,
                "at": time(signal.at),
                "scrapeInterval": signal.scrape_interval.map(words::duration),
                "series": series,
                "alert": alert,
                "unknown": signal.value.as_ref().err().map(ToString::to_string),
            })
        })
        .collect()
}

fn decision(decision: &Decision) -> Value {
    let hedging = decision.orders.hedging;
    let switch = match decision.switch {
        SwitchState::Closed => json!({ "state": "Closed" }),
        SwitchState::Open { since, until } => {
            json!({ "state": "Open", "since": time(since), "until": until.map(time) })
        }
        SwitchState::Ramping { since, share } => {
            json!({ "state": "Ramping", "since": time(since), "share": share })
        }
    };
    let signals: Vec<Value> = decision
        .signals
        .iter()
        .map(|signal| {
            json!({
                "name": signal.name,
                "value": signal.value,
                "unknown": signal.unknown.as_ref().map(ToString::to_string),
                "offAbove": signal.off_above,
                "onBelow": signal.on_below,
                "saturated": signal.saturated,
            })
        })
        .collect();
    let diagnoses: Vec<Value> = decision
        .diagnoses
        .iter()
        .map(|diagnosis| json!({ "reason": diagnosis.reason.as_str(), "message": diagnosis.message }))
        .collect();
    json!({
        "revision": decision.revision,
        "enabled": hedging.is_some(),
        "told": decision.orders.reason.as_str(),
        "reason": decision.reason.as_str(),
        "message": decision.message.to_string(),
        "delayMs": hedging.map(|hedging| hedging.delay_ms),
        "recommendedMs": decision.recommended_ms,
        "limitedBy": decision.limited_by.map(|limit| limit.as_str()),
        "budgetPercent": hedging.map(|hedging| hedging.percent),
        "lowConfidence": decision.low_confidence,
        "diagnoses": diagnoses,
        "latency": {
            "unknown": decision.latency.unknown.as_ref().map(ToString::to_string),
            "samples": decision.latency.samples,
            "p50Ms": decision.latency.p50_ms,
            "p95Ms": decision.latency.p95_ms,
            "p99Ms": decision.latency.p99_ms,
            "percentileMs": decision.latency.percentile_ms,
            "window": decision.latency.window.map(words::duration),
        },
        "saturation": signals,
        "switch": switch,
    })
}

fn time(at: Timestamp) -> String {
    words::time(at).0.to_string()
}
