//! The latency histogram: the API's words in those of the reader and of the rules.

use std::time::Duration;

use hedgerow_api as api;
use hedgerow_signals::{LatencyQuery, Outcomes, Unit};
use hedgerow_tuner::Measures;

use super::Malformed;
use super::selector::{counter, selector};

/// What is read of it. For this and what follows presets are written out.
pub(super) fn latency(latency: &api::Latency, windows: Vec<Duration>) -> Result<LatencyQuery, Malformed> {
    Ok(LatencyQuery {
        metric: metric(latency)?.to_owned(),
        selector: selector(&latency.match_labels, &latency.match_expressions),
        unit: unit(latency)?,
        windows,
        outcomes: outcomes(latency)?,
        timeouts: latency.timeouts.as_ref().map(counter),
    })
}

pub(super) fn metric(latency: &api::Latency) -> Result<&str, Malformed> {
    let metric = latency.metric.as_deref();
    metric.ok_or_else(|| {
        Malformed("a latency without a metric, or with a preset that does not exist".to_owned())
    })
}

pub(super) fn unit(latency: &api::Latency) -> Result<Unit, Malformed> {
    match latency.unit_in_use() {
        Some(api::Unit::Seconds) => Ok(Unit::Seconds),
        Some(api::Unit::Milliseconds) => Ok(Unit::Milliseconds),
        Some(api::Unit::Microseconds) => Ok(Unit::Microseconds),
        None => Err(Malformed(format!(
            "a latency without a unit: {}",
            metric(latency)?
        ))),
    }
}

pub(super) fn measures(latency: &api::Latency) -> Result<Measures, Malformed> {
    match latency.measures {
        Some(api::Measures::LogicalCall) => Ok(Measures::LogicalCall),
        Some(api::Measures::Attempt) => Ok(Measures::Attempt {
            losers_run_on: latency.losers_run_on,
        }),
        Some(api::Measures::Server) => Ok(Measures::Server),
        None => Err(Malformed(format!(
            "a latency that does not say what it measures: {}",
            metric(latency)?
        ))),
    }
}

/// What is read apart. The rules know what to make of a cut-short attempt only where attempts are measured; elsewhere it stays
/// among the observations, as having taken as long as it ran. Read apart there, it would be dropped, and the slowest with it.
fn outcomes(latency: &api::Latency) -> Result<Option<Outcomes>, Malformed> {
    let Some(outcomes) = &latency.outcomes else {
        return Ok(None);
    };
    let censored = matches!(measures(latency)?, Measures::Attempt { .. });
    let texts = |values: &[api::text::LabelValue]| values.iter().map(ToString::to_string).collect();
    let read = Outcomes {
        label: outcomes.label.to_string(),
        cancelled: if censored {
            texts(&outcomes.cancelled)
        } else {
            Vec::new()
        },
        ignored: texts(&outcomes.ignored),
    };
    Ok(Some(read).filter(|read| !(read.cancelled.is_empty() && read.ignored.is_empty())))
}
