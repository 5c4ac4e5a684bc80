//! How long a source that fails is left alone. Pure.

use std::time::{Duration, Instant};

use crate::ReadingKind;
use crate::failure::Failure;

/// The wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait that we choose ourselves: well under the time for which a signal may be unknown.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The waits of one source. Each kind of reading has its own: heavy latency queries that run into their deadline are no
/// reason not to read the signals, which then would open every switch. What the source itself asks for holds for both.
#[derive(Debug, Default)]
pub(crate) struct Backoffs {
    latency: Backoff,
    saturation: Backoff,
}

impl Backoffs {
    /// That of one kind of reading.
    pub(crate) fn of(&mut self, kind: ReadingKind) -> &mut Backoff {
        match kind {
            ReadingKind::Latency => &mut self.latency,
            ReadingKind::Saturation => &mut self.saturation,
        }
    }

    /// The failure for which readings of that kind still wait.
    pub(crate) fn waiting(&self, kind: ReadingKind, now: Instant) -> Option<Failure> {
        let (own, other) = match kind {
            ReadingKind::Latency => (&self.latency, &self.saturation),
            ReadingKind::Saturation => (&self.saturation, &self.latency),
        };
        let asked_to = |failure: &Failure| failure.retry_after.is_some();
        own.waiting(now).or_else(|| other.waiting(now).filter(asked_to))
    }
}

/// The state of a source that fails.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    waiting: Option<(Instant, Failure)>,
}

impl Backoff {
    /// The source failed. `chance` in `[0, 1)` spreads the waits of many operators and sources.
    pub(crate) fn failed(&mut self, failure: Failure, now: Instant, chance: f64) {
        let doubled = FIRST_WAIT
            .saturating_mul(1 << self.failures.min(10))
            .min(LONGEST_WAIT);
        let jittered = doubled.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0));
        // What the source asks for is waited in full, with the jitter on top.
        let wait = match failure.retry_after {
            Some(asked) => asked + FIRST_WAIT.mul_f64(chance.clamp(0.0, 1.0)),
            None => jittered,
        };
        self.failures = self.failures.saturating_add(1);
        self.waiting = Some((now + wait, failure));
    }

    /// The source answered.
    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }

    /// The failure for which the source is still left alone.
    pub(crate) fn waiting(&self, now: Instant) -> Option<Failure> {
        let (until, failure) = self.waiting.as_ref().filter(|(until, _)| now < *until)?;
        let mut failure = failure.clone();
        let seconds = until.duration_since(now).as_secs_f64().ceil();
        failure.message = format!("{}; asked again in {seconds:.0} s", failure.message);
        Some(failure)
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_tuner::UnknownReason;

    use super::*;

    fn failure(retry_after: Option<u64>) -> Failure {
        Failure {
            retry_after: retry_after.map(Duration::from_secs),
            ..Failure::new(UnknownReason::Throttled, "busy")
        }
    }

    #[test]
    fn waits_double_up_to_half_a_minute_and_an_answer_ends_them() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        for wait in [1, 2, 4, 8, 16, 30, 30] {
            backoff.failed(failure(None), now, 1.0);
            assert!(
                backoff
                    .waiting(now + Duration::from_millis(wait * 1000 - 1))
                    .is_some()
            );
            assert!(backoff.waiting(now + Duration::from_secs(wait)).is_none());
        }
        backoff.answered();
        assert!(backoff.waiting(now).is_none());
    }

    #[test]
    fn latency_that_fails_does_not_hold_the_signals_back_unless_the_source_asks_for_it() {
        let now = Instant::now();
        let mut backoffs = Backoffs::default();
        backoffs.of(ReadingKind::Latency).failed(failure(None), now, 1.0);
        assert!(backoffs.waiting(ReadingKind::Latency, now).is_some());
        assert!(backoffs.waiting(ReadingKind::Saturation, now).is_none());

        backoffs
            .of(ReadingKind::Latency)
            .failed(failure(Some(45)), now, 0.0);
        backoffs.of(ReadingKind::Saturation).answered();
        assert!(backoffs.waiting(ReadingKind::Saturation, now).is_some());
        backoffs.of(ReadingKind::Latency).answered();
        assert!(backoffs.waiting(ReadingKind::Saturation, now).is_none());
    }

    #[test]
    fn chance_shortens_a_wait_by_half_at_most() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        backoff.failed(failure(None), now, 0.0);
        assert!(backoff.waiting(now + Duration::from_millis(499)).is_some());
        assert!(backoff.waiting(now + Duration::from_millis(500)).is_none());
    }

    #[test]
    fn what_the_source_asks_for_is_waited_in_full() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        backoff.failed(failure(Some(45)), now, 0.0);
        let still = backoff.waiting(now + Duration::from_secs(44)).unwrap();
        assert!(still.message.ends_with("asked again in 1 s"));
        assert!(backoff.waiting(now + Duration::from_secs(45)).is_none());
    }
}
