//! How fast something is done.

use std::time::{Duration, Instant};

use super::WriteRate;

/// A token bucket that starts full.
#[derive(Debug)]
pub(in crate::cluster) struct Bucket {
    rate: WriteRate,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    pub(in crate::cluster) fn new(rate: WriteRate, now: Instant) -> Self {
        let rate = WriteRate {
            per_second: rate.per_second.max(0.1),
            burst: rate.burst.max(1.0),
        };
        Self {
            rate,
            tokens: rate.burst,
            at: now,
        }
    }

    /// Takes a token, or says when there will be one.
    pub(in crate::cluster) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        self.fill(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        // Rounded up to a millisecond, so that who waits until then does find a token.
        let missing = Duration::from_secs_f64((1.0 - self.tokens) / self.rate.per_second);
        Err(now + missing + Duration::from_millis(1))
    }

    /// Takes a token if there is one, for what does not wait. It makes no debts: those would have all others wait.
    pub(super) fn spend(&mut self, now: Instant) {
        self.fill(now);
        self.tokens = (self.tokens - 1.0).max(0.0);
    }

    fn fill(&mut self, now: Instant) {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.rate.per_second;
        self.tokens = (self.tokens + gained).min(self.rate.burst);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let now = Instant::now();
        let rate = WriteRate {
            per_second: 10.0,
            burst: 2.0,
        };
        let mut bucket = Bucket::new(rate, now);
        assert_eq!(bucket.take(now), Ok(()));
        assert_eq!(bucket.take(now), Ok(()));
        let free_at = bucket.take(now).unwrap_err();
        assert!(free_at >= now + Duration::from_millis(100) && free_at <= now + Duration::from_millis(102));
        assert_eq!(bucket.take(free_at), Ok(()), "who waits until then finds a token");
        let much_later = now + Duration::from_secs(3600);
        assert_eq!(bucket.take(much_later), Ok(()));
        assert_eq!(bucket.take(much_later), Ok(()));
        assert!(bucket.take(much_later).is_err(), "no more than a burst is saved");
    }

    #[test]
    fn what_does_not_wait_takes_from_the_others_no_more_than_there_is() {
        let now = Instant::now();
        let rate = WriteRate {
            per_second: 10.0,
            burst: 2.0,
        };
        let mut bucket = Bucket::new(rate, now);
        bucket.spend(now);
        assert_eq!(bucket.take(now), Ok(()));
        for _ in 0..100 {
            bucket.spend(now);
        }
        assert!(bucket.take(now).is_err());
        assert_eq!(bucket.take(now + Duration::from_millis(101)), Ok(()));
    }

    #[test]
    fn a_rate_of_nothing_still_lets_something_through() {
        let now = Instant::now();
        let rate = WriteRate {
            per_second: 0.0,
            burst: 0.0,
        };
        let mut bucket = Bucket::new(rate, now);
        assert_eq!(bucket.take(now), Ok(()));
        let free_at = bucket.take(now).unwrap_err();
        assert!(free_at <= now + Duration::from_secs(11));
    }
}
