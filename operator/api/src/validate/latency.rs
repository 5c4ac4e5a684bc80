//! Checks of metrics and of which of their series are meant.

use super::at::At;
use crate::text::Text;
use crate::{Counter, Labels, Latency, Operator, Requirement, ZeroWhenAbsent, limits, rules};

pub(super) fn check(at: &mut At<'_>, latency: &Latency) {
    at.field("metric").text(&latency.metric);
    check_selector(at, &latency.match_labels, &latency.match_expressions);
    at.rule(
        rules::UNIT_KNOWN,
        latency.unit_in_use().is_some(),
        Some(&latency.metric),
    );
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

    let mut values = at.field("values");
    values.length(requirement.values.len(), 0, limits::MAX_EXPRESSION_VALUES);
    values.unique(requirement.values.iter());
    for (index, value) in requirement.values.iter().enumerate() {
        values.index(index).text(value);
    }
}

/// The label in which Prometheus keeps the name of a metric. A policy names metrics by a field of their own, so that a
/// selector cannot reach for another one.
const METRIC_LABEL: &str = "__name__";
