//! Checks of metrics and of which of their series are meant.

use super::at::At;
use crate::preset::{self, LatencyPreset};
use crate::text::{LabelValue, PresetName, Text};
use crate::{
    Counter, Labels, Latency, Measures, Operator, Outcomes, Requirement, ZeroWhenAbsent, limits, rules,
};

pub(super) fn check(at: &mut At<'_>, latency: &Latency) {
    check_what_is_read(at, latency);
    check_selector(at, &latency.match_labels, &latency.match_expressions);
    at.rule(
        rules::NO_BUCKET_SELECTED,
        !selects_by(latency, BOUND_LABEL),
        None::<&str>,
    );
    if let Some(outcomes) = &latency.outcomes {
        check_outcomes(&mut at.field("outcomes"), outcomes);
        at.rule(
            rules::OUTCOMES_LABEL_FREE,
            !selects_by(latency, &outcomes.label),
            Some(&outcomes.label),
        );
    }
    check_cancelled(at, latency);
    if let Some(timeouts) = &latency.timeouts {
        check_counter(&mut at.field("timeouts"), timeouts);
    }
    let window = at.field("window").duration(&latency.window, limits::WINDOW);
    let max_window = at
        .field("maxWindow")
        .duration(&latency.max_window, limits::WINDOW);
    if let (Some(window), Some(max_window)) = (window, max_window) {
        at.rule(
            rules::WINDOW_WITHIN_MAX_WINDOW,
            window <= max_window,
            Some(&latency.max_window),
        );
    }
    at.field("minSamples")
        .integer(latency.min_samples, limits::MIN_SAMPLES);
}

/// A preset, or a metric with what must be known of it.
fn check_what_is_read(at: &mut At<'_>, latency: &Latency) {
    if let Some(preset) = &latency.preset {
        check_preset(&mut at.field("preset"), preset, &preset::latency_names());
    }
    if let Some(metric) = &latency.metric {
        at.field("metric").text(metric);
    }
    let nothing = None::<&str>;
    let (has_preset, has_metric) = (latency.preset.is_some(), latency.metric.is_some());
    at.rule(rules::PRESET_OR_METRIC, has_preset != has_metric, nothing);
    at.rule(
        rules::METRIC_NEEDS_MEASURES,
        !has_metric || latency.measures.is_some(),
        nothing,
    );
    let said = latency.measures.is_some() || latency.unit.is_some() || latency.outcomes.is_some();
    at.rule(rules::PRESET_FIXES, !has_preset || !said, nothing);
    at.rule(
        rules::UNIT_KNOWN,
        !has_metric || latency.unit_in_use().is_some(),
        latency.metric.as_ref(),
    );
    if let Some(preset) = latency.known() {
        let own = preset.own_labels().find(|label| selects_by(latency, label));
        at.rule(rules::PRESET_LABELS_FREE, own.is_none(), own);
    }
}

pub(super) fn check_preset(at: &mut At<'_>, preset: &PresetName, known: &[&str]) {
    if !known.contains(&preset.as_str()) {
        at.error(
            format!("there is no such preset; there are {}", known.join(", ")),
            Some(preset),
        );
    }
}

/// Attempts that were cut short must be known, or not be.
fn check_cancelled(at: &mut At<'_>, latency: &Latency) {
    let losers_run_on = latency.losers_run_on;
    let by_hand = latency.measures == Some(Measures::Attempt);
    let named = |outcomes: &Outcomes| !outcomes.cancelled.is_empty();
    at.rule(
        rules::CANCELLED_KNOWN,
        !by_hand || losers_run_on || latency.outcomes.as_ref().is_some_and(named),
        None::<&str>,
    );
    let known = latency.known();
    at.rule(
        rules::PRESET_HIDES_CANCELLED,
        losers_run_on || !known.is_some_and(LatencyPreset::hides_cancelled),
        latency.preset.as_ref(),
    );
    let by_preset = known.is_some_and(|preset| preset.measures == Measures::Attempt);
    at.rule(
        rules::LOSERS_OF_ATTEMPTS,
        !losers_run_on || by_hand || by_preset,
        None::<&str>,
    );
}

fn check_outcomes(at: &mut At<'_>, outcomes: &Outcomes) {
    at.field("label").text(&outcomes.label);
    let label = outcomes.label.as_str();
    at.rule(
        rules::OUTCOMES_LABEL,
        label != METRIC_LABEL && label != BOUND_LABEL,
        Some(label),
    );
    let (cancelled, ignored) = (&outcomes.cancelled, &outcomes.ignored);
    at.rule(
        rules::OUTCOMES_SAY_SOMETHING,
        !(cancelled.is_empty() && ignored.is_empty()),
        None::<&str>,
    );
    let both = ignored.iter().find(|value| cancelled.contains(value));
    at.rule(rules::OUTCOMES_DISJOINT, both.is_none(), both);
    check_values(&mut at.field("cancelled"), cancelled, limits::MAX_OUTCOMES);
    check_values(&mut at.field("ignored"), ignored, limits::MAX_OUTCOMES);
}

/// Whether the label is one by which series are selected.
fn selects_by(latency: &Latency, label: &str) -> bool {
    let by_value = latency.match_labels.0.keys().any(|key| key.as_str() == label);
    by_value
        || latency
            .match_expressions
            .iter()
            .any(|by| by.key.as_str() == label)
}

pub(super) fn check_counter(at: &mut At<'_>, counter: &Counter) {
    at.field("rateOf").text(&counter.rate_of);
    check_selector(at, &counter.match_labels, &counter.match_expressions);
    check_zero_when_absent(at, counter.zero_when_absent.as_ref());
}

pub(super) fn check_zero_when_absent(at: &mut At<'_>, zero_when_absent: Option<&ZeroWhenAbsent>) {
    let Some(ZeroWhenAbsent { witness }) = zero_when_absent else {
        return;
    };
    let mut at = at.field("zeroWhenAbsent");
    let mut at = at.field("witness");
    at.field("metric").text(&witness.metric);
    check_labels(&mut at.field("matchLabels"), &witness.match_labels, 1);
}

pub(super) fn check_selector(at: &mut At<'_>, labels: &Labels, expressions: &[Requirement]) {
    check_labels(&mut at.field("matchLabels"), labels, 0);
    let mut at = at.field("matchExpressions");
    at.length(expressions.len(), 0, limits::MAX_EXPRESSIONS);
    for (index, requirement) in expressions.iter().enumerate() {
        check_requirement(&mut at.index(index), requirement);
    }
}

fn check_labels(at: &mut At<'_>, labels: &Labels, at_least: usize) {
    at.length(labels.0.len(), at_least, limits::MAX_LABELS);
    let bad_name = labels
        .0
        .keys()
        .find(|name| !name.matches_pattern() || name.as_str() == METRIC_LABEL);
    at.rule(rules::LABEL_NAMES, bad_name.is_none(), bad_name);
    for (name, value) in &labels.0 {
        at.field(name).text(value);
    }
}

fn check_requirement(at: &mut At<'_>, requirement: &Requirement) {
    at.field("key").text(&requirement.key);
    at.rule(
        rules::KEY_IS_NO_METRIC,
        requirement.key.as_str() != METRIC_LABEL,
        None::<&str>,
    );
    let needs_values = requirement.operator != Operator::Exists;
    at.rule(
        rules::VALUES_FIT_OPERATOR,
        requirement.values.is_empty() != needs_values,
        None::<&str>,
    );

    check_values(
        &mut at.field("values"),
        &requirement.values,
        limits::MAX_EXPRESSION_VALUES,
    );
}

fn check_values(at: &mut At<'_>, values: &[LabelValue], at_most: usize) {
    at.length(values.len(), 0, at_most);
    at.unique(values.iter());
    for (index, value) in values.iter().enumerate() {
        at.index(index).text(value);
    }
}

/// The label in which Prometheus keeps the name of a metric. A policy names metrics by a field of their own, so that a
/// selector cannot reach for another one.
const METRIC_LABEL: &str = "__name__";

/// The label in which a histogram keeps the bound of a bucket.
const BOUND_LABEL: &str = "le";
