//! What people ought to know of what a target reads: where its presets mislead, and which preset they could have named.

use hedgerow_api as api;
use hedgerow_api::preset::{LatencyPreset, SignalPreset};

/// The notes on a target as it is written, a sentence each.
pub(crate) fn of(target: &api::Target) -> Vec<String> {
    let latency = match target.latency.known() {
        Some(preset) => traps(preset.name, preset.traps),
        None => named_by_hand(&target.latency).into_iter().collect(),
    };
    let signals = target
        .saturation
        .signals
        .iter()
        .flat_map(|signal| match signal.known() {
            Some(preset) => traps(preset.name, preset.traps),
            None => signal_by_hand(signal).into_iter().collect(),
        });
    latency.into_iter().chain(signals).collect()
}

fn traps(preset: &str, traps: &[&str]) -> Vec<String> {
    traps.iter().map(|trap| format!("{preset}: {trap}")).collect()
}

fn named_by_hand(latency: &api::Latency) -> Option<String> {
    let metric = latency.metric.as_deref()?;
    let preset = LatencyPreset::of_metric(metric)?;
    Some(format!(
        "latency: {metric} is what the preset {} reads, {}; it knows its outcomes, labels and traps: say preset: {} instead of \
         metric.",
        preset.name, preset.about, preset.name
    ))
}

fn signal_by_hand(signal: &api::Signal) -> Option<String> {
    let metric = signal.metric.as_deref().or(signal.rate_of.as_deref())?;
    let preset = SignalPreset::of_metric(metric)?;
    Some(format!(
        "{}: {metric} is what the preset {} reads, {}; say preset: {} instead.",
        signal.name, preset.name, preset.about, preset.name
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::fixtures::{follow, written_spec};

    fn notes(latency: Value, signal: Value) -> Vec<String> {
        let mut spec = written_spec();
        spec["targets"][0]["latency"] = latency;
        spec["targets"][0]["saturation"]["signals"] = json!([signal]);
        super::of(&follow(&spec).spec.targets[0])
    }

    fn queue() -> Value {
        json!({ "name": "queue", "metric": "shard_queue_depth", "offAbove": "50" })
    }

    #[test]
    fn a_preset_tells_where_it_misleads() {
        let latency = notes(json!({ "preset": "Istio" }), queue());
        assert!(latency.len() >= 2 && latency.iter().all(|note| note.starts_with("Istio: ")));
        let own = json!({ "metric": "own_seconds", "measures": "LogicalCall" });
        let signal = notes(own, json!({ "name": "cpu", "preset": "CpuThrottling" }));
        assert!(signal[0].contains("without a CPU limit"), "{signal:?}");
    }

    #[test]
    fn a_metric_that_a_preset_knows_is_told_by_name() {
        let latency = json!({ "metric": "grpc_client_call_duration_seconds", "measures": "LogicalCall" });
        let signal =
            json!({ "name": "cpu", "rateOf": "container_cpu_cfs_throttled_periods_total", "offAbove": "3" });
        let notes = notes(latency, signal);
        assert_eq!(notes.len(), 2);
        assert!(notes[0].contains("say preset: GrpcClient"), "{}", notes[0]);
        assert!(notes[1].contains("say preset: CpuThrottling"), "{}", notes[1]);
    }

    #[test]
    fn a_metric_that_nobody_knows_has_no_notes() {
        let latency = json!({ "metric": "own_seconds", "measures": "LogicalCall" });
        assert_eq!(notes(latency, queue()), Vec::<String>::new());
    }
}
