//! Traffic in virtual time: simulated calls, hedged by the documents in force, observed through real bucket layouts.

use std::collections::VecDeque;
use std::time::Duration;

use hedgerow_tuner::{
    Budget, Decision, Delay, Histogram, Latency, Memory, Mode, Readings, Rules, SwitchRules, Timestamp,
    WindowReading, Windows, decide,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, LogNormal};

/// Prometheus' default bounds, in seconds.
const DEFAULT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// OpenTelemetry's for HTTP durations.
const OTEL: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];
/// Seconds between decisions.
const INTERVAL: u32 = 30;
/// Seconds until clients follow a document.
const PROPAGATION: f64 = 75.0;

/// How long attempts take.
#[derive(Clone, Copy, Debug)]
struct Service {
    /// The median in seconds.
    median: f64,
    /// The lognormal's sigma.
    sigma: f64,
    /// Share of attempts that take 20 times as long.
    slow: f64,
}

impl Service {
    fn attempt(self, rng: &mut StdRng) -> f64 {
        let seconds = LogNormal::new(self.median.ln(), self.sigma).unwrap().sample(rng);
        if rng.random_bool(self.slow) {
            seconds * 20.0
        } else {
            seconds
        }
    }
}

/// One target under simulated traffic.
struct Simulation {
    rules: Rules,
    bounds: &'static [f64],
    rng: StdRng,
    service: Service,
    calls_per_second: f64,
    /// Calls: when they began, and how long they took, in seconds. Counted when they begin: they are short.
    calls: VecDeque<(f64, f64)>,
    next_call: f64,
    now: f64,
    /// Documents: from when clients follow each.
    documents: Vec<(f64, Option<f64>, f64)>,
    tokens: f64,
    memory: Memory,
    readings: Readings,
    changes: Vec<f64>,
    hedges: u32,
    past_delay: u32,
    made: u32,
}

impl Simulation {
    fn new(service: Service, calls_per_second: f64, bounds: &'static [f64], seed: u64) -> Self {
        Self {
            rules: rules(),
            bounds,
            rng: StdRng::seed_from_u64(seed),
            service,
            calls_per_second,
            calls: VecDeque::new(),
            next_call: 0.0,
            now: 0.0,
            documents: vec![(0.0, None, 0.0)],
            tokens: 0.0,
            memory: Memory::default(),
            readings: Readings::default(),
            changes: Vec::new(),
            hedges: 0,
            past_delay: 0,
            made: 0,
        }
    }

    /// Runs for so many seconds.
    fn run(&mut self, seconds: u32) -> Decision {
        let mut decision = self.step();
        for _ in 1..seconds / INTERVAL {
            decision = self.step();
        }
        decision
    }

    fn step(&mut self) -> Decision {
        self.now += f64::from(INTERVAL);
        while self.next_call < self.now {
            let begun = self.next_call;
            self.call(begun);
            self.next_call += Exp::new(self.calls_per_second).unwrap().sample(&mut self.rng);
        }
        let longest = self.rules.windows.max_window.as_secs_f64();
        let gone = self
            .calls
            .partition_point(|&(begun, _)| begun <= self.now - longest);
        self.calls.drain(..gone);
        let at = Timestamp::from_millis(1_700_000_000_000).plus(Duration::from_secs_f64(self.now));
        let mut decision = self.decide(at);
        if decision.wants_wider {
            decision = self.decide(at);
        }
        decision
    }

    /// A call: `min(X, d + Y)`, with a token bucket as clients have it.
    fn call(&mut self, begun: f64) {
        let (_, delay, percent) = *self
            .documents
            .iter()
            .rev()
            .find(|document| document.0 <= begun)
            .unwrap();
        self.made += 1;
        self.tokens =
            (self.tokens + percent / 100.0).min(10.0_f64.max(percent / 100.0 * self.calls_per_second));
        let first = self.service.attempt(&mut self.rng);
        let took = match delay {
            Some(delay) if first > delay => {
                self.past_delay += 1;
                if self.tokens >= 1.0 {
                    self.tokens -= 1.0;
                    self.hedges += 1;
                    first.min(delay + self.service.attempt(&mut self.rng))
                } else {
                    first
                }
            }
            _ => first,
        };
        self.calls.push_back((begun, took));
    }

    fn decide(&mut self, at: Timestamp) -> Decision {
        let wanted = match self.readings.latency {
            Some(_) => {
                decide(&self.rules, &self.memory, &self.readings, at)
                    .0
                    .windows_wanted
            }
            None => vec![self.rules.windows.window],
        };
        let windows = wanted.into_iter().map(|window| self.observed(window)).collect();
        self.readings.latency = Some(Latency {
            at,
            windows: Ok(windows),
        });
        let (decision, memory) = decide(&self.rules, &self.memory, &self.readings, at);
        if decision.revision != self.memory.revision {
            self.changes.push(self.now);
            let hedging = decision.orders.hedging;
            let delay = hedging.map(|hedging| hedging.delay_ms / 1e3);
            self.documents.push((
                self.now + PROPAGATION,
                delay,
                hedging.map_or(0.0, |hedging| hedging.percent),
            ));
        }
        self.memory = memory;
        decision
    }

    fn observed(&self, window: Duration) -> WindowReading {
        let since = self.now - window.as_secs_f64();
        let first = self.calls.partition_point(|&(begun, _)| begun <= since);
        let mut counts = vec![0.0; self.bounds.len() + 1];
        let mut sum = 0.0;
        for &(_, took) in self.calls.range(first..) {
            counts[self.bounds.partition_point(|&bound| bound < took)] += 1.0;
            sum += took;
        }
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let cumulative = bounds.zip(counts).scan(0.0, |below, (bound, count)| {
            *below += count;
            Some((bound, *below))
        });
        WindowReading {
            window,
            distribution: Histogram::from_cumulative(cumulative, Some(sum), None),
            timeouts: Some(0.0),
            caveat: None,
        }
    }

    /// Starts to count: what happens from here.
    fn count_from_here(&mut self) {
        self.changes.clear();
        (self.hedges, self.past_delay, self.made) = (0, 0, 0);
    }

    /// Changes of the document per hour since counting began `seconds` ago.
    fn changes_per_hour(&self, seconds: u32) -> f64 {
        f64::from(u32::try_from(self.changes.len()).unwrap()) * 3600.0 / f64::from(seconds)
    }

    /// Share of calls that passed the delay.
    fn share_past_delay(&self) -> f64 {
        f64::from(self.past_delay) / f64::from(self.made)
    }
}

fn rules() -> Rules {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    Rules {
        mode: Mode::Enforce,
        measure: "simulated_seconds/Seconds".to_owned(),
        deadline: None,
        fan_out: None,
        delay: Delay {
            quantile: 0.95,
            min: Duration::from_millis(1),
            max: Duration::from_secs(10),
            add: Duration::ZERO,
        },
        budget: Budget {
            percent: 10.0,
            limited_by_source: false,
            max_attempts: 2,
            max_concurrent: 100,
            min_per_second: 0.0,
        },
        windows: Windows {
            window: minutes(10),
            max_window: minutes(60),
            min_samples: 400,
            low_confidence: false,
        },
        switch: SwitchRules {
            signals: Vec::new(),
            max_unknown: Duration::from_secs(90),
            cooldown: minutes(2),
            ramp_step: minutes(2),
        },
        max_staleness: minutes(5),
        propagation: Duration::from_secs(90),
    }
}

const LOGNORMAL: Service = Service {
    median: 0.04,
    sigma: 1.0,
    slow: 0.0,
};
const SLOW_MODE: Service = Service {
    median: 0.04,
    sigma: 0.5,
    slow: 0.05,
};

/// Every run: changes per hour and the share of calls past the delay, over four hours after warming up.
fn stationary(
    service: Service,
    calls_per_second: f64,
    bounds: &'static [f64],
    seeds: std::ops::Range<u64>,
) -> Vec<(f64, f64)> {
    let hours = 4 * 3600;
    seeds
        .map(|seed| {
            // The median differs from run to run, so that the percentile lies in different places of its bucket.
            let median = service.median * 1.17_f64.powi(i32::try_from(seed).unwrap());
            let mut simulation =
                Simulation::new(Service { median, ..service }, calls_per_second, bounds, seed);
            simulation.run(2 * 3600);
            simulation.count_from_here();
            simulation.run(hours);
            (simulation.changes_per_hour(hours), simulation.share_past_delay())
        })
        .collect()
}

fn assert_calm(runs: &[(f64, f64)], shares: std::ops::RangeInclusive<f64>) {
    println!("{runs:.3?}");
    for &(changes, share) in runs {
        assert!(changes <= 2.0, "{changes} changes an hour: {runs:.3?}");
        assert!(
            shares.contains(&share),
            "{share} of the calls past the delay: {runs:.3?}"
        );
    }
}

#[test]
fn lognormal_traffic_at_one_call_a_second_is_left_alone() {
    assert_calm(&stationary(LOGNORMAL, 1.0, DEFAULT, 0..6), 0.02..=0.09);
    assert_calm(&stationary(LOGNORMAL, 1.0, OTEL, 6..10), 0.02..=0.09);
}

#[test]
fn lognormal_traffic_at_ten_calls_a_second_is_left_alone() {
    assert_calm(&stationary(LOGNORMAL, 10.0, DEFAULT, 0..6), 0.02..=0.08);
    assert_calm(&stationary(LOGNORMAL, 10.0, OTEL, 6..10), 0.02..=0.08);
}

#[test]
fn a_slow_mode_of_five_per_cent_is_left_alone() {
    assert_calm(&stationary(SLOW_MODE, 1.0, DEFAULT, 0..6), 0.01..=0.09);
    assert_calm(&stationary(SLOW_MODE, 10.0, OTEL, 0..6), 0.01..=0.08);
}

#[test]
fn latency_that_grows_is_followed_and_the_hedge_share_returns() {
    let mut simulation = Simulation::new(LOGNORMAL, 10.0, OTEL, 3);
    simulation.run(3600);
    let before = simulation.step().orders.hedging.unwrap().delay_ms;
    simulation.service.median *= 2.0;
    simulation.run(3600);
    simulation.count_from_here();
    let after = simulation.run(3600).orders.hedging.unwrap().delay_ms;
    assert!((1.5..=3.0).contains(&(after / before)), "{before} to {after}");
    assert!(
        (0.02..=0.08).contains(&simulation.share_past_delay()),
        "{}",
        simulation.share_past_delay()
    );
}

#[test]
fn an_incident_with_a_drop_of_traffic_does_not_turn_hedging_on_again() {
    let mut simulation = Simulation::new(LOGNORMAL, 5.0, OTEL, 4);
    simulation.rules.deadline = Some(Duration::from_secs(1));
    simulation.rules.delay.max = Duration::from_secs(1);
    assert!(simulation.run(3600).orders.hedging.is_some());
    // Everything 40 times slower, and one call in twenty is still made.
    simulation.service.median *= 40.0;
    simulation.run(600);
    simulation.calls_per_second = 0.25;
    simulation.count_from_here();
    for _ in 0..3600 / INTERVAL {
        let decision = simulation.step();
        assert_eq!(decision.orders.hedging, None, "{decision:?}");
    }
}
