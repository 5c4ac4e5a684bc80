//! Finds the label set for which a batch fails. Pure.

use crate::failure::Failure;
use crate::plan::Batch;

/// A batch that is asked whole, and in halves when it fails.
pub(crate) struct Halving {
    pending: Vec<Batch>,
    /// Requests that may still be spent on halves.
    left: u32,
}

impl Halving {
    /// `may_split`: whether halves are worth trying.
    pub(crate) fn new(batch: Batch, may_split: bool) -> Self {
        // One culprit among n is found in two requests for each halving. Room is left for another; when more fails than
        // that, everything does, and asking for each alone would be a flood.
        let halvings = usize::BITS - batch.sets.len().leading_zeros();
        Self {
            left: if may_split { 4 * halvings } else { 0 },
            pending: vec![batch],
        }
    }

    /// What to ask next.
    pub(crate) fn next(&mut self) -> Option<Batch> {
        self.pending.pop()
    }

    /// `batch` failed: it is halved, or given back when it is to fail as it is.
    pub(crate) fn failed(&mut self, batch: Batch, failure: &Failure) -> Option<Batch> {
        if batch.sets.len() < 2 || self.left < 2 || !failure.may_be_one_culprit() {
            return Some(batch);
        }
        self.left -= 2;
        let (first, second) = batch.halves();
        self.pending.push(second);
        self.pending.push(first);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hedgerow_tuner::UnknownReason;

    use super::*;
    use crate::measure::Measure;
    use crate::plan::Family;

    fn batch(sets: usize) -> Batch {
        Batch {
            family: Family {
                metric: "m".into(),
                names: vec!["app".into()],
                requirements: vec![],
                enforced: None,
            },
            measure: Measure::Increase {
                window: Duration::from_secs(60),
            },
            sets: (0..sets).map(|i| vec![format!("{i:03}")]).collect(),
        }
    }

    /// Asks until done. Gives how many requests that took and the sets that failed.
    fn ask(sets: usize, may_split: bool, culprits: &[&str], reason: UnknownReason) -> (usize, Vec<String>) {
        let mut halving = Halving::new(batch(sets), may_split);
        let (mut requests, mut failed) = (0, Vec::new());
        while let Some(batch) = halving.next() {
            requests += 1;
            let fails = batch.sets.iter().any(|set| culprits.contains(&set[0].as_str()));
            let alone = fails
                .then(|| halving.failed(batch, &Failure::new(reason, "x")))
                .flatten();
            failed.extend(alone.into_iter().flat_map(|batch| batch.sets).flatten());
        }
        (requests, failed)
    }

    #[test]
    fn a_culprit_among_two_hundred_is_found_alone() {
        for culprit in ["000", "077", "199"] {
            let (requests, failed) = ask(200, true, &[culprit], UnknownReason::QueryInvalid);
            assert_eq!(failed, [culprit]);
            assert!(requests <= 17, "{requests}");
        }
    }

    #[test]
    fn two_culprits_are_found_both() {
        let (_, failed) = ask(200, true, &["003", "150"], UnknownReason::ResponseTooLarge);
        assert_eq!(failed, ["003", "150"]);
    }

    #[test]
    fn when_everything_fails_no_flood_of_requests_follows() {
        let all: Vec<String> = (0..200).map(|i| format!("{i:03}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let (requests, failed) = ask(200, true, &all, UnknownReason::PartialResponse);
        assert!(requests <= 40 && failed.len() == 200, "{requests}");
    }

    #[test]
    fn what_is_nobodys_fault_is_not_halved() {
        for reason in [
            UnknownReason::Timeout,
            UnknownReason::Unauthorized,
            UnknownReason::Throttled,
        ] {
            let (requests, failed) = ask(8, true, &["001"], reason);
            assert_eq!((requests, failed.len()), (1, 8));
        }
    }

    #[test]
    fn a_batch_in_which_everything_failed_is_asked_whole() {
        let (requests, failed) = ask(8, false, &["001"], UnknownReason::QueryInvalid);
        assert_eq!((requests, failed.len()), (1, 8));
    }
}
