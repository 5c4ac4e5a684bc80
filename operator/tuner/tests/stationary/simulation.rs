//! A service, its clients and the operator in virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use hedgerow_tuner::{
    Budget, Decision, Delay, Histogram, Latency, Measures, Memory, Mode, NoBenefit, Plateau, Readings, Rules,
    SwitchRules, Timestamp, WindowReading, Windows, decide,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, LogNormal};

/// Prometheus' default bounds, in seconds.
pub(crate) const DEFAULT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// OpenTelemetry's for HTTP durations.
pub(crate) const OTEL: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];
/// Seconds between decisions.
pub(crate) const INTERVAL: u32 = 30;
/// Seconds until clients follow a document.
pub(crate) const PROPAGATION: f64 = 75.0;

/// How long attempts take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    /// The median in seconds.
    pub(crate) median: f64,
    /// The shape.
    pub(crate) shape: Shape,
}

/// The shape of a distribution with a median of 1.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Lognormal, with a share of attempts that take 20 times as long.
    Lognormal {
        /// Its sigma.
        sigma: f64,
        /// The share.
        slow: f64,
    },
    /// The help-desk case: p50 0.15, p95 0.5, p98 1.0, p99 3.0 s, at most 6 s; log-linear between these.
    HelpDesk,
}

impl Service {
    pub(crate) fn attempt(self, rng: &mut StdRng) -> f64 {
        self.median
            * match self.shape {
                Shape::Lognormal { sigma, slow } => {
                    let times = LogNormal::new(0.0, sigma).unwrap().sample(rng);
                    if rng.random_bool(slow) {
                        times * 20.0
                    } else {
                        times
                    }
                }
                Shape::HelpDesk => help_desk_quantile(rng.random_range(0.0..1.0)) / 0.15,
            }
    }
}

/// The `p`-quantile of the help-desk case, in seconds.
pub(crate) fn help_desk_quantile(p: f64) -> f64 {
    let marks: [(f64, f64); 6] = [
        (0.0, 0.05),
        (0.5, 0.15),
        (0.95, 0.5),
        (0.98, 1.0),
        (0.99, 3.0),
        (1.0, 6.0),
    ];
    let upper = marks.iter().position(|&(mark, _)| p < mark).unwrap();
    let ((p0, t0), (p1, t1)) = (marks[upper - 1], marks[upper]);
    t0 * (t1 / t0).powf((p - p0) / (p1 - p0))
}

/// One target under simulated traffic.
pub(crate) struct Simulation {
    pub(crate) rules: Rules,
    pub(crate) bounds: &'static [f64],
    pub(crate) rng: StdRng,
    pub(crate) service: Service,
    pub(crate) calls_per_second: f64,
    /// Calls: when they began, and how long they took, in seconds. Counted when they begin: they are short.
    pub(crate) calls: VecDeque<(f64, f64)>,
    pub(crate) next_call: f64,
    pub(crate) now: f64,
    /// Documents: from when clients follow each.
    pub(crate) documents: Vec<(f64, Option<f64>, f64)>,
    pub(crate) tokens: f64,
    /// Clients do not follow documents.
    pub(crate) deaf: bool,
    pub(crate) memory: Memory,
    pub(crate) readings: Readings,
    pub(crate) changes: Vec<f64>,
    pub(crate) hedges: u32,
    pub(crate) past_delay: u32,
    pub(crate) made: u32,
}

impl Simulation {
    pub(crate) fn new(service: Service, calls_per_second: f64, bounds: &'static [f64], seed: u64) -> Self {
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
            deaf: false,
            memory: Memory::default(),
            readings: Readings::default(),
            changes: Vec::new(),
            hedges: 0,
            past_delay: 0,
            made: 0,
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

    pub(crate) fn step(&mut self) -> Decision {
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
    pub(crate) fn call(&mut self, begun: f64) {
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
            Some(delay) if first > delay && !self.deaf => {
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

    pub(crate) fn decide(&mut self, at: Timestamp) -> Decision {
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

    pub(crate) fn observed(&self, window: Duration) -> WindowReading {
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
            cancelled: None,
            timeouts: Some(0.0),
            caveat: None,
        }
    }

    /// Starts to count: what happens from here.
    pub(crate) fn count_from_here(&mut self) {
        self.changes.clear();
        (self.hedges, self.past_delay, self.made) = (0, 0, 0);
    }

    /// Changes of the document in the worst hour since counting began, whichever hour that is.
    pub(crate) fn changes_in_the_worst_hour(&self) -> usize {
        let within_an_hour_of = |begun: f64| {
            self.changes
                .iter()
                .filter(|&&at| at >= begun && at < begun + 3600.0)
                .count()
        };
        self.changes
            .iter()
            .map(|&begun| within_an_hour_of(begun))
            .max()
            .unwrap_or(0)
    }

    /// Share of calls that passed the delay.
    pub(crate) fn share_past_delay(&self) -> f64 {
        f64::from(self.past_delay) / f64::from(self.made)
    }
}

pub(crate) fn rules() -> Rules {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    Rules {
        mode: Mode::Enforce,
        measure: "simulated_seconds/Seconds".to_owned(),
        measures: Measures::default(),
        counted: false,
        no_benefit: NoBenefit::default(),
        deadline: None,
        fan_out: None,
        delay: Delay {
            quantile: 0.95,
            min: Duration::from_millis(1),
            max: Duration::from_secs(10),
            add: Duration::ZERO,
            plateau: Plateau::Ignore,
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

pub(crate) const LOGNORMAL: Service = Service {
    median: 0.04,
    shape: Shape::Lognormal {
        sigma: 1.0,
        slow: 0.0,
    },
};
pub(crate) const SLOW_MODE: Service = Service {
    median: 0.04,
    shape: Shape::Lognormal {
        sigma: 0.5,
        slow: 0.05,
    },
};
pub(crate) const HELP_DESK: Service = Service {
    median: 0.15,
    shape: Shape::HelpDesk,
};
