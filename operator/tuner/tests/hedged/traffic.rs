//! A service, its clients and the operator.

use std::collections::VecDeque;
use std::time::Duration;

use hedgerow_tuner::{
    Counts, Decision, DiagnosisReason, Histogram, Latency, Line, Memory, Plateau, Readings, Rules, Signal,
    SignalRules, SignalValue, Timestamp, WindowCounts, WindowReading, decide,
};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Binomial, Distribution, Poisson};

use crate::common;
use crate::service::{Attempts, Service};

/// Those of Hedgerow's client, from 1 ms, each half as large again.
pub(crate) fn client_bounds() -> Vec<f64> {
    (0..29).map(|power| 0.001 * 1.5_f64.powi(power)).collect()
}

/// Seconds until clients follow a document.
const PROPAGATION: f64 = 75.0;

/// What was observed and counted in one step.
#[derive(Clone, Debug, Default)]
struct Step {
    /// When it ends, in seconds.
    at: f64,
    /// Calls per bucket.
    buckets: Vec<f64>,
    calls: f64,
    hedges: f64,
    blocked: f64,
    wins: f64,
}

/// One target.
pub(crate) struct Traffic {
    pub(crate) rules: Rules,
    pub(crate) service: Service,
    pub(crate) calls_per_second: f64,
    /// Seconds between decisions.
    pub(crate) step: f64,
    /// What the queue says.
    pub(crate) queue: f64,
    /// A hedge never wins.
    pub(crate) never_wins: bool,
    /// Clients count other calls: as many, of which this share passes the delay.
    pub(crate) counted_elsewhere: Option<f64>,
    bounds: Vec<f64>,
    rng: StdRng,
    now: f64,
    /// Documents: from when clients follow each, its delay in seconds, its budget in hedges per call.
    documents: Vec<(f64, Option<f64>, f64)>,
    steps: VecDeque<Step>,
    memory: Memory,
    decision: Option<Decision>,
    /// What was said, each time that it began.
    pub(crate) begun: Vec<DiagnosisReason>,
}

impl Traffic {
    pub(crate) fn new(service: Service, bounds: &[f64], seed: u64) -> Self {
        Self {
            rules: rules(),
            service,
            calls_per_second: 10.0,
            step: 300.0,
            queue: 3.0,
            never_wins: false,
            counted_elsewhere: None,
            bounds: bounds.to_vec(),
            rng: StdRng::seed_from_u64(seed),
            now: 0.0,
            documents: vec![(0.0, None, 0.0)],
            steps: VecDeque::new(),
            memory: Memory::default(),
            decision: None,
            begun: Vec::new(),
        }
    }

    /// Whether `reason` is said now.
    pub(crate) fn says(&self, reason: DiagnosisReason) -> bool {
        let diagnoses = self.decision.iter().flat_map(|decision| &decision.diagnoses);
        diagnoses.into_iter().any(|diagnosis| diagnosis.reason == reason)
    }

    pub(crate) fn decision(&self) -> &Decision {
        self.decision.as_ref().unwrap()
    }

    /// Runs for so many seconds.
    pub(crate) fn run(&mut self, seconds: f64) {
        let end = self.now + seconds;
        while self.now < end {
            self.one_step();
        }
    }

    pub(crate) fn one_step(&mut self) {
        let (from, until) = (self.now, self.now + self.step);
        let mut step = Step {
            at: until,
            buckets: vec![0.0; self.bounds.len() + 1],
            ..Step::default()
        };
        let documents = self.documents.clone();
        for (index, &(begins, delay, budget)) in documents.iter().enumerate() {
            let ends = documents.get(index + 1).map_or(f64::INFINITY, |next| next.0);
            let seconds = ends.min(until) - begins.max(from);
            if seconds > 0.0 {
                self.calls(&mut step, seconds, delay, budget);
            }
        }
        self.documents.drain(
            ..documents
                .iter()
                .rposition(|document| document.0 <= until)
                .unwrap_or(0),
        );
        self.steps.push_back(step);
        let day = (86_400.0 / self.step) as usize + 1;
        self.steps.drain(..self.steps.len().saturating_sub(day));
        self.now = until;
        self.decide();
    }

    /// Draws the calls of some seconds.
    fn calls(&mut self, step: &mut Step, seconds: f64, delay: Option<f64>, budget: f64) {
        let kinds = std::mem::take(&mut self.service.kinds);
        let calls = Poisson::new(self.calls_per_second * seconds)
            .unwrap()
            .sample(&mut self.rng);
        let passed: f64 = delay.map_or(0.0, |delay| {
            kinds
                .iter()
                .map(|(share, attempts)| share * attempts.survival(delay))
                .sum()
        });
        let hedged = if passed > 0.0 {
            (budget / passed).min(1.0)
        } else {
            1.0
        };
        let (mut left, mut share_left) = (calls, 1.0);
        let (mut due, mut sent, mut won) = (0.0, 0.0, 0.0);
        for (share, attempts) in &kinds {
            let of_kind = draw(&mut self.rng, left, share / share_left);
            (left, share_left) = (left - of_kind, share_left - share);
            let Some(delay) = delay else {
                self.scatter(step, of_kind, 0.0, |t| attempts.survival(t));
                continue;
            };
            let passed = draw(&mut self.rng, of_kind, attempts.survival(delay));
            let hedges = draw(&mut self.rng, passed, hedged);
            self.scatter(step, of_kind - passed, 0.0, |t| {
                attempts.survival(t.min(delay)) - attempts.survival(delay)
            });
            self.scatter(step, passed - hedges, delay, |t| attempts.survival(t));
            let never_wins = self.never_wins;
            self.scatter(step, hedges, delay, |t| {
                attempts.survival(t)
                    * if never_wins {
                        1.0
                    } else {
                        attempts.survival(t - delay)
                    }
            });
            due += passed;
            sent += hedges;
            if !never_wins && hedges > 0.0 {
                won += draw(&mut self.rng, hedges, attempts.wins(delay));
            }
        }
        if let (Some(share), Some(_)) = (self.counted_elsewhere, delay) {
            due = draw(&mut self.rng, calls, share);
            (won, sent) = (won.min(due), due.min(budget * calls));
        }
        step.calls += calls;
        step.hedges += sent;
        step.blocked += due - sent;
        step.wins += won;
        self.service.kinds = kinds;
    }

    /// Spreads `calls` over the buckets from `from` on, as `unanswered` has it there.
    fn scatter(&mut self, step: &mut Step, calls: f64, from: f64, unanswered: impl Fn(f64) -> f64) {
        let (mut left, mut waiting) = (calls, unanswered(from));
        for (bucket, &bound) in self.bounds.iter().enumerate() {
            if left <= 0.0 || waiting <= 0.0 {
                break;
            }
            if bound <= from {
                continue;
            }
            let after = unanswered(bound);
            let answered = draw(&mut self.rng, left, 1.0 - after / waiting);
            step.buckets[bucket] += answered;
            (left, waiting) = (left - answered, after);
        }
        step.buckets[self.bounds.len()] += left;
    }

    fn decide(&mut self) {
        let at = Timestamp::from_millis(1_700_000_000_000).plus(Duration::from_secs_f64(self.now));
        let before = self.decision.take();
        let (latency, counts) = match &before {
            Some(decision) => (decision.windows_wanted.clone(), decision.counts_wanted.clone()),
            None => (vec![self.rules.windows.window], Vec::new()),
        };
        let readings = Readings {
            stop: None,
            latency: Some(Latency {
                at,
                windows: Ok(latency.iter().map(|&window| self.observed(window)).collect()),
            }),
            counts: Some(Counts {
                at,
                windows: Ok(counts.iter().map(|&window| self.counted(window)).collect()),
            }),
            signals: vec![Some(Signal {
                at,
                scrape_interval: Some(Duration::from_secs(15)),
                value: Ok(SignalValue::Series(vec![self.queue])),
            })],
        };
        let (decision, memory) = decide(&self.rules, &self.memory, &readings, at);
        if decision.revision != self.memory.revision {
            let hedging = decision.orders.hedging;
            let delay = hedging.map(|hedging| hedging.delay_ms / 1e3);
            let budget = hedging.map_or(0.0, |hedging| hedging.percent / 100.0);
            self.documents.push((self.now + PROPAGATION, delay, budget));
        }
        let said = |reason| {
            before
                .iter()
                .flat_map(|before| &before.diagnoses)
                .any(|said| said.reason == reason)
        };
        let begun = decision
            .diagnoses
            .iter()
            .map(|diagnosis| diagnosis.reason)
            .filter(|&reason| !said(reason));
        self.begun.extend(begun);
        self.memory = memory;
        self.decision = Some(decision);
    }

    fn within(&self, window: Duration) -> impl Iterator<Item = &Step> {
        let since = self.now - window.as_secs_f64();
        self.steps
            .iter()
            .rev()
            .take_while(move |step| step.at > since + 1e-6)
    }

    fn observed(&self, window: Duration) -> WindowReading {
        let mut counts = vec![0.0; self.bounds.len() + 1];
        for step in self.within(window) {
            counts
                .iter_mut()
                .zip(&step.buckets)
                .for_each(|(sum, count)| *sum += count);
        }
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let cumulative = bounds.zip(counts).scan(0.0, |below, (bound, count)| {
            *below += count;
            Some((bound, *below))
        });
        WindowReading {
            window,
            distribution: Histogram::from_cumulative(cumulative, None, None),
            cancelled: None,
            timeouts: Some(0.0),
            caveat: None,
        }
    }

    fn counted(&self, window: Duration) -> WindowCounts {
        let sum = |of: fn(&Step) -> f64| self.within(window).map(of).sum::<f64>();
        WindowCounts {
            window,
            calls: sum(|step| step.calls),
            hedges: sum(|step| step.hedges),
            blocked: Some(sum(|step| step.blocked)),
            wins: Some(sum(|step| step.wins)),
        }
    }
}

/// How many of `trials` succeed, each with probability `p`.
fn draw(rng: &mut StdRng, trials: f64, p: f64) -> f64 {
    let p = p.clamp(0.0, 1.0);
    if trials < 1.0 || p <= 0.0 {
        return 0.0;
    }
    Binomial::new(trials as u64, p).unwrap().sample(rng) as f64
}

/// Of clients that count, percentile 95, budget 10 %, one queue with its line at 50.
pub(crate) fn rules() -> Rules {
    let mut rules = common::rules();
    rules.counted = true;
    rules.delay.plateau = Plateau::Ignore;
    rules.switch.signals = vec![SignalRules {
        name: "queue".to_owned(),
        line: Line::Value {
            off_above: 50.0,
            on_below: 35.0,
            at_least: None,
        },
    }];
    rules
}

/// The healthy shapes.
pub(crate) fn healthy() -> [Attempts; 3] {
    [
        Attempts::lognormal(0.04, 0.5, 0.0),
        Attempts::lognormal(0.04, 1.0, 0.0),
        Attempts::lognormal(0.04, 0.5, 0.05),
    ]
}
