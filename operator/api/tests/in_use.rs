//! Defaults: those that the schema writes out, and those that follow from other fields.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail as a test may")]

use std::time::Duration;

use hedgerow_api::{HedgePolicySpec, Unit, decode_spec};
use serde_json::{Value, json};

/// The smallest useful policy.
fn smallest() -> Value {
    json!({
        "targets": [{
            "name": "shard-read",
            "idempotent": true,
            "latency": { "metric": "shard_read_duration_seconds", "measures": "LogicalCall" },
            "saturation": { "signals": [{ "name": "queue", "metric": "shard_queue_depth", "offAbove": "50" }] }
        }],
        "publish": [{ "configMap": "kb-hedging", "key": "shard-read.json", "targets": [{ "name": "shard-read" }] }]
    })
}

fn with(pointer: &str, name: &str, value: Value) -> HedgePolicySpec {
    let mut spec = smallest();
    spec.pointer_mut(pointer).unwrap()[name] = value;
    decode_spec(&spec).unwrap()
}

const SPEC: &str = "";
const TARGET: &str = "/targets/0";
const LATENCY: &str = "/targets/0/latency";
const SIGNAL: &str = "/targets/0/saturation/signals/0";

/// As an API server answers to the same spec.
#[test]
fn plain_defaults_are_written_out() {
    let spec = decode_spec(&smallest()).unwrap();
    assert_eq!(
        serde_json::to_value(spec).unwrap(),
        json!({
            "mode": "Enforce",
            "source": "default",
            "interval": "30s",
            "saturationInterval": "5s",
            "maxStaleness": "5m",
            "expiry": "1h",
            "targets": [{
                "name": "shard-read",
                "idempotent": true,
                "latency": {
                    "metric": "shard_read_duration_seconds",
                    "measures": "LogicalCall",
                    "losersRunOn": false,
                    "window": "10m",
                    "maxWindow": "1h"
                },
                "delay": { "percentile": "95", "min": "1ms", "add": "0ms", "plateau": "Follow" },
                "budget": {
                    "percent": "10",
                    "maxAttempts": 2,
                    "perClient": { "maxConcurrent": 100, "minPerSecond": "0" }
                },
                "saturation": {
                    "signals": [{ "name": "queue", "metric": "shard_queue_depth", "offAbove": "50" }],
                    "maxUnknown": "90s",
                    "cooldown": "2m",
                    "rampStep": "2m"
                },
                "noBenefit": "Report"
            }],
            "publish": [{
                "configMap": "kb-hedging",
                "key": "shard-read.json",
                "format": "Hedgerow",
                "targets": [{ "name": "shard-read" }]
            }]
        })
    );
}

#[test]
fn a_delay_is_held_for_at_least_two_intervals() {
    let held = |interval: &str| {
        with(SPEC, "interval", json!(interval))
            .max_staleness_in_use()
            .unwrap()
    };
    assert_eq!(held("30s"), Duration::from_secs(300));
    assert_eq!(held("10m"), Duration::from_secs(1200));
}

#[test]
fn the_longest_delay_is_the_said_one_else_the_deadline_else_ten_seconds() {
    let max = |spec: HedgePolicySpec| spec.targets[0].delay_max_in_use().unwrap();
    assert_eq!(max(decode_spec(&smallest()).unwrap()), Duration::from_secs(10));
    assert_eq!(max(with(TARGET, "deadline", json!("1s"))), Duration::from_secs(1));
    assert_eq!(
        max(with(TARGET, "delay", json!({ "max": "700ms" }))),
        Duration::from_millis(700)
    );
}

/// 20 / (1 - q), worked out by hand.
#[test]
fn a_window_needs_twenty_samples_in_the_tail() {
    for (percentile, needed) in [
        ("50", 40),
        ("90", 200),
        ("95", 400),
        ("97", 667),
        ("99", 2000),
        ("99.9", 20_000),
        ("99.99", 200_000),
    ] {
        let target = &with(TARGET, "delay", json!({ "percentile": percentile })).targets[0];
        assert_eq!(target.min_samples_in_use(), Ok(needed), "{percentile}");
        assert_eq!(target.has_few_samples(), Ok(false), "{percentile}");
    }
}

#[test]
fn fewer_samples_than_the_percentile_needs_are_taken_and_known_to_be_few() {
    let samples = |said: i32| {
        let target = &with(LATENCY, "minSamples", json!(said)).targets[0];
        (
            target.min_samples_in_use().unwrap(),
            target.has_few_samples().unwrap(),
        )
    };
    assert_eq!(samples(100), (100, true));
    assert_eq!(samples(399), (399, true));
    assert_eq!(samples(400), (400, false));
}

#[test]
fn the_quantile_is_the_percentile_as_a_share() {
    let delay = &with(TARGET, "delay", json!({ "percentile": "99.9" })).targets[0].delay;
    assert!((delay.quantile().unwrap() - 0.999).abs() < 1e-12);
}

#[test]
fn the_unit_is_the_said_one_else_what_the_name_ends_in() {
    for (metric, unit) in [
        ("a_seconds", Unit::Seconds),
        ("a_milliseconds", Unit::Milliseconds),
        ("a_ms", Unit::Milliseconds),
        ("a_microseconds", Unit::Microseconds),
        ("a_us", Unit::Microseconds),
        ("a_usec", Unit::Microseconds),
    ] {
        assert_eq!(
            with(LATENCY, "metric", json!(metric)).targets[0]
                .latency
                .unit_in_use(),
            Some(unit),
            "{metric}"
        );
    }
    assert_eq!(
        with(LATENCY, "unit", json!("Milliseconds")).targets[0]
            .latency
            .unit_in_use(),
        Some(Unit::Milliseconds)
    );
}

#[test]
fn hedging_may_come_back_under_seven_tenths_of_the_line() {
    for (off_above, on_below) in [("50", 35.0), ("0.01", 0.007), ("3", 2.1)] {
        let signal = &with(SIGNAL, "offAbove", json!(off_above)).targets[0]
            .saturation
            .signals[0];
        let line = signal.on_below_in_use().unwrap().unwrap();
        assert!((line - on_below).abs() < 1e-12, "{off_above}: {line}");
    }
    let said = &with(SIGNAL, "onBelow", json!("20")).targets[0].saturation.signals[0];
    assert_eq!(said.on_below_in_use(), Ok(Some(20.0)));
}

#[test]
fn a_rate_is_taken_over_two_minutes_unless_said() {
    let spec = decode_spec(&smallest()).unwrap();
    assert_eq!(
        spec.targets[0].saturation.signals[0].window_in_use(),
        Ok(Duration::from_secs(120))
    );
}
