//! Label sets that make a query fail, kept apart from the others for a while. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::plan::{Ask, Batch};

/// How long a culprit is asked for alone.
const APART: Duration = Duration::from_secs(600);

/// How long a query that the source refuses is not asked again.
const SLOW_RETRY: Duration = Duration::from_secs(60);

/// Who is known to make queries fail.
#[derive(Debug, Default)]
pub(crate) struct Culprits(HashMap<Ask, Culprit>);

#[derive(Debug)]
struct Culprit {
    /// Whether it fails alone. Otherwise so much of its batch failed that halving it again is a waste.
    alone: bool,
    until: Instant,
    retry: Instant,
    failure: Failure,
}

impl Culprits {
    /// Forgets those whose time is over.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.0.retain(|_, culprit| now < culprit.until);
    }

    /// Whether `ask` gets a query of its own.
    pub(crate) fn is_alone(&self, ask: &Ask) -> bool {
        self.0.get(ask).is_some_and(|culprit| culprit.alone)
    }

    /// The failure that stands for `ask` until it is worth asking again.
    pub(crate) fn resting(&self, ask: &Ask, now: Instant) -> Option<&Failure> {
        self.0
            .get(ask)
            .filter(|culprit| now < culprit.retry)
            .map(|culprit| &culprit.failure)
    }

    /// Whether halving `batch` is worth trying.
    pub(crate) fn may_split(&self, batch: &Batch) -> bool {
        batch
            .sets
            .iter()
            .all(|set| self.0.get(&batch.ask(set)).is_none_or(|culprit| culprit.alone))
    }

    /// `batch` failed and could not be halved further.
    pub(crate) fn blame(&mut self, batch: &Batch, failure: &Failure, now: Instant) {
        let rest = if failure.is_lasting() {
            SLOW_RETRY
        } else {
            Duration::ZERO
        };
        for set in &batch.sets {
            let culprit = Culprit {
                alone: batch.sets.len() == 1,
                until: now + APART,
                retry: now + rest,
                failure: failure.clone(),
            };
            self.0.insert(batch.ask(set), culprit);
        }
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_tuner::UnknownReason;

    use super::*;
    use crate::Selector;
    use crate::measure::Measure;

    fn one() -> (Ask, Batch) {
        let ask = Ask::new(Measure::Witness, "up", &Selector::default(), None);
        let batch = Batch {
            family: ask.family.clone(),
            measure: ask.measure.clone(),
            sets: vec![ask.set.clone()],
        };
        (ask, batch)
    }

    #[test]
    fn a_culprit_stays_alone_for_ten_minutes_and_a_refused_query_rests_for_one() {
        let now = Instant::now();
        let (ask, batch) = one();
        let mut culprits = Culprits::default();
        culprits.blame(&batch, &Failure::new(UnknownReason::QueryInvalid, "x"), now);
        assert!(culprits.resting(&ask, now + Duration::from_secs(59)).is_some());
        assert!(culprits.resting(&ask, now + Duration::from_secs(60)).is_none());
        culprits.forget(now + Duration::from_secs(599));
        assert!(culprits.is_alone(&ask));
        culprits.forget(now + Duration::from_secs(600));
        assert!(!culprits.is_alone(&ask));
    }

    #[test]
    fn an_incomplete_answer_is_asked_for_again_at_once() {
        let now = Instant::now();
        let (ask, batch) = one();
        let mut culprits = Culprits::default();
        culprits.blame(&batch, &Failure::new(UnknownReason::PartialResponse, "x"), now);
        assert!(culprits.is_alone(&ask) && culprits.resting(&ask, now).is_none());
    }
}
