//! A service, its clients and the operator in virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use hedgerow_tuner::{
    Counts, Decision, Histogram, Latency, Memory, Readings, Rules, Signal, SignalValue, Timestamp, Unknown,
    UnknownReason, WindowCounts, WindowReading, decide,
};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp};

use crate::common::rules;
use crate::service::Service;

/// Seconds between decisions.
pub(crate) const INTERVAL: u32 = 30;
/// Seconds until clients follow a document.
pub(crate) const PROPAGATION: f64 = 75.0;

/// One target under simulated traffic.
pub(crate) struct Simulation {
    pub(crate) rules: Rules,
    pub(crate) service: Service,
    pub(crate) calls_per_second: f64,
    /// Clients do not follow documents.
    pub(crate) deaf: bool,
    /// Clients hedge so many times as many calls as their budget allows.
    pub(crate) overspend: f64,
    /// Clients count what they keep back.
    pub(crate) blocked_known: bool,
    /// The counters cannot be read.
    pub(crate) counters_lost: bool,
    /// Calls beyond the deadline are cut off there, and are counted but not observed.
    pub(crate) cut_at: Option<f64>,
    /// What the saturation signal says: one value per series.
    pub(crate) queue: Vec<f64>,
    pub(crate) rng: StdRng,
    pub(crate) now: f64,
    pub(crate) memory: Memory,
    pub(crate) counted: Counted,
    pub(crate) changes: Vec<f64>,
    bounds: &'static [f64],
    next_call: f64,
    tokens: f64,
    /// Documents: from when clients follow each, its delay in seconds and its budget.
    documents: Vec<(f64, Option<f64>, f64)>,
    readings: Readings,
    /// What each interval saw, oldest first. Calls count when they begin: they are short.
    seen: VecDeque<Interval>,
}

/// What one interval saw.
#[derive(Clone, Debug)]
struct Interval {
    /// Calls per bucket.
    buckets: Vec<f64>,
    seconds: f64,
    timeouts: f64,
    counted: Counted,
}

/// What is counted of calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) calls: f64,
    pub(crate) past_delay: f64,
    pub(crate) hedges: f64,
    pub(crate) wins: f64,
    /// Calls that took longer than six medians.
    pub(crate) slow: f64,
}

impl Counted {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.past_delay += other.past_delay;
        self.hedges += other.hedges;
        self.wins += other.wins;
        self.slow += other.slow;
    }
}

impl Simulation {
    pub(crate) fn new(service: Service, calls_per_second: f64, bounds: &'static [f64], seed: u64) -> Self {
        Self {
            rules: rules(),
            service,
            calls_per_second,
            deaf: false,
            overspend: 1.0,
            blocked_known: true,
            counters_lost: false,
            cut_at: None,
            queue: Vec::new(),
            rng: StdRng::seed_from_u64(seed),
            now: 0.0,
            memory: Memory::default(),
            counted: Counted::default(),
            changes: Vec::new(),
            bounds,
            next_call: 0.0,
            tokens: 0.0,
            documents: vec![(0.0, None, 0.0)],
            readings: Readings::default(),
            seen: VecDeque::new(),
        }
    }

    /// Runs for so many seconds.
    pub(crate) fn run(&mut self, seconds: u32) -> Decision {
        let mut decision = self.step();
        for _ in 1..seconds / INTERVAL {
            decision = self.step();
        }
        decision
    }

    /// One interval of calls, and a decision.
    pub(crate) fn step(&mut self) -> Decision {
        self.now += f64::from(INTERVAL);
        self.seen.push_back(Interval {
            buckets: vec![0.0; self.bounds.len() + 1],
            seconds: 0.0,
            timeouts: 0.0,
            counted: Counted::default(),
        });
        while self.next_call < self.now {
            let begun = self.next_call;
            self.call(begun);
            self.next_call += Exp::new(self.calls_per_second).unwrap().sample(&mut self.rng);
        }
        self.counted.add(&self.seen.back().unwrap().counted);
        let longest = intervals(self.rules.windows.max_window.max(Duration::from_secs(3600)));
        while self.seen.len() > longest {
            self.seen.pop_front();
        }
        let at = Timestamp::from_millis(1_700_000_000_000).plus(Duration::from_secs_f64(self.now));
        let mut decision = self.decide(at);
        if decision.wants_wider {
            decision = self.decide(at);
        }
        decision
    }

    /// A call: `min(X, d + Y)`, with a token bucket as clients have it.
    fn call(&mut self, begun: f64) {
        let followed = self.documents.iter().rev().find(|document| document.0 <= begun);
        let (_, delay, percent) = *followed.unwrap();
        let share = percent / 100.0 * self.overspend;
        self.tokens = (self.tokens + share).min(10.0_f64.max(share * self.calls_per_second));
        let first = self.service.attempt(&mut self.rng);
        let mut counted = Counted {
            calls: 1.0,
            ..Counted::default()
        };
        let mut took = first;
        if let Some(delay) = delay.filter(|&delay| first > delay && !self.deaf) {
            counted.past_delay = 1.0;
            if self.tokens >= 1.0 {
                self.tokens -= 1.0;
                counted.hedges = 1.0;
                took = first.min(delay + self.service.attempt(&mut self.rng));
                counted.wins = f64::from(u8::from(took < first));
            }
        }
        counted.slow = f64::from(u8::from(took > 6.0 * self.service.median));
        let seen = self.seen.back_mut().unwrap();
        seen.counted.add(&counted);
        if self.cut_at.is_some_and(|cut| took > cut) {
            seen.timeouts += 1.0;
        } else {
            seen.buckets[self.bounds.partition_point(|&bound| bound < took)] += 1.0;
            seen.seconds += took;
        }
    }

    fn decide(&mut self, at: Timestamp) -> Decision {
        let (latency, counts) = match self.readings.latency {
            Some(_) => {
                let decision = decide(&self.rules, &self.memory, &self.readings, at).0;
                (decision.windows_wanted, decision.counts_wanted)
            }
            None => (vec![self.rules.windows.window], Vec::new()),
        };
        self.readings.latency = Some(Latency {
            at,
            windows: Ok(latency.into_iter().map(|window| self.observed(window)).collect()),
        });
        self.readings.counts = self.rules.counted.then(|| Counts {
            at,
            windows: match self.counters_lost {
                false => Ok(counts.into_iter().map(|window| self.counts(window)).collect()),
                true => Err(Unknown::new(UnknownReason::Unavailable, "for a test")),
            },
        });
        let signal = |_: &_| {
            Some(Signal {
                at,
                scrape_interval: Some(Duration::from_secs(15)),
                value: Ok(SignalValue::Series(self.queue.clone())),
            })
        };
        self.readings.signals = self.rules.switch.signals.iter().map(signal).collect();
        let (decision, memory) = decide(&self.rules, &self.memory, &self.readings, at);
        if decision.revision != self.memory.revision {
            self.changes.push(self.now);
            let hedging = decision.orders.hedging;
            let delay = hedging.map(|hedging| hedging.delay_ms / 1e3);
            let percent = hedging.map_or(0.0, |hedging| hedging.percent);
            self.documents.push((self.now + PROPAGATION, delay, percent));
        }
        self.memory = memory;
        decision
    }

    fn last(&self, window: Duration) -> impl Iterator<Item = &Interval> {
        self.seen.iter().rev().take(intervals(window))
    }

    fn observed(&self, window: Duration) -> WindowReading {
        let mut counts = vec![0.0; self.bounds.len() + 1];
        let (mut sum, mut timeouts) = (0.0, 0.0);
        for interval in self.last(window) {
            for (count, calls) in counts.iter_mut().zip(&interval.buckets) {
                *count += calls;
            }
            sum += interval.seconds;
            timeouts += interval.timeouts;
        }
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let cumulative = bounds.zip(counts).scan(0.0, |below, (bound, count)| {
            *below += count;
            Some((bound, *below))
        });
        WindowReading {
            window,
            distribution: Histogram::from_cumulative(cumulative, Some(sum), None),
            cancelled: None,
            timeouts: Some(timeouts),
            caveat: None,
        }
    }

    fn counts(&self, window: Duration) -> WindowCounts {
        let mut counted = Counted::default();
        for interval in self.last(window) {
            counted.add(&interval.counted);
        }
        WindowCounts {
            window,
            calls: counted.calls,
            hedges: counted.hedges,
            blocked: self.blocked_known.then_some(counted.past_delay - counted.hedges),
            wins: Some(counted.wins),
        }
    }

    /// Starts to count: what happens from here.
    pub(crate) fn count_from_here(&mut self) {
        self.changes.clear();
        self.counted = Counted::default();
    }

    /// Changes of the document in the worst hour since counting began, whichever hour that is.
    pub(crate) fn changes_in_the_worst_hour(&self) -> usize {
        let within_an_hour_of = |begun: f64| {
            let within = |&&at: &&f64| at >= begun && at < begun + 3600.0;
            self.changes.iter().filter(within).count()
        };
        let worst = self.changes.iter().map(|&begun| within_an_hour_of(begun)).max();
        worst.unwrap_or(0)
    }

    /// Share of calls that passed the delay.
    pub(crate) fn share_past_delay(&self) -> f64 {
        self.counted.past_delay / self.counted.calls
    }

    /// Share of calls that were hedged.
    pub(crate) fn hedge_share(&self) -> f64 {
        self.counted.hedges / self.counted.calls
    }

    /// Share of calls that took longer than six medians.
    pub(crate) fn slow_share(&self) -> f64 {
        self.counted.slow / self.counted.calls
    }
}

fn intervals(window: Duration) -> usize {
    usize::try_from(window.as_secs() / u64::from(INTERVAL)).unwrap()
}
