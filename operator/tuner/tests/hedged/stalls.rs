//! Replicas that stand still at the same moments, 0.15 s of each 6: call by call, as clients with a budget hedge it. Longer
//! stalls spend that budget, and what is kept back in them hides what hedges would have found.

use std::collections::VecDeque;
use std::time::Duration;

use hedgerow_tuner::{
    Counts, Decision, DiagnosisReason, Hedging, Histogram, Latency, Memory, Readings, Rules, Timestamp,
    WindowCounts, WindowReading, decide,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Exp};

use crate::common::{self, help_desk_quantile};
use crate::traffic::client_bounds;

/// Queries a second, and the calls of each.
const QUERIES: f64 = 20.0;
const SHARDS: u32 = 8;
/// What a call may take, in seconds.
const DEADLINE: f64 = 1.0;
/// Until clients follow a document, in seconds.
const PROPAGATION: f64 = 1.0;
/// Latency and counters are read so often, in seconds.
const INTERVAL: u32 = 5;
/// All replicas stand still for this time of each ...
const STALL: f64 = 0.15;
/// ... such time, in seconds.
const EVERY: f64 = 6.0;
const RUNS: u64 = 20;

/// Those of the policy of that case, whose intervals are short.
fn rules() -> Rules {
    let mut rules = common::rules();
    rules.counted = true;
    rules.deadline = Some(Duration::from_secs_f64(DEADLINE));
    // Until it is known that replicas are slow together, calls that a hedge did not help make single attempts look slower than
    // they are, and the delay longer than the stalls: one that has room to either side rests for the minute that it takes.
    rules.delay.min = Duration::from_millis(40);
    rules.delay.max = Duration::from_secs_f64(DEADLINE);
    rules.windows.window = Duration::from_secs(60);
    // A first delay that is placed on half a minute of them: on less it stands in a stall, or between two.
    rules.windows.min_samples = 5000;
    rules.switch.cooldown = Duration::from_secs(10);
    rules.switch.ramp_step = Duration::from_secs(2);
    rules.propagation = Duration::from_secs(2);
    rules
}

/// What ended, or was counted, in one second.
#[derive(Clone, Default)]
struct Second {
    buckets: Vec<f64>,
    counts: [f64; 4],
}

struct Stalls {
    random: StdRng,
    seconds: VecDeque<Second>,
    tokens: f64,
    told: Option<Hedging>,
}

impl Stalls {
    fn new(seed: u64) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            seconds: vec![Second::default(); 3600].into(),
            tokens: 0.0,
            told: None,
        }
    }

    /// One attempt that begins at `at`, in seconds.
    fn attempt(&mut self, at: f64) -> f64 {
        let stands_still = (STALL - at % EVERY).max(0.0);
        stands_still + 0.02 * help_desk_quantile(self.random.random_range(0.0..1.0))
    }

    fn call(&mut self, at: f64) {
        let first = self.attempt(at);
        let (mut took, mut counts) = (first, [1.0, 0.0, 0.0, 0.0]);
        if let Some(told) = self.told {
            let (delay, share) = (told.delay_ms / 1e3, told.percent / 100.0);
            self.tokens = (self.tokens + share).min(10.0_f64.max(share * QUERIES * f64::from(SHARDS)));
            if first.min(DEADLINE) > delay {
                let due = self.tokens >= 1.0 && DEADLINE - delay >= told.min_remaining_ms / 1e3;
                if due {
                    self.tokens -= 1.0;
                    let hedge = delay + self.attempt(at + delay);
                    took = first.min(hedge);
                    counts[1] = 1.0;
                    counts[3] = f64::from(u8::from(hedge < first.min(DEADLINE)));
                } else {
                    counts[2] = 1.0;
                }
            }
        }
        let took = took.min(DEADLINE);
        let bounds = client_bounds();
        let second = &mut self.seconds[(at + took) as usize];
        second.buckets.resize(bounds.len() + 1, 0.0);
        second.buckets[bounds.partition_point(|bound| *bound < took)] += 1.0;
        let second = &mut self.seconds[at as usize];
        second
            .counts
            .iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
    }

    /// The seconds of a window that ends at `now`.
    fn within(&self, now: u32, window: Duration) -> impl Iterator<Item = &Second> {
        let from = u64::from(now).saturating_sub(window.as_secs());
        self.seconds.range(from as usize..now as usize)
    }

    fn observed(&self, now: u32, window: Duration) -> WindowReading {
        let mut below = 0.0;
        let bounds = client_bounds().into_iter().chain([f64::INFINITY]).enumerate();
        let cumulative = bounds.map(|(bucket, bound)| {
            let ended = self
                .within(now, window)
                .filter_map(|second| second.buckets.get(bucket));
            below += ended.sum::<f64>();
            (bound, below)
        });
        WindowReading {
            window,
            distribution: Histogram::from_cumulative(cumulative, None, None),
            cancelled: None,
            timeouts: None,
            caveat: None,
        }
    }

    fn counted(&self, now: u32, window: Duration) -> WindowCounts {
        let sum = |which: usize| {
            self.within(now, window)
                .map(|second| second.counts[which])
                .sum::<f64>()
        };
        WindowCounts {
            window,
            calls: sum(0),
            hedges: sum(1),
            blocked: Some(sum(2)),
            wins: Some(sum(3)),
        }
    }

    /// When it is said that replicas are slow together, and whether hedging was off by then, in two minutes.
    fn said(mut self) -> (Option<u32>, bool) {
        let (rules, mut memory, mut readings) = (rules(), Memory::default(), Readings::default());
        let (mut documents, mut decision) = (VecDeque::new(), None::<Decision>);
        let gap = Exp::new(QUERIES).unwrap();
        let mut next = gap.sample(&mut self.random);
        let mut off = false;
        for now in 1..=120_u32 {
            while next < f64::from(now) {
                while documents.front().is_some_and(|(from, _)| *from <= next) {
                    self.told = documents.pop_front().and_then(|(_, told)| told);
                }
                (0..SHARDS).for_each(|_| self.call(next));
                next += gap.sample(&mut self.random);
            }
            let at = Timestamp::from_millis(1_700_000_000_000).plus(Duration::from_secs(now.into()));
            if now.is_multiple_of(INTERVAL) {
                let wanted = |of: fn(&Decision) -> &Vec<Duration>| decision.as_ref().map(of).cloned();
                let windows =
                    wanted(|decision| &decision.windows_wanted).unwrap_or(vec![rules.windows.window]);
                let counts = wanted(|decision| &decision.counts_wanted).unwrap_or_default();
                readings.latency = Some(Latency {
                    at,
                    windows: Ok(windows.iter().map(|&window| self.observed(now, window)).collect()),
                });
                readings.counts = Some(Counts {
                    at,
                    windows: Ok(counts.iter().map(|&window| self.counted(now, window)).collect()),
                });
            }
            let (decided, remembered) = decide(&rules, &memory, &readings, at);
            if decided.revision != memory.revision {
                documents.push_back((f64::from(now) + PROPAGATION, decided.orders.hedging));
            }
            off |= memory.lets_hedge() && decided.orders.hedging.is_none();
            let said =
                |diagnosis: &hedgerow_tuner::Diagnosis| diagnosis.reason == DiagnosisReason::SlowTogether;
            if decided.diagnoses.iter().any(said) {
                return (Some(now), off);
            }
            (memory, decision) = (remembered, Some(decided));
        }
        (None, off)
    }
}

#[test]
fn stalls_that_all_replicas_share_are_told_within_two_minutes_while_hedging_is_on() {
    let runs: Vec<_> = (0..RUNS).map(|seed| Stalls::new(seed).said()).collect();
    let found = runs.iter().filter(|(said, off)| said.is_some() && !off).count();
    assert!(found as u64 * 10 >= RUNS * 9, "{runs:?}");
}
