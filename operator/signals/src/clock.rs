//! How far the server's clock is from ours. Pure.

use std::time::Duration;

use hedgerow_tuner::Timestamp;

/// When readings are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// How long before now the source evaluates.
    pub(crate) offset: Duration,
    /// How far the server's clock is from ours.
    pub(crate) skew: Skew,
    /// Now on our clock, in milliseconds since the epoch.
    pub(crate) now_ms: i64,
}

impl Moment {
    /// Now.
    pub(crate) fn now(self) -> Timestamp {
        Timestamp::from_millis(self.now_ms)
    }

    /// A server's time as ours; never in our future.
    pub(crate) fn ours(self, server_ms: i64) -> Timestamp {
        Timestamp::from_millis(self.skew.ours(server_ms).min(self.now_ms))
    }
}

/// The skew between two clocks, estimated from the `Date` of answers.
///
/// A `Date` has whole seconds and is written somewhere between our sending and receiving, so that each answer gives an
/// interval for the skew. The estimate moves only when it leaves that interval: readings of one sample keep one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Skew {
    ms: Option<i64>,
}

impl Skew {
    /// Clocks that agree.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self { ms: Some(0) };

    /// Learns from an answer: the server said `date` between `sent` and `received` on our clock, in milliseconds.
    pub(crate) fn learn(&mut self, date: i64, sent: i64, received: i64) {
        let least = date.saturating_sub(received.max(sent));
        let most = date.saturating_add(1000).saturating_sub(sent);
        let estimate = self.ms.unwrap_or(0);
        if self.ms.is_none() || estimate < least || estimate > most {
            let fits = least <= 0 && 0 <= most;
            // Clocks that may agree are taken to agree.
            self.ms = Some(if fits { 0 } else { least / 2 + most / 2 });
        }
    }

    /// How far the server's clock is ahead, in milliseconds; `None` before any answer.
    pub(crate) fn measured_ms(self) -> Option<i64> {
        self.ms
    }

    /// The server's time for a time of ours, in milliseconds since the epoch.
    pub(crate) fn server(self, ours: i64) -> i64 {
        ours.saturating_add(self.ms.unwrap_or(0))
    }

    /// Our time for a time of the server's.
    pub(crate) fn ours(self, server: i64) -> i64 {
        server.saturating_sub(self.ms.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_may_agree_are_taken_to_agree() {
        let mut skew = Skew::default();
        assert_eq!(skew.measured_ms(), None);
        skew.learn(100_000, 100_700, 100_900);
        assert_eq!(skew.measured_ms(), Some(0));
    }

    #[test]
    fn a_server_ahead_is_seen_and_the_estimate_stays_while_it_fits() {
        let mut skew = Skew::default();
        skew.learn(160_000, 100_000, 100_200);
        let first = skew.measured_ms().unwrap();
        assert!((59_000..=61_000).contains(&first));
        skew.learn(161_000, 101_300, 101_400);
        assert_eq!(skew.measured_ms(), Some(first));
        assert_eq!(skew.ours(skew.server(5)), 5);
        skew.learn(102_000, 102_100, 102_200);
        assert_eq!(skew.measured_ms(), Some(0));
    }

    #[test]
    fn absurd_times_do_not_overflow() {
        let mut skew = Skew::default();
        skew.learn(i64::MAX, i64::MIN, i64::MAX);
        skew.learn(i64::MIN, i64::MAX, i64::MIN);
        let _ = (skew.server(i64::MAX), skew.ours(i64::MIN));
    }
}
