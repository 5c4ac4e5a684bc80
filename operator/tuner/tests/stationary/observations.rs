//! What hedging does to what is observed: the hedge share that each kind of observation leads to, beside the one that the same
//! buckets give when every attempt is seen to its end, and the one that an estimator leads to which does not know better.

use std::collections::VecDeque;
use std::time::Duration;

use hedgerow_tuner::{
    Counts, Histogram, Latency, Measures, Memory, Plateau, Readings, Rules, Timestamp, Unknown, WindowCounts,
    WindowReading, decide,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::common::{DEFAULT, OTEL, rules};
use crate::service::{Service, Shape};

/// The bounds of gRPC's default latency views (gRFC A66), in seconds.
const A66: &[f64] = &[
    0.0, 0.00001, 0.00005, 0.0001, 0.0003, 0.0006, 0.0008, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008,
    0.01, 0.013, 0.016, 0.02, 0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4,
    0.5, 0.65, 0.8, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
];
const SEEDS: u64 = 20;
/// Seconds between decisions.
const STEP: usize = 30;
const STEPS_PER_WINDOW: usize = 600 / STEP;
/// Steps until clients follow a document.
const FOLLOWED_AFTER: usize = 2;
const CALLS_PER_STEP: u32 = 300;
/// The service changes, and long after that its calls are counted.
const CHANGES_AT: usize = 30;
const COUNTED_FROM: usize = 70;
const STEPS: usize = 110;
/// Attempts that stand for a service: a power of two, so that one is drawn from the bits of a random number.
const ATTEMPTS: usize = 1 << 14;

/// What is observed, and what the decision takes it for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    /// Every first attempt to its end, as if nothing were hedged.
    Everything,
    Calls,
    CallsCounted,
    Attempts,
    Server,
    /// Calls, taken for attempts.
    CallsNaively,
    /// The attempts that answered; those cut short dropped.
    AttemptsNaively,
}

impl Seen {
    const fn measures(self) -> Measures {
        match self {
            Self::Calls | Self::CallsCounted => Measures::LogicalCall,
            Self::Attempts => Measures::Attempt { losers_run_on: false },
            Self::AttemptsNaively => Measures::Attempt { losers_run_on: true },
            Self::Everything | Self::Server | Self::CallsNaively => Measures::Server,
        }
    }
}

/// What was counted, by bucket where it took time.
#[derive(Clone)]
struct Counted {
    answered: Vec<f64>,
    cancelled: Vec<f64>,
    hedges: f64,
    blocked: f64,
}

impl Counted {
    fn nothing(buckets: usize) -> Self {
        Self {
            answered: vec![0.0; buckets],
            cancelled: vec![0.0; buckets],
            hedges: 0.0,
            blocked: 0.0,
        }
    }

    /// Adds, or takes away, `factor` times the other.
    fn add(&mut self, other: &Self, factor: f64) {
        for (sum, counts) in [
            (&mut self.answered, &other.answered),
            (&mut self.cancelled, &other.cancelled),
        ] {
            for (sum, count) in sum.iter_mut().zip(counts) {
                *sum += factor * count;
            }
        }
        self.hedges += factor * other.hedges;
        self.blocked += factor * other.blocked;
    }
}

struct Run<'a> {
    rules: Rules,
    seen: Seen,
    bounds: &'a [f64],
    /// Attempts of a service with a median of 1.
    attempts: &'a [f64],
    median: f64,
    rng: StdRng,
    tokens: f64,
    steps: VecDeque<Counted>,
    /// All of `steps`.
    window: Counted,
}

impl Run<'_> {
    /// The share of calls past the delay in force, once that has settled after the service's latency changed.
    fn share_past_delay(mut self, change: f64) -> f64 {
        let mut memory = Memory::default();
        let mut documents: VecDeque<Option<(f64, f64)>> = vec![None; FOLLOWED_AFTER].into();
        let (mut past, mut made) = (0.0, 0.0);
        for step in 0..STEPS {
            if step == CHANGES_AT {
                self.median *= change;
            }
            let document = documents.pop_front().unwrap();
            let passed = self.step(document);
            if step >= COUNTED_FROM {
                assert!(document.is_some(), "{:?}", self.seen);
                (past, made) = (past + passed, made + f64::from(CALLS_PER_STEP));
            }
            let at = Timestamp::from_millis(1_700_000_000_000)
                .plus(Duration::from_secs(u64::try_from(step * STEP).unwrap()));
            let (decision, after) = decide(&self.rules, &memory, &self.readings(at), at);
            memory = after;
            documents.push_back(
                decision
                    .orders
                    .hedging
                    .map(|on| (on.delay_ms / 1e3, on.percent / 100.0)),
            );
        }
        past / made
    }

    /// Makes the calls of a step; how many passed the delay.
    fn step(&mut self, document: Option<(f64, f64)>) -> f64 {
        let mut step = Counted::nothing(self.bounds.len() + 1);
        let passed = (0..CALLS_PER_STEP)
            .filter(|_| self.call(document, &mut step))
            .count();
        self.window.add(&step, 1.0);
        self.steps.push_back(step);
        if self.steps.len() > STEPS_PER_WINDOW
            && let Some(gone) = self.steps.pop_front()
        {
            self.window.add(&gone, -1.0);
        }
        f64::from(u32::try_from(passed).unwrap())
    }

    fn attempt(&mut self) -> f64 {
        let index = usize::try_from(self.rng.random::<u32>()).unwrap() % ATTEMPTS;
        self.median * self.attempts[index]
    }

    /// Makes a call; whether it passed the delay.
    fn call(&mut self, document: Option<(f64, f64)>, step: &mut Counted) -> bool {
        let first = self.attempt();
        let (delay, budget) = document.unwrap_or((f64::INFINITY, 0.0));
        self.tokens = (self.tokens + budget).min(10.0);
        let passes = first > delay;
        let hedges = passes && self.tokens >= 1.0;
        let bounds = self.bounds;
        let bucket = |took: f64| bounds.partition_point(|&bound| bound < took);
        let mut answer = |took: f64| step.answered[bucket(took)] += 1.0;
        if !hedges {
            step.blocked += f64::from(u8::from(passes));
            answer(first);
            return passes;
        }
        self.tokens -= 1.0;
        step.hedges += 1.0;
        let second = self.attempt();
        match self.seen {
            Seen::Everything => answer(first),
            Seen::Server => {
                answer(first);
                answer(second);
            }
            Seen::Calls | Seen::CallsCounted | Seen::CallsNaively => answer(first.min(delay + second)),
            Seen::Attempts | Seen::AttemptsNaively => {
                let (won, lost_after) = if first <= delay + second {
                    (first, first - delay)
                } else {
                    (second, delay + second)
                };
                answer(won);
                step.cancelled[bucket(lost_after)] += 1.0;
            }
        }
        passes
    }

    fn readings(&self, at: Timestamp) -> Readings {
        let window = Duration::from_secs(600);
        Readings {
            latency: Some(Latency {
                at,
                windows: Ok(vec![WindowReading {
                    window,
                    distribution: self.histogram(&self.window.answered),
                    cancelled: Some(self.histogram(&self.window.cancelled))
                        .filter(|_| self.seen == Seen::Attempts)
                        .and_then(Result::ok),
                    timeouts: None,
                    caveat: None,
                }]),
            }),
            counts: (self.seen == Seen::CallsCounted).then(|| Counts {
                at,
                windows: Ok(vec![WindowCounts {
                    window,
                    calls: f64::from(CALLS_PER_STEP) * f64::from(u32::try_from(self.steps.len()).unwrap()),
                    hedges: self.window.hedges,
                    blocked: Some(self.window.blocked),
                    wins: None,
                }]),
            }),
            ..Readings::default()
        }
    }

    fn histogram(&self, counts: &[f64]) -> Result<Histogram, Unknown> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let cumulative = bounds.zip(counts).scan(0.0, |below, (bound, count)| {
            *below += count;
            Some((bound, *below))
        });
        Histogram::from_cumulative(cumulative, None, None)
    }
}

/// The mean share of calls past the delay, over all seeds; in every other one the service gets slower, in the rest faster.
fn share(seen: Seen, bounds: &[f64], attempts: &[f64], quantile: f64) -> f64 {
    let shares = (0..SEEDS).map(|seed| {
        let mut rng = StdRng::seed_from_u64(seed);
        // So that the percentile lies in different places of its bucket.
        let median = 0.04 * rng.random_range(1.0..2.5);
        let mut rules = rules();
        // Where a percentile lies in a slow mode the delay would go under it.
        rules.delay.plateau = Plateau::Ignore;
        rules.measures = seen.measures();
        rules.delay.quantile = quantile;
        rules.budget.percent = 200.0 * (1.0 - quantile);
        let run = Run {
            rules,
            seen,
            bounds,
            attempts,
            median,
            rng,
            tokens: 0.0,
            steps: VecDeque::new(),
            window: Counted::nothing(bounds.len() + 1),
        };
        run.share_past_delay(if seed % 2 == 0 { 1.5 } else { 1.0 / 1.5 })
    });
    shares.sum::<f64>() / f64::from(u32::try_from(SEEDS).unwrap())
}

fn services() -> [(&'static str, Vec<f64>); 4] {
    [
        ("light-tailed", 0.6, 0.0),
        ("12 % x 20", 0.3, 0.12),
        ("20 % x 20", 0.3, 0.2),
        ("tight", 0.1, 0.0),
    ]
    .map(|(name, sigma, slow)| {
        let shape = Shape::Lognormal { sigma, slow };
        let service = Service { median: 1.0, shape };
        let mut rng = StdRng::seed_from_u64(99);
        (name, (0..ATTEMPTS).map(|_| service.attempt(&mut rng)).collect())
    })
}

/// With these buckets each kind of observation leads to a hedge share within a fifth of that which the same buckets give when
/// everything is seen, or between that and what was asked. Where it is neither within a fifth nor better than that is told.
fn check(layout: &str, bounds: &[f64], each: impl Fn(&Row<'_>)) {
    println!("{layout:14} 1 - q  all seen  calls  counted  attempts  server | naive: calls  attempts");
    let mut worse = Vec::new();
    for (name, attempts) in services() {
        for quantile in [0.9, 0.95] {
            let asked = 1.0 - quantile;
            let share = |seen| share(seen, bounds, &attempts, quantile);
            let all = share(Seen::Everything);
            let known = [Seen::Calls, Seen::CallsCounted, Seen::Attempts, Seen::Server].map(share);
            let [calls, counted, cut_short, server] = known;
            let [naive_calls, naive_attempts] = [Seen::CallsNaively, Seen::AttemptsNaively].map(share);
            println!(
                "{name:14} {asked:5.2}    {all:.4} {calls:.4}   {counted:.4}    {cut_short:.4}  {server:.4} |       {naive_calls:.4}    {naive_attempts:.4}"
            );
            for (seen, share) in ["calls", "counted", "attempts", "server"].into_iter().zip(known) {
                if (0.8 * all..=1.2 * all).contains(&share) {
                    continue;
                }
                println!("    {seen}: {:.2} times all seen", share / all);
                // Twenty seeds leave a few per cent open.
                let little = 0.03 * asked;
                let between = all.min(asked).min(0.8 * all) - little..=all.max(asked).max(1.2 * all) + little;
                if !between.contains(&share) {
                    worse.push(format!(
                        "{name}, 1 - q {asked:.2}, {seen}: {share:.4}, {all:.4} when all is seen"
                    ));
                }
            }
            each(&Row {
                name,
                asked,
                all,
                known,
                naive_attempts,
            });
        }
    }
    assert!(worse.is_empty(), "{layout}: {worse:#?}");
}

/// The shares of one service and percentile.
struct Row<'a> {
    name: &'a str,
    asked: f64,
    all: f64,
    known: [f64; 4],
    naive_attempts: f64,
}

#[test]
fn the_hedge_share_stays_with_the_buckets_of_grpc() {
    check("A66", A66, |_| ());
}

#[test]
fn the_hedge_share_stays_with_the_buckets_of_opentelemetry() {
    check("OpenTelemetry", OTEL, |_| ());
}

#[test]
fn the_hedge_share_stays_with_the_buckets_of_prometheus() {
    check("Prometheus", DEFAULT, |_| ());
}

#[test]
fn the_hedge_share_stays_with_fine_buckets() {
    let bounds: Vec<f64> = std::iter::successors(Some(0.001), |bound| Some(bound * 1.1))
        .take(110)
        .collect();
    check("1.1 x", &bounds, |row| {
        // A tenth is more than a tight service's whole tail: there the buckets themselves say less.
        let fifth = 0.8 * row.asked.min(row.all)..=1.2 * row.asked;
        assert!(
            row.name == "tight" || row.known.iter().all(|share| fifth.contains(share)),
            "{}: {:?}",
            row.name,
            row.known
        );
        // Calls taken for attempts do no such harm: the percentile is where the delay is, and up to it a call is its attempt.
        let naive = row.naive_attempts / row.asked;
        assert!(
            !row.name.contains("x 20") || (1.5..=3.0).contains(&naive),
            "{naive}"
        );
    });
}
