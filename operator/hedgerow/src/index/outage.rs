//! When people are told that a source fails, and that it answers again. Pure.
//!
//! Being told costs a status for every policy of the source, so a source that falters is not worth telling of. No decision
//! waits for it: readings are unknown from the first failure on.

use std::time::Duration;

use hedgerow_tuner::{Timestamp, Unknown};

/// A source that has answered before is told of when it has failed for so long: three rounds, as policies ask by default.
const PATIENCE: Duration = Duration::from_secs(15);

/// One that was told of is well again when it has answered for so long.
const RECOVERY: Duration = Duration::from_secs(60);

/// Whether a source fails for all its targets.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failing: Option<Unknown>,
    /// Since when it fails, or answers; `None` before it was asked.
    since: Option<Timestamp>,
    told: Option<Unknown>,
}

impl Outage {
    /// Notes how the source is at `now`. Whether that is something to tell.
    pub(super) fn note(&mut self, failing: Option<Unknown>, now: Timestamp) -> bool {
        let is_as_before = failing.is_some() == self.failing.is_some();
        // After a step of the clock back it counts from now.
        let known = self.since.filter(|_| is_as_before).map(|since| since.min(now));
        // What fails when it is asked first did so before a restart, and people know.
        let first = self.since.is_none();
        let since = known.unwrap_or(now);
        (self.failing, self.since) = (failing, Some(since));
        let lasted = |long: Duration| now.since(since) >= long;
        match (&self.failing, &self.told) {
            (Some(why), None) if first || lasted(PATIENCE) => self.told = Some(why.clone()),
            (None, Some(_)) if lasted(RECOVERY) => self.told = None,
            _ => return false,
        }
        true
    }

    /// Whether it fails now.
    pub(super) const fn fails(&self) -> bool {
        self.failing.is_some()
    }

    /// Why it fails, as people are told.
    pub(super) const fn told(&self) -> Option<&Unknown> {
        self.told.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_tuner::UnknownReason;

    use super::*;
    use crate::fixtures::at;

    fn gone() -> Option<Unknown> {
        Some(Unknown::new(UnknownReason::Unavailable, "gone"))
    }

    /// The seconds at which something was told, when the source is asked every 5 s and fails as `fails` says.
    fn told(seconds: std::ops::Range<i64>, fails: impl Fn(i64) -> bool) -> Vec<(i64, bool)> {
        let mut outage = Outage::default();
        let asked = seconds.step_by(5);
        asked
            .filter(|&second| outage.note(gone().filter(|_| fails(second)), at(second)))
            .map(|second| (second, fails(second)))
            .collect()
    }

    #[test]
    fn an_outage_is_told_once_and_its_end_once() {
        let told = told(0..1000, |second| (100..400).contains(&second));
        assert_eq!(told, [(115, true), (460, false)]);
    }

    #[test]
    fn a_source_that_falters_is_not_told_of() {
        assert_eq!(told(0..1000, |second| second % 30 >= 20), []);
    }

    #[test]
    fn a_source_that_comes_and_goes_is_told_of_once() {
        assert_eq!(told(0..1000, |second| second % 60 >= 30), [(45, true)]);
    }

    #[test]
    fn a_source_that_never_answered_is_told_of_at_once() {
        assert_eq!(told(0..100, |_| true), [(0, true)], "as it was before a restart");
        assert_eq!(told(0..100, |second| second < 20), [(0, true), (80, false)]);
    }

    #[test]
    fn it_fails_from_the_first_failure_on_whatever_is_told() {
        let mut outage = Outage::default();
        assert!(!outage.note(None, at(0)));
        assert!(!outage.note(gone(), at(5)));
        assert!(outage.fails());
        assert_eq!(outage.told(), None);
    }

    #[test]
    fn a_clock_that_is_set_back_delays_it_by_no_more_than_the_patience() {
        let mut outage = Outage::default();
        outage.note(None, at(5000));
        outage.note(gone(), at(5005));
        assert!(!outage.note(gone(), at(1000)));
        assert!(outage.note(gone(), at(1015)));
    }
}
