//! What people ought to know of what a target reads: where its presets mislead, and which preset they could have named.

use hedgerow_api as api;
use hedgerow_api::preset::{LatencyPreset, SignalPreset};

/// The notes on a target as it is written, a sentence each.
pub(super) fn of(target: &api::Target) -> Vec<String> {
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
