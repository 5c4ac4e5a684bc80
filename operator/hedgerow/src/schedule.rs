//! When targets are read. Pure.
//!
//! All targets of a source that are read equally often are read together, so that the number of queries does not grow with
//! the number of policies; and each source has its own place in time, so that operators and sources do not ask in step.

use std::time::Duration;

use hedgerow_tuner::Timestamp;

/// The next moment after `now` of those that lie `period` apart, moved by `phase`.
pub(crate) fn next(now: Timestamp, period: Duration, phase: Duration) -> Timestamp {
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let (period, phase) = (millis(period).max(1), millis(phase));
    let since = now.as_millis().saturating_sub(phase).rem_euclid(period);
    Timestamp::from_millis(now.as_millis().saturating_add(period - since))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(30);

    #[test]
    fn the_next_moment_is_later_and_at_most_a_period_away() {
        for now in [0, 1, 29_999, 30_000, 30_001, 1_700_000_000_123] {
            let next = next(Timestamp::from_millis(now), PERIOD, Duration::from_millis(7));
            let away = next.as_millis() - now;
            assert!(away > 0 && away <= 30_000, "{now}: {away}");
        }
    }

    #[test]
    fn whoever_asks_at_whatever_moment_meets_the_others() {
        let at = |now| next(Timestamp::from_millis(now), PERIOD, Duration::from_millis(700));
        assert_eq!(at(1_000), Timestamp::from_millis(30_700));
        assert_eq!(at(30_699), Timestamp::from_millis(30_700));
        assert_eq!(at(30_700), Timestamp::from_millis(60_700));
    }

    #[test]
    fn a_clock_before_the_epoch_is_no_matter() {
        let next = next(Timestamp::from_millis(i64::MIN), PERIOD, PERIOD);
        assert!(next > Timestamp::from_millis(i64::MIN));
    }
}
