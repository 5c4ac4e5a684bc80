//! What the benchmarks measure and the fuzzers look into; no part of the interface.

use std::time::Duration;

use hedgerow_tuner::{Alert, Histogram, SignalValue, Unknown};

use crate::alerts::Rules;
use crate::answer::{self, Value};
use crate::clauses::{self, Clause};
use crate::clock::{Moment, Skew};
use crate::group::take_apart;
use crate::measure::Measure;
use crate::observed::Observed;
use crate::plan::{Batch, Family};
use crate::{Outcomes, Unit};

/// The query for the histograms of some applications, split by outcome.
#[derive(Debug)]
pub struct Histograms {
    batch: Batch,
    clauses: Vec<Clause>,
    outcomes: Outcomes,
}

impl Histograms {
    /// For the labels `app="0"` to `app="sets - 1"`.
    pub fn of(sets: usize) -> Self {
        let outcomes = Outcomes {
            label: "status".to_owned(),
            cancelled: vec!["CANCELLED".to_owned()],
            ignored: Vec::new(),
        };
        let batch = Batch {
            family: Family {
                metric: "shard_read_duration_seconds".to_owned(),
                names: vec!["app".to_owned()],
                requirements: Vec::new(),
                enforced: None,
            },
            measure: Measure::Histogram {
                window: Duration::from_secs(600),
                outcome: Some(outcomes.label.clone()),
            },
            sets: (0..sets).map(|set| vec![set.to_string()]).collect(),
        };
        Self {
            clauses: clauses::clauses(&batch, None),
            batch,
            outcomes,
        }
    }

    /// Decodes an answer. How many elements it had; 0 when it is none.
    pub fn decode(body: &[u8]) -> usize {
        answer::vector(body).map_or(0, |answer| answer.samples.len())
    }

    /// Decodes an answer, takes it apart and makes its distributions. How many there are.
    pub fn read(&self, body: &[u8]) -> usize {
        self.distributions(body).len()
    }

    /// The distributions of attempts that were answered; none where there is no answer.
    pub fn distributions(&self, body: &[u8]) -> Vec<Histogram> {
        let Ok(answer) = answer::vector(body) else {
            return Vec::new();
        };
        let (groups, _) = take_apart(&self.batch, &self.clauses, &answer.samples);
        let read = |group| Observed::of(group, Some(&self.outcomes), Unit::Seconds);
        groups
            .iter()
            .filter_map(|group| read(group).ok()?.answered.ok())
            .collect()
    }
}

/// The numbers of an answer; of a native histogram its count.
///
/// # Errors
/// When it is no answer, or one of nothing complete.
pub fn numbers(body: &[u8]) -> Result<Vec<f64>, Unknown> {
    let answer = answer::vector(body).map_err(|why| why.reading("fuzz"))?;
    let number = |value: &Value| match value {
        Value::Number(number) => *number,
        Value::Histogram(native) => native.count,
    };
    Ok(answer
        .samples
        .iter()
        .map(|sample| number(&sample.value))
        .collect())
}

/// What an answer of the rules API says of the alert `name`, an hour into 1970.
///
/// # Errors
/// When it is no answer, knows no such alert, or one that may be out of date.
pub fn alert(body: &[u8], name: &str) -> Result<Alert, Unknown> {
    let rules = Rules::decode(body).map_err(|why| why.reading(name))?;
    let moment = Moment {
        offset: Duration::ZERO,
        skew: Skew::default(),
        now_ms: 3_600_000,
    };
    match rules.reading(name, None, moment).value? {
        SignalValue::Alert(state) => Ok(state),
        SignalValue::Series(_) => Ok(Alert::Inactive),
    }
}
