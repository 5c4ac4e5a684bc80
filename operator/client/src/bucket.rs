//! The token bucket: how many hedges a client may send.

use std::time::Duration;

use hedgerow_config::Budget;
use tokio::time::Instant;

/// Ten calls at 10 % make one token, whatever the rounding of their sum.
const ROUNDING: f64 = 1e-9;

/// A token bucket that starts empty, gains `percent`/100 per call and `minPerSecond` per second, holds at most the
/// larger of `burst` and `percent`/100 x the calls of the last second, and loses the excess.
///
/// It is never saved up beyond that: tokens saved in quiet hours would let every call of an incident be hedged. The
/// budget comes with each operation, so a smaller one holds from the next call on.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    tokens: f64,
    filled: Instant,
    calls: LastSecond,
}

impl TokenBucket {
    /// An empty one.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            tokens: 0.0,
            filled: now,
            calls: LastSecond::new(now),
        }
    }

    /// Counts one call.
    pub(crate) fn call(&mut self, now: Instant, budget: &Budget) {
        self.calls.count(now);
        self.fill(now, budget, budget.percent / 100.0);
    }

    /// Takes the token for one hedge, if there is one.
    pub(crate) fn take(&mut self, now: Instant, budget: &Budget) -> bool {
        self.fill(now, budget, 0.0);
        let enough = self.tokens >= 1.0 - ROUNDING;
        if enough {
            self.tokens = (self.tokens - 1.0).max(0.0);
        }
        enough
    }

    /// Loses everything: hedging that comes back starts empty, as in a new process.
    pub(crate) fn empty(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    fn fill(&mut self, now: Instant, budget: &Budget, gain: f64) {
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = self.filled.max(now);
        let holds = f64::from(budget.burst).max(budget.percent / 100.0 * f64::from(self.calls.sum(now)));
        self.tokens = (self.tokens + gain + budget.min_per_second * elapsed).min(holds);
    }
}

/// Counts the calls of the last second in slots of 100 ms, so of 0.9 to 1.0 s: never of more.
#[derive(Debug)]
struct LastSecond {
    start: Instant,
    /// The newest slot, counted from `start`.
    newest: u128,
    slots: [u32; LastSecond::SLOTS],
}

impl LastSecond {
    const SLOTS: usize = 10;
    const SLOT: Duration = Duration::from_millis(100);

    fn new(now: Instant) -> Self {
        Self {
            start: now,
            newest: 0,
            slots: [0; Self::SLOTS],
        }
    }

    fn count(&mut self, now: Instant) {
        self.turn(now);
        let newest = self.place(self.newest);
        self.slots[newest] = self.slots[newest].saturating_add(1);
    }

    fn sum(&mut self, now: Instant) -> u32 {
        self.turn(now);
        self.slots.iter().fold(0, |sum, slot| sum.saturating_add(*slot))
    }

    /// Forgets what is older than a second.
    fn turn(&mut self, now: Instant) {
        let slot = now.saturating_duration_since(self.start).as_nanos() / Self::SLOT.as_nanos();
        if slot.saturating_sub(self.newest) >= Self::SLOTS as u128 {
            self.slots = [0; Self::SLOTS];
        } else {
            for passed in self.newest + 1..=slot {
                let place = self.place(passed);
                self.slots[place] = 0;
            }
        }
        self.newest = self.newest.max(slot);
    }

    fn place(&self, slot: u128) -> usize {
        // Below SLOTS, so it fits.
        usize::try_from(slot % Self::SLOTS as u128).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn budget(percent: f64) -> Budget {
        Budget {
            percent,
            burst: 10,
            min_per_second: 0.0,
            max_concurrent: 100,
        }
    }

    fn takes(bucket: &mut TokenBucket, now: Instant, budget: &Budget) -> u32 {
        (0..).find(|_| !bucket.take(now, budget)).unwrap()
    }

    #[test]
    fn it_starts_empty() {
        let now = Instant::now();
        assert!(!TokenBucket::new(now).take(now, &budget(100.0)));
    }

    #[test]
    fn ten_calls_at_ten_percent_pay_for_one_hedge() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(now);
        for _ in 0..9 {
            bucket.call(now, &budget(10.0));
        }
        assert!(!bucket.take(now, &budget(10.0)));
        bucket.call(now, &budget(10.0));
        assert!(bucket.take(now, &budget(10.0)));
        assert!(!bucket.take(now, &budget(10.0)));
    }

    #[test]
    fn a_quiet_hour_saves_no_more_than_the_burst() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(start);
        let mut now = start;
        for _ in 0..3600 {
            now += Duration::from_secs(1);
            bucket.call(now, &budget(10.0));
        }
        assert_eq!(takes(&mut bucket, now, &budget(10.0)), 10);
    }

    #[test]
    fn it_holds_the_share_of_the_last_seconds_calls_when_that_is_more_than_the_burst() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(now);
        for _ in 0..500 {
            bucket.call(now, &budget(10.0));
        }
        // 10 % of 500.
        assert_eq!(takes(&mut bucket, now, &budget(10.0)), 50);
    }

    #[test]
    fn what_it_holds_shrinks_when_the_calls_of_the_last_second_have_passed() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(now);
        for _ in 0..500 {
            bucket.call(now, &budget(10.0));
        }
        assert_eq!(
            takes(&mut bucket, now + Duration::from_secs(1), &budget(10.0)),
            10
        );
    }

    #[test]
    fn a_smaller_budget_shrinks_it_at_once() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(now);
        for _ in 0..1000 {
            bucket.call(now, &budget(10.0));
        }
        // 100 tokens; at 2.5 % of 1000 calls it holds 25.
        assert_eq!(takes(&mut bucket, now, &budget(2.5)), 25);
    }

    #[test]
    fn min_per_second_pays_without_calls() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(start);
        let budget = Budget {
            min_per_second: 0.5,
            ..budget(10.0)
        };
        assert!(!bucket.take(start + Duration::from_millis(1999), &budget));
        assert!(bucket.take(start + Duration::from_secs(2), &budget));
        assert_eq!(takes(&mut bucket, start + Duration::from_secs(3600), &budget), 10);
    }

    #[test]
    fn hedging_that_comes_back_starts_empty() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(now);
        for _ in 0..100 {
            bucket.call(now, &budget(10.0));
        }
        bucket.empty(now);
        assert!(!bucket.take(now, &budget(10.0)));
    }

    proptest! {
        /// In any 10 s there are no more hedges than `percent` of the calls, the burst, and `minPerSecond` allow. What
        /// the bucket holds at the start of the 10 s may come from the second before.
        #[test]
        fn hedges_in_any_ten_seconds_stay_within_the_budget(
            percent in 0.1..=100.0_f64,
            min_per_second in prop_oneof![Just(0.0), 0.0..20.0_f64],
            // Milliseconds since the last call, and whether a hedge is wanted: bursts and pauses.
            calls in proptest::collection::vec((prop_oneof![Just(0), 0_u64..5, 0..3000_u64], any::<bool>()), 1..2000),
        ) {
            let budget = Budget { percent, burst: 10, min_per_second, max_concurrent: 100 };
            let start = Instant::now();
            let mut bucket = TokenBucket::new(start);
            let (mut at, mut called, mut hedged) = (0, Vec::new(), Vec::new());
            for (pause, wanted) in calls {
                at += pause;
                let now = start + Duration::from_millis(at);
                bucket.call(now, &budget);
                called.push(at);
                if wanted && bucket.take(now, &budget) {
                    hedged.push(at);
                }
            }
            let within = |times: &[u64], from: u64, to: u64| {
                times.partition_point(|at| *at < to) - times.partition_point(|at| *at < from)
            };
            for from in &hedged {
                let hedges = within(&hedged, *from, from + 10_000) as f64;
                let calls = within(&called, from.saturating_sub(1000), from + 10_000) as f64;
                let allowed = percent / 100.0 * calls + 10.0 + 10.0 * min_per_second;
                prop_assert!(hedges <= allowed + 1e-6, "{hedges} hedges, {allowed} allowed from {from} ms on");
            }
        }

        #[test]
        fn it_never_holds_less_than_nothing_or_more_than_it_may(
            steps in proptest::collection::vec((0_u64..400, 0.1..=100.0_f64, any::<bool>()), 1..500),
        ) {
            let mut now = Instant::now();
            let mut bucket = TokenBucket::new(now);
            let mut calls = 0.0;
            for (pause, percent, call) in steps {
                now += Duration::from_millis(pause);
                if call {
                    calls += 1.0;
                    bucket.call(now, &budget(percent));
                } else {
                    bucket.take(now, &budget(percent));
                }
                prop_assert!(bucket.tokens >= 0.0 && bucket.tokens <= 10.0_f64.max(percent / 100.0 * calls));
            }
        }
    }
}
