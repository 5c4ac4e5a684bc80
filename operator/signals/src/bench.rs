//! What the benchmarks measure; no part of the interface.

use std::time::Duration;

use crate::answer;
use crate::clauses::{self, Clause};
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
        let Ok(answer) = answer::vector(body) else {
            return 0;
        };
        let (groups, _) = take_apart(&self.batch, &self.clauses, &answer.samples);
        let read = |group| Observed::of(group, Some(&self.outcomes), Unit::Seconds);
        groups
            .iter()
            .filter(|group| read(group).is_ok_and(|observed| observed.answered.is_ok()))
            .count()
    }
}
