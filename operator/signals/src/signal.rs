//! Saturation readings from settled questions. Pure.

use hedgerow_tuner::{Alert, Signal, SignalValue, Unknown, UnknownReason};

use crate::clock::Moment;
use crate::freshness;
use crate::group::Group;
use crate::latency::increase;
use crate::measure::Part;
use crate::question::{Answers, Question};

/// What a division by nothing reads: more than any line, and finite as readings are.
pub(crate) const ABOVE_EVERY_LINE: f64 = f64::MAX;

/// A reading of one value per series.
pub(crate) fn series(question: &Question, answers: &Answers, moment: Moment) -> Signal {
    match answers.settle(question, moment.offset) {
        Err(unknown) => unread(unknown, moment),
        Ok(settled) => Signal {
            at: moment.ours(settled.at_ms),
            scrape_interval: freshness::scrape_interval(settled.group),
            value: values(question, settled.group).map(SignalValue::Series),
        },
    }
}

/// A reading of one sum divided by another: 0/0 is 0, and anything else divided by nothing is above every line.
pub(crate) fn ratio(of: &Question, per: &Question, answers: &Answers, moment: Moment) -> Signal {
    let both = || {
        let (above, below) = (
            answers.settle(of, moment.offset)?,
            answers.settle(per, moment.offset)?,
        );
        let value = quotient(
            increase(of, answers, moment.offset)?,
            increase(per, answers, moment.offset)?,
        );
        let interval = freshness::scrape_interval(below.group)
            .into_iter()
            .chain(freshness::scrape_interval(above.group))
            .max();
        Ok((above.at_ms.min(below.at_ms), interval, value))
    };
    match both() {
        Err(unknown) => unread(unknown, moment),
        Ok((at_ms, scrape_interval, value)) => Signal {
            at: moment.ours(at_ms),
            scrape_interval,
            value: Ok(SignalValue::Series(vec![value])),
        },
    }
}

/// An alert's state from its series, which it has only while it fires.
pub(crate) fn firing(question: &Question, answers: &Answers, moment: Moment) -> Signal {
    let mut signal = series(question, answers, moment);
    signal.value = signal.value.map(|value| match value {
        SignalValue::Series(values) if values.iter().any(|&value| value > 0.0) => {
            SignalValue::Alert(Alert::Firing)
        }
        _ => SignalValue::Alert(Alert::Inactive),
    });
    signal
}

/// A reading that says nothing.
pub(crate) fn unread(unknown: Unknown, moment: Moment) -> Signal {
    Signal {
        at: moment.now(),
        scrape_interval: None,
        value: Err(unknown),
    }
}

fn quotient(above: f64, below: f64) -> f64 {
    if above <= 0.0 {
        0.0
    } else {
        (above / below).min(ABOVE_EVERY_LINE)
    }
}

fn values(question: &Question, group: &Group) -> Result<Vec<f64>, Unknown> {
    let told =
        |reason, message: &str| Unknown::new(reason, format!("{}: {message}", question.ask.describe()));
    let points = group.points(Part::Value);
    if points.is_empty() {
        // A witness has proved that no series means zero.
        return Ok(vec![0.0]);
    }
    if points.iter().any(|point| point.value.is_infinite()) {
        return Err(told(UnknownReason::OutOfRange, "a series is infinite"));
    }
    // An idle summary's quantiles are NaN beside those that are not.
    let values: Vec<f64> = points
        .iter()
        .map(|point| point.value)
        .filter(|value| !value.is_nan())
        .map(|value| value.max(0.0))
        .collect();
    if values.is_empty() {
        return Err(told(UnknownReason::NotANumber, "every series is NaN"));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_nothing_is_zero_and_something_of_nothing_is_above_every_line() {
        assert!(quotient(0.0, 0.0).abs() < f64::EPSILON);
        assert!(quotient(0.0, 5.0).abs() < f64::EPSILON);
        assert!((quotient(1.0, 4.0) - 0.25).abs() < f64::EPSILON);
        assert!(quotient(1e-9, 0.0) >= f64::MAX);
        assert!(quotient(f64::MAX, 1e-300).is_finite());
    }
}
