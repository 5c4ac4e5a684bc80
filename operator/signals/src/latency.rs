//! Latency readings from settled questions. Pure.

use std::time::Duration;

use hedgerow_tuner::{Latency, Unknown, UnknownReason, WindowReading};

use crate::clock::Moment;
use crate::freshness;
use crate::group::Group;
use crate::measure::Part;
use crate::observed::Observed;
use crate::question::{Answers, LatencyQuestions, Question};
use crate::{Outcomes, Unit, promql};

/// The latency reading, and the scrape interval of its series.
pub(crate) fn reading(
    questions: &LatencyQuestions,
    answers: &Answers,
    moment: Moment,
) -> (Latency, Option<Duration>) {
    let mut at_ms = None;
    let mut interval = None;
    let mut windows = Vec::new();
    let mut unknown = None;
    for (window, question, timeouts) in &questions.windows {
        let settled = answers.settle(question, moment.offset);
        if let Ok(settled) = &settled {
            at_ms = at_ms.max(Some(settled.at_ms));
            interval = interval.or_else(|| freshness::scrape_interval(settled.group));
        }
        let timeouts = timeouts
            .as_ref()
            .map(|timeouts| increase(timeouts, answers, moment.offset));
        match settled {
            Ok(settled) => windows.push(window_reading(
                *window,
                question,
                settled.group,
                timeouts,
                questions.unit,
                questions.outcomes.as_ref(),
            )),
            Err(why) => {
                unknown.get_or_insert_with(|| why.clone());
                windows.push(unread(*window, why));
            }
        }
    }
    // Where not one window could be read, the first says why for all.
    let windows = match unknown {
        Some(unknown) if at_ms.is_none() => Err(unknown),
        _ => Ok(windows),
    };
    let at = at_ms.map_or(moment.now(), |server_ms| moment.ours(server_ms));
    (Latency { at, windows }, interval)
}

/// A counter's increase, never negative.
pub(crate) fn increase(question: &Question, answers: &Answers, offset: Duration) -> Result<f64, Unknown> {
    let settled = answers.settle(question, offset)?;
    // A witness has proved that no series means zero.
    let value = settled.group.number(Part::Value).unwrap_or(0.0);
    if value.is_finite() {
        return Ok(value.max(0.0));
    }
    let reason = if value.is_nan() {
        UnknownReason::NotANumber
    } else {
        UnknownReason::OutOfRange
    };
    Err(Unknown::new(
        reason,
        format!("{}: its increase reads {value}", question.ask.describe()),
    ))
}

fn unread(window: Duration, why: Unknown) -> WindowReading {
    WindowReading {
        window,
        distribution: Err(why),
        cancelled: None,
        timeouts: None,
        caveat: None,
    }
}

fn window_reading(
    window: Duration,
    question: &Question,
    group: &Group,
    timeouts: Option<Result<f64, Unknown>>,
    unit: Unit,
    outcomes: Option<&Outcomes>,
) -> WindowReading {
    let timeouts = match timeouts.transpose() {
        Ok(timeouts) => timeouts,
        // Timeouts that cannot be counted hide the slowest calls.
        Err(why) => {
            let why = Unknown::new(why.reason, format!("the timeouts are not known: {}", why.message));
            return unread(window, why);
        }
    };
    let asked = question.ask.describe();
    let told = |why: Unknown| Unknown::new(why.reason, format!("{asked}: {}", why.message));
    match Observed::of(group, outcomes, unit) {
        Err(why) => WindowReading {
            timeouts,
            ..unread(window, told(why))
        },
        Ok(observed) => WindowReading {
            window,
            distribution: observed.answered.map_err(told),
            cancelled: observed.cancelled,
            timeouts,
            caveat: caveat(
                question,
                window,
                observed.caveat,
                freshness::too_few_scrapes(window, group),
            ),
        },
    }
}

/// Why the distribution deserves little confidence.
fn caveat(
    question: &Question,
    window: Duration,
    buckets: Option<String>,
    scrapes: Option<String>,
) -> Option<String> {
    let caveats: Vec<String> = buckets.into_iter().chain(scrapes).collect();
    (!caveats.is_empty()).then(|| {
        let (metric, window) = (&question.ask.family.metric, promql::duration(window));
        format!("{metric} over {window}: {}", caveats.join("; "))
    })
}
