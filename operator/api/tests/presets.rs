//! Presets: what they stand for, and that the schema knows the same of them.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail as a test may")]

use std::collections::BTreeSet;

use hedgerow_api::preset::{KnownValue, LATENCY, LatencyPreset, SIGNALS, SignalPreset};
use hedgerow_api::{HedgePolicySpec, Measures, Target, crd, decode_spec};
use serde_json::{Value, json};

fn spec(latency: Value, signal: Value) -> Value {
    json!({
        "targets": [{
            "name": "shard-read",
            "idempotent": true,
            "latency": latency,
            "delay": { "add": "1ms" },
            "saturation": { "signals": [signal] },
        }],
        "publish": [{ "configMap": "kb-hedging", "key": "shard-read.json", "targets": [{ "name": "shard-read" }] }],
    })
}

fn queue() -> Value {
    json!({ "name": "queue", "metric": "shard_queue_depth", "offAbove": "50" })
}

/// The one target of a policy with this preset, which the API accepts.
fn with_latency(preset: &LatencyPreset) -> Target {
    let latency = json!({
        "preset": preset.name, "matchLabels": { "index": "kb" }, "losersRunOn": preset.hides_cancelled(),
    });
    decoded(spec(latency, queue()))
}

fn with_signal(preset: &SignalPreset) -> Target {
    let latency = json!({ "metric": "shard_read_duration_seconds", "measures": "LogicalCall" });
    let signal = json!({ "name": "queue", "preset": preset.name, "matchLabels": { "cluster": "kb" } });
    decoded(spec(latency, signal))
}

fn decoded(spec: Value) -> Target {
    let spec: HedgePolicySpec = decode_spec(&spec).unwrap();
    spec.targets.into_iter().next().unwrap()
}

/// A target that names no preset, as a person could have written it: the API accepts it, and reads the same from it.
fn by_hand(target: &Target) -> Target {
    let written = target.written_out().into_owned();
    let mut spec = spec(json!({}), json!({}));
    spec["targets"][0] = serde_json::to_value(&written).unwrap();
    let again = decoded(spec);
    assert_eq!(again, written);
    again
}

#[test]
fn a_preset_of_latency_is_what_a_person_could_have_written() {
    for preset in LATENCY {
        let target = by_hand(&with_latency(preset));
        let latency = &target.latency;
        assert_eq!(latency.preset, None, "{}", preset.name);
        assert_eq!(latency.metric.as_deref(), Some(preset.metric));
        assert_eq!(
            (latency.unit, latency.measures),
            (Some(preset.unit), Some(preset.measures))
        );
        let labels = latency.match_labels.to_strings();
        assert_eq!(labels["index"], "kb");
        for (label, value) in preset.labels {
            assert_eq!(labels[*label], *value, "{}", preset.name);
        }
        let cancelled = latency.outcomes.as_ref().map(|outcomes| outcomes.cancelled.len());
        assert_eq!(
            cancelled,
            preset.outcomes.as_ref().map(|known| known.cancelled.len())
        );
    }
}

#[test]
fn a_preset_of_a_signal_is_what_a_person_could_have_written() {
    for preset in SIGNALS {
        let target = by_hand(&with_signal(preset));
        let signal = &target.saturation.signals[0];
        assert_eq!(
            signal.off_above.as_deref(),
            Some(preset.off_above),
            "{}",
            preset.name
        );
        assert_eq!(signal.match_labels.to_strings()["cluster"], "kb");
        match preset.value {
            KnownValue::Gauge(metric) => assert_eq!(signal.metric.as_deref(), Some(metric)),
            KnownValue::Share { of, per } => {
                assert_eq!(signal.rate_of.as_deref(), Some(of));
                let divisor = signal.per.as_ref().unwrap();
                assert_eq!(&*divisor.rate_of, per);
                assert_eq!(
                    divisor.match_labels, signal.match_labels,
                    "a share of the same series"
                );
                assert_eq!(divisor.match_expressions, signal.match_expressions);
            }
        }
    }
}

#[test]
fn what_a_policy_says_beside_a_preset_stays() {
    let timeouts = json!({ "rateOf": "own_timeouts_total" });
    let latency = json!({ "preset": "EnvoyUpstream", "timeouts": timeouts, "window": "5m" });
    let signal = json!({ "name": "cpu", "preset": "CpuThrottling", "offAbove": "0.5", "onBelow": "0.1", "atLeast": 3 });
    let target = decoded(spec(latency, signal)).written_out().into_owned();
    assert_eq!(&*target.latency.timeouts.unwrap().rate_of, "own_timeouts_total");
    assert_eq!(&*target.latency.window, "5m");
    let signal = &target.saturation.signals[0];
    assert_eq!(
        (
            signal.off_above.as_deref(),
            signal.on_below.as_deref(),
            signal.at_least
        ),
        (Some("0.5"), Some("0.1"), Some(3))
    );
}

#[test]
fn timeouts_and_counters_of_a_preset_are_of_the_same_series() {
    let written = |preset: &str| {
        let latency = json!({
            "preset": preset, "matchLabels": { "index": "kb" },
            "matchExpressions": [{ "key": "zone", "operator": "Exists" }],
        });
        decoded(spec(latency, queue())).written_out().into_owned()
    };
    let envoy = written("EnvoyUpstream");
    let timeouts = envoy.latency.timeouts.as_ref().unwrap();
    assert_eq!(&*timeouts.rate_of, "envoy_cluster_upstream_rq_timeout");
    assert_eq!(timeouts.match_labels, envoy.latency.match_labels);
    assert_eq!(timeouts.match_expressions, envoy.latency.match_expressions);
    let own = written("HedgerowClient");
    let counters = own.hedging.as_ref().unwrap();
    for counter in [
        Some(&counters.calls),
        Some(&counters.hedges),
        counters.blocked.as_ref(),
        counters.wins.as_ref(),
    ] {
        let counter = counter.unwrap();
        assert!(
            counter.rate_of.starts_with("hedgerow_client_"),
            "{}",
            counter.rate_of
        );
        assert_eq!(counter.match_labels, own.latency.match_labels);
    }
    assert_eq!(written("GrpcClient").hedging, None);
}

#[test]
fn a_target_without_presets_is_as_it_is() {
    let latency = json!({ "metric": "shard_read_duration_seconds", "measures": "LogicalCall" });
    let target = decoded(spec(latency, queue()));
    assert_eq!(*target.written_out(), target);
}

#[test]
fn a_metric_named_by_hand_has_the_preset_that_fits() {
    for (metric, preset) in [
        ("grpc_client_attempt_duration_seconds", Some("GrpcAttempt")),
        ("istio_request_duration_milliseconds", Some("Istio")),
        ("shard_read_duration_seconds", None),
    ] {
        assert_eq!(
            LatencyPreset::of_metric(metric).map(|preset| preset.name),
            preset,
            "{metric}"
        );
    }
    let throttled = SignalPreset::of_metric("container_cpu_cfs_throttled_periods_total").unwrap();
    assert_eq!(throttled.name, "CpuThrottling");
}

/// The rules of the schema, as one text.
fn rules() -> String {
    serde_json::to_string(&crd()).unwrap()
}

/// The names in the list that follows `start` in the rules of the schema.
fn listed_after(rules: &str, start: &str) -> BTreeSet<String> {
    let (_, rest) = rules.split_once(start).unwrap();
    let (list, _) = rest.split_once(']').unwrap();
    list.split(", ")
        .map(|name| name.trim_matches('\'').to_owned())
        .collect()
}

fn named(presets: impl Iterator<Item = &'static str>) -> BTreeSet<String> {
    presets.map(str::to_owned).collect()
}

#[test]
fn the_rules_of_the_schema_name_the_presets_that_they_are_about() {
    let rules = rules();
    let that = |holds: fn(&LatencyPreset) -> bool| {
        named(
            LATENCY
                .iter()
                .filter(|preset| holds(preset))
                .map(|preset| preset.name),
        )
    };
    assert_eq!(
        listed_after(&rules, "!(self.latency.preset in ["),
        that(|preset| preset.at_server)
    );
    assert_eq!(
        listed_after(&rules, "(has(self.preset) && self.preset in ["),
        that(|preset| preset.measures == Measures::Attempt)
    );
    assert_eq!(
        listed_after(&rules, "!has(self.preset) || !(self.preset in ["),
        that(LatencyPreset::hides_cancelled)
    );
    let (before, _) = rules.split_once("|| !('type' in self.matchLabels)").unwrap();
    let (_, signal_rule) = before.rsplit_once("!(self.preset").unwrap();
    let pinning = SIGNALS
        .iter()
        .filter(|preset| preset.own_labels().next().is_some());
    assert!(pinning.clone().all(|preset| preset.own_labels().eq(["type"])));
    assert_eq!(
        listed_after(signal_rule, " in ["),
        named(pinning.map(|preset| preset.name))
    );
    assert_eq!(
        that(|preset| preset.hedging.is_some()),
        BTreeSet::from(["HedgerowClient".to_owned()])
    );
}

#[test]
fn the_rules_of_the_schema_know_each_label_of_a_preset() {
    let rules = rules();
    let (_, rest) = rules.split_once("!has(self.preset) || [[").unwrap();
    let (pairs, _) = rest.split_once("]].all(").unwrap();
    let pairs: BTreeSet<String> = pairs.split("], [").map(str::to_owned).collect();
    let owned = LATENCY.iter().flat_map(|preset| {
        preset
            .own_labels()
            .map(move |label| format!("'{}', '{label}'", preset.name))
    });
    assert_eq!(pairs, owned.collect());
}

/// Outcomes of a Kubernetes list type "set" are distinct, and at most 16.
#[test]
fn names_and_outcomes_are_distinct_and_every_preset_says_what_it_is() {
    let names = LATENCY
        .iter()
        .map(|preset| preset.name)
        .chain(SIGNALS.iter().map(|preset| preset.name));
    assert_eq!(named(names.clone()).len(), names.count());
    for preset in LATENCY {
        assert!(
            !preset.about.is_empty() && !preset.traps.is_empty(),
            "{}",
            preset.name
        );
        for trap in preset.traps {
            assert!(trap.ends_with('.') && trap.len() < 250, "{trap}");
        }
    }
    for preset in SIGNALS {
        assert!(
            !preset.about.is_empty() && !preset.traps.is_empty(),
            "{}",
            preset.name
        );
    }
}
