//! Why a question found no series: no such metric, a label that nothing has, or an answer that is not to be believed.

use hedgerow_tuner::{Unknown, UnknownReason};

use crate::group::Group;
use crate::measure::{Measure, Part};
use crate::plan::Ask;
use crate::promql;

/// The question that tells why `ask` found nothing.
pub(crate) fn ask(ask: &Ask) -> Ask {
    let histogram = matches!(ask.measure, Measure::Histogram { .. });
    Ask {
        measure: Measure::Presence { histogram },
        ..ask.clone()
    }
}

/// Why `ask` found nothing. `silent`: not a single part of its answer came.
pub(crate) fn reading(ask: &Ask, silent: bool, presence: Option<&Result<Group, Unknown>>) -> Unknown {
    let group = match presence {
        Some(Ok(group)) => group,
        Some(Err(unknown)) => return unknown.clone(),
        None => return Unknown::new(UnknownReason::Unavailable, "the source was not asked why"),
    };
    if let Err(unknown) = group.usable() {
        return unknown;
    }
    let has = |part| group.number(part).is_some_and(|count| count > 0.0);
    let histogram = matches!(ask.measure, Measure::Histogram { .. });
    if histogram && !has(Part::Classic) && !has_native(group) && (has(Part::CountSeries) || has(Part::Bare)) {
        let idle = has(Part::Percentiles) && !has(Part::BusyPercentiles);
        return not_a_histogram(&ask.family.metric, idle);
    }
    if has(Part::Here) {
        return if silent {
            Unknown::new(
                UnknownReason::PartialResponse,
                "the source answered with nothing, and a moment later that there are series; is a part of it missing?",
            )
        } else {
            Unknown::new(
                UnknownReason::TooFewSamples,
                "the series have begun and have not yet two samples in the window",
            )
        };
    }
    if !has(Part::Metric) {
        return missing(ask, histogram);
    }
    if let Some(label) = absent_label(ask, has) {
        return Unknown::new(
            UnknownReason::SelectorMatchesNothing,
            format!("the metric exists, but no series of it has {label}"),
        );
    }
    Unknown::new(
        UnknownReason::SelectorMatchesNothing,
        "the metric exists and each label asked for does, but no series has them all",
    )
}

/// Whether some of the series with the plain name hold native histograms.
fn has_native(group: &Group) -> bool {
    let count = |part| group.number(part).unwrap_or(0.0);
    count(Part::Bare) > count(Part::Numbers)
}

/// `idle`: all it has is percentiles that read 0, as those of Micrometer do when nothing was called.
fn not_a_histogram(metric: &str, idle: bool) -> Unknown {
    let reason = if idle {
        UnknownReason::NoTraffic
    } else {
        UnknownReason::NotAHistogram
    };
    Unknown::new(
        reason,
        format!(
            "{metric} exists and is no histogram: neither {metric}_bucket nor native samples; a summary, a plain metric, or a \
             histogram whose buckets are switched off; switch them on (Spring: \
             management.metrics.distribution.percentiles-histogram)"
        ),
    )
}

fn missing(ask: &Ask, histogram: bool) -> Unknown {
    let metric = &ask.family.metric;
    let within = ask
        .family
        .enforced
        .as_ref()
        .map(|(name, value)| format!(" with {}", promql::is_one_of(name, &[value])))
        .unwrap_or_default();
    let message = if histogram {
        format!(
            "no series is named {metric}_bucket or {metric}{within}; is the name right (without _bucket), and is it scraped?"
        )
    } else {
        format!("no series is named {metric}{within}; is the name right, and is it scraped?")
    };
    Unknown::new(UnknownReason::MetricNotFound, message)
}

/// The first label or requirement that no series meets on its own.
fn absent_label(ask: &Ask, has: impl Fn(Part) -> bool) -> Option<String> {
    let family = &ask.family;
    let mut labels = family.names.iter().zip(&ask.set).enumerate();
    let label = labels.find(|(place, _)| !has(Part::Label(*place)));
    if let Some((_, (name, value))) = label {
        return Some(promql::is_one_of(name, &[value]));
    }
    let mut requirements = family.requirements.iter().enumerate();
    let (_, requirement) = requirements.find(|(place, _)| !has(Part::Requirement(*place)))?;
    Some(promql::requirement(requirement))
}
