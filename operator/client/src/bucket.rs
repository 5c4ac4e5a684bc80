//! The token bucket: how many hedges a client may send.

use hedgerow_config::Budget;
use tokio::time::Instant;

/// Ten calls at 10 % make one token, whatever the rounding of their sum.
const ROUNDING: f64 = 1e-9;

/// A token bucket that starts empty, gains `percent`/100 per call and `minPerSecond` per second, holds at most the
/// larger of `burst` and `percent`/100 x the calls of the last second, and loses the excess.
///
/// It is never saved up beyond that: tokens saved in quiet hours would let every call of an incident be hedged. What
/// follows from it for any stretch of time is said at [`Budget`].
#[derive(Debug)]
pub(crate) struct TokenBucket {
    /// `None` while hedging is off: then it holds nothing and gains nothing.
    budget: Option<Budget>,
    tokens: f64,
    filled: Instant,
    calls: LastSecond,
}

impl TokenBucket {
    /// An empty one, without a budget.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            budget: None,
            tokens: 0.0,
            filled: now,
            calls: LastSecond::new(now),
        }
    }

    /// The budget from now on. A smaller one shrinks what is held at once; hedging that comes back starts empty, as in a
    /// new process, whatever `minPerSecond` would have paid meanwhile.
    pub(crate) fn set_budget(&mut self, now: Instant, budget: Option<Budget>) {
        if self.budget.is_some() && budget.is_some() {
            // Up to now the old budget pays.
            self.fill(now, 0);
            self.budget = budget;
            self.fill(now, 0);
        } else {
            *self = Self {
                budget,
                ..Self::new(now)
            };
        }
    }

    /// Hedges that may be in flight at once; `None` while hedging is off.
    pub(crate) fn max_concurrent(&self) -> Option<u32> {
        self.budget.map(|budget| budget.max_concurrent)
    }

    /// Counts one call.
    pub(crate) fn call(&mut self, now: Instant) {
        self.calls.count(now);
        self.fill(now, 1);
    }

    /// Takes the token for one hedge, if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.fill(now, 0);
        let enough = self.tokens >= 1.0 - ROUNDING;
        if enough {
            self.tokens = (self.tokens - 1.0).max(0.0);
        }
        enough
    }

    /// Gains what `new_calls` and the time since the last filling pay, and loses the excess.
    fn fill(&mut self, now: Instant, new_calls: u32) {
        let Some(budget) = &self.budget else {
            return;
        };
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = self.filled.max(now);
        let share = |calls: u32| budget.percent / 100.0 * f64::from(calls);
        let holds = f64::from(budget.burst).max(share(self.calls.sum(now)));
        self.tokens = (self.tokens + share(new_calls) + budget.min_per_second * elapsed).min(holds);
    }
}

/// Counts the calls of the last second in slots of 100 ms, so of 0.9 to 1.0 s: never of more.
#[derive(Debug)]
struct LastSecond {
    start: Instant,
    /// The newest slot, counted from `start`.
    newest: u64,
    slots: [u32; LastSecond::SLOTS],
}

impl LastSecond {
    const SLOTS: usize = 10;

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
        let passed = now.saturating_duration_since(self.start);
        let slot = passed
            .as_secs()
            .saturating_mul(10)
            .saturating_add(u64::from(passed.subsec_millis() / 100));
        if slot.saturating_sub(self.newest) >= Self::SLOTS as u64 {
            self.slots = [0; Self::SLOTS];
        } else {
            for passed in self.newest + 1..=slot {
                let place = self.place(passed);
                self.slots[place] = 0;
            }
        }
        self.newest = self.newest.max(slot);
    }

    fn place(&self, slot: u64) -> usize {
        // Below SLOTS, so it fits.
        usize::try_from(slot % Self::SLOTS as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use proptest::prelude::*;

    fn budget(percent: f64) -> Budget {
        Budget {
            percent,
            burst: 10,
            min_per_second: 0.0,
            max_concurrent: 100,
        }
    }

    fn bucket(now: Instant, budget: Budget) -> TokenBucket {
        let mut bucket = TokenBucket::new(now);
        bucket.set_budget(now, Some(budget));
        bucket
    }

    /// A bucket after so many calls at once, at 10 %.
    fn after_calls(now: Instant, calls: u32) -> TokenBucket {
        let mut bucket = bucket(now, budget(10.0));
        for _ in 0..calls {
            bucket.call(now);
        }
        bucket
    }

    fn takes(bucket: &mut TokenBucket, now: Instant) -> u32 {
        (0..).find(|_| !bucket.take(now)).unwrap()
    }

    #[test]
    fn it_starts_empty() {
        let now = Instant::now();
        assert!(!bucket(now, budget(100.0)).take(now));
    }

    #[test]
    fn ten_calls_at_ten_percent_pay_for_one_hedge() {
        let now = Instant::now();
        let mut bucket = after_calls(now, 9);
        assert!(!bucket.take(now));
        bucket.call(now);
        assert_eq!(takes(&mut bucket, now), 1);
    }

    #[test]
    fn a_quiet_hour_saves_no_more_than_the_burst() {
        let mut now = Instant::now();
        let mut bucket = bucket(now, budget(10.0));
        for _ in 0..3600 {
            now += Duration::from_secs(1);
            bucket.call(now);
        }
        assert_eq!(takes(&mut bucket, now), 10);
    }

    #[test]
    fn it_holds_the_share_of_the_last_seconds_calls_when_that_is_more_than_the_burst() {
        let now = Instant::now();
        // 10 % of 500.
        assert_eq!(takes(&mut after_calls(now, 500), now), 50);
    }

    #[test]
    fn what_it_holds_shrinks_when_the_calls_of_the_last_second_have_passed() {
        let now = Instant::now();
        assert_eq!(
            takes(&mut after_calls(now, 500), now + Duration::from_secs(1)),
            10
        );
    }

    #[test]
    fn a_smaller_budget_shrinks_it_at_once() {
        let now = Instant::now();
        let mut bucket = after_calls(now, 1000);
        // 100 tokens; at 2.5 % of 1000 calls it holds 25, and that is not undone by a larger budget later.
        bucket.set_budget(now, Some(budget(2.5)));
        bucket.set_budget(now, Some(budget(100.0)));
        assert_eq!(takes(&mut bucket, now), 25);
    }

    #[test]
    fn a_larger_budget_gives_nothing_for_calls_made_before() {
        let now = Instant::now();
        let mut bucket = after_calls(now, 20);
        bucket.set_budget(now, Some(budget(100.0)));
        assert_eq!(takes(&mut bucket, now), 2);
    }

    #[test]
    fn min_per_second_pays_without_calls() {
        let start = Instant::now();
        let mut bucket = bucket(
            start,
            Budget {
                min_per_second: 0.5,
                ..budget(10.0)
            },
        );
        assert!(!bucket.take(start + Duration::from_millis(1999)));
        assert!(bucket.take(start + Duration::from_secs(2)));
        assert_eq!(takes(&mut bucket, start + Duration::from_secs(3600)), 10);
    }

    #[test]
    fn min_per_second_pays_from_its_document_on() {
        let start = Instant::now();
        let later = start + Duration::from_secs(3600);
        let paying = Budget {
            min_per_second: 1.0,
            ..budget(10.0)
        };
        // Before it paid nothing.
        let mut bucket = bucket(start, budget(10.0));
        bucket.set_budget(later, Some(paying));
        assert_eq!(takes(&mut bucket, later), 0);
        // What it paid stays.
        let (paid, later) = (later + Duration::from_secs(3), later + Duration::from_secs(60));
        bucket.set_budget(paid, Some(budget(10.0)));
        assert_eq!(takes(&mut bucket, later), 3);
    }

    #[test]
    fn hedging_that_comes_back_starts_empty() {
        let start = Instant::now();
        let later = start + Duration::from_secs(3600);
        let paying = Budget {
            min_per_second: 1.0,
            ..budget(10.0)
        };
        let mut bucket = after_calls(start, 100);
        bucket.set_budget(start, None);
        for _ in 0..100 {
            bucket.call(later);
        }
        assert_eq!(takes(&mut bucket, later), 0);
        bucket.set_budget(later, Some(paying));
        assert_eq!(takes(&mut bucket, later), 0);
    }

    /// What happens to a bucket.
    #[derive(Clone, Debug)]
    enum Step {
        /// A call, with a hedge wanted or not.
        Call(bool),
        /// Another document; `None` is off.
        Document(Option<Budget>),
    }

    fn any_budget() -> impl Strategy<Value = Budget> {
        let min_per_second = prop_oneof![3 => Just(0.0), 1 => 0.0..20.0_f64];
        let percent = prop_oneof![Just(10.0), 0.1..=100.0_f64];
        (percent, min_per_second).prop_map(|(percent, min_per_second)| Budget {
            min_per_second,
            ..budget(percent)
        })
    }

    /// Steps with the milliseconds before each: bursts and pauses.
    fn any_steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
        let pause = prop_oneof![Just(0), 0_u64..5, 0..3000_u64];
        let document = prop_oneof![1 => Just(None), 3 => any_budget().prop_map(Some)];
        let step = prop_oneof![
            40 => any::<bool>().prop_map(Step::Call),
            1 => document.prop_map(Step::Document),
        ];
        proptest::collection::vec((pause, step), 1..1500)
    }

    /// One step taken: what it may have added to the budget, and whether a hedge was sent.
    struct Taken {
        /// `percent`/100 of the document then followed for a call, and what `minPerSecond` paid since the step before.
        gained: f64,
        /// What the bucket may hold at most after it.
        holds: f64,
        hedged: bool,
    }

    proptest! {
        /// In any stretch, however long, there are no more hedges than its calls and `minPerSecond` pay and than what the
        /// bucket may hold at its start: nothing when hedging came on then, else the burst, or the share of the last
        /// second's calls. However documents change.
        #[test]
        fn hedges_in_any_stretch_stay_within_the_budget(first in any_budget(), steps in any_steps()) {
            let start = Instant::now();
            let mut bucket = bucket(start, first);
            let (mut followed, mut at) = (Some(first), 0);
            let empty = Taken { gained: 0.0, holds: 0.0, hedged: false };
            let (mut calls, mut taken) = (Vec::new(), vec![empty]);
            for (pause, step) in steps {
                at += pause;
                let now = start + Duration::from_millis(at);
                let paid = followed.map_or(0.0, |budget| budget.min_per_second * Duration::from_millis(pause).as_secs_f64());
                let share = |budget: Option<Budget>, calls: usize| budget.map_or(0.0, |budget| budget.percent / 100.0 * calls as f64);
                let last_second = |calls: &[u64]| calls.len() - calls.partition_point(|call| call + 1000 < at);
                taken.push(match step {
                    Step::Call(wanted) => {
                        bucket.call(now);
                        calls.push(at);
                        let hedged = wanted && bucket.take(now);
                        prop_assert!(followed.is_some() || !hedged, "a hedge while off");
                        let holds = followed.map_or(0.0, |_| 10.0_f64.max(share(followed, last_second(&calls))));
                        Taken { gained: paid + share(followed, 1), holds, hedged }
                    }
                    Step::Document(document) => {
                        bucket.set_budget(now, document);
                        // Hedging that comes back starts empty.
                        let stays = followed.is_some() && document.is_some();
                        followed = document;
                        let holds = if stays { 10.0_f64.max(share(followed, last_second(&calls))) } else { 0.0 };
                        Taken { gained: paid, holds, hedged: false }
                    }
                });
                prop_assert!(bucket.tokens >= 0.0 && bucket.tokens <= taken.last().unwrap().holds + 1e-9);
            }
            // From each step back: by how much hedges exceed what is paid, at most, in the stretches that begin after it.
            let mut excess = 0.0_f64;
            for step in taken.iter().rev() {
                let hedges = excess + f64::from(u8::from(step.hedged));
                prop_assert!(hedges <= step.holds + 1e-6, "{hedges} beyond what is paid, {} held", step.holds);
                excess = (hedges - step.gained).max(0.0);
            }
        }
    }
}
