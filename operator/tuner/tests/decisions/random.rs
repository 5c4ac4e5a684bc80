//! Random rules and readings: plausible ones, so that decisions are made, and such as must not be.

use std::time::Duration;

use hedgerow_tuner::{
    Alert, Counts, Decision, Hedging, Histogram, Latency, Line, Measures, Memory, Mode, NoBenefit, Orders,
    Plateau, Readings, Reason, Rules, Signal, SignalRules, SignalValue, Stop, SwitchState, Timestamp,
    Unknown, UnknownReason, WindowCounts, WindowReading, decide,
};
use proptest::prelude::*;

use crate::support::{rules, secs};

/// Numbers as they come, and as they must not.
pub(crate) fn wild() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..1e4_f64,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, -1.0]),
    ]
}

fn unknowns() -> impl Strategy<Value = Unknown> {
    prop::sample::select(UnknownReason::ALL).prop_map(|reason| Unknown::new(reason, "for a test"))
}

/// A lognormal-like shape: a scale, some spread over buckets, a count.
pub(crate) fn plausible_histograms() -> impl Strategy<Value = Histogram> {
    (
        0.01..2.0_f64,
        prop::collection::vec(0.0..100.0_f64, 8),
        1.0..3.0_f64,
    )
        .prop_map(|(scale, calls, step)| {
            let mut below = 0.0;
            let mut bound = scale / 10.0;
            let mut buckets = Vec::new();
            for calls in calls {
                below += calls + 1.0;
                buckets.push((bound, below));
                bound *= 1.0 + step / 2.0;
            }
            buckets.push((f64::INFINITY, below + 0.5));
            Histogram::from_cumulative(buckets, None, None).unwrap()
        })
}

pub(crate) fn wild_histograms() -> impl Strategy<Value = Result<Histogram, Unknown>> {
    let buckets = prop::collection::vec((wild(), wild()), 0..12);
    (buckets, prop::option::of(wild()), prop::option::of(wild())).prop_map(|(mut buckets, sum, count)| {
        let largest = buckets.iter().map(|&(_, count)| count).fold(0.0, f64::max);
        buckets.push((f64::INFINITY, largest));
        Histogram::from_cumulative(buckets, sum, count)
    })
}

pub(crate) fn windows(
    histograms: impl Strategy<Value = Result<Histogram, Unknown>> + Clone + 'static,
) -> impl Strategy<Value = Vec<WindowReading>> {
    let window = |seconds: u64| {
        (
            histograms.clone(),
            prop::option::of(histograms.clone()),
            prop::option::of(prop_oneof![Just(0.0), 0.0..100.0_f64, wild()]),
        )
            .prop_map(move |(distribution, cancelled, timeouts)| WindowReading {
                window: secs(seconds),
                distribution,
                cancelled: cancelled.and_then(Result::ok),
                timeouts,
                caveat: None,
            })
    };
    (window(600), window(1200), window(2400), 1..=3_usize)
        .prop_map(|(first, second, third, len)| [first, second, third].into_iter().take(len).collect())
}

pub(crate) fn signal_values() -> impl Strategy<Value = Result<SignalValue, Unknown>> {
    prop_oneof![
        6 => prop::collection::vec(prop_oneof![Just(3.0), Just(38.0), Just(60.0)], 1..4).prop_map(|series| Ok(SignalValue::Series(series))),
        1 => prop::collection::vec(wild(), 0..4).prop_map(|series| Ok(SignalValue::Series(series))),
        1 => prop::sample::select(vec![Alert::Inactive, Alert::Pending, Alert::Firing]).prop_map(|alert| Ok(SignalValue::Alert(alert))),
        1 => unknowns().prop_map(Err),
    ]
}

/// One step: how much later, what is read, whether a person stops it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    later: Duration,
    latency: Option<Result<Vec<WindowReading>, Unknown>>,
    signal: Option<Result<SignalValue, Unknown>>,
    counts: Option<Result<Vec<WindowCounts>, Unknown>>,
    stop: bool,
}

/// What clients counted in a day and in parts of it.
pub(crate) fn plausible_counts() -> impl Strategy<Value = Vec<WindowCounts>> {
    let share = || prop_oneof![0.0..0.02_f64, 0.02..0.2_f64, 0.2..1.0_f64, Just(1.0)];
    let rate = prop_oneof![1 => 0.05..1.0_f64, 3 => 1.0..100.0_f64];
    let known = || prop::option::weighted(0.8, share());
    (rate, share(), known(), known(), 1..7_usize).prop_map(|(rate, hedges, blocked, won, len)| {
        let counts = |window: u64| {
            let calls = rate * Duration::from_secs(window).as_secs_f64();
            WindowCounts {
                window: secs(window),
                calls,
                hedges: calls * hedges,
                blocked: blocked.map(|blocked| calls * blocked * hedges),
                wins: won.map(|won| calls * won * hedges),
            }
        };
        [60, 300, 600, 3600, 21_600, 86_400]
            .into_iter()
            .take(len)
            .map(counts)
            .collect()
    })
}

pub(crate) fn wild_counts() -> impl Strategy<Value = Vec<WindowCounts>> {
    let counts = (
        wild_durations(),
        wild(),
        wild(),
        prop::option::of(wild()),
        prop::option::of(wild()),
    );
    let counts = counts.prop_map(|(window, calls, hedges, blocked, wins)| WindowCounts {
        window,
        calls,
        hedges,
        blocked,
        wins,
    });
    prop::collection::vec(counts, 0..4)
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let plausible = plausible_histograms().prop_map(Ok).boxed();
    let any_histogram =
        prop_oneof![8 => plausible, 1 => wild_histograms(), 1 => unknowns().prop_map(Err)].boxed();
    let latency = prop_oneof![
        8 => windows(any_histogram).prop_map(|windows| Some(Ok(windows))),
        1 => unknowns().prop_map(|why| Some(Err(why))),
        1 => Just(None),
    ];
    let signal = prop_oneof![
        8 => Just(Some(Ok(SignalValue::Series(vec![3.0])))),
        4 => signal_values().prop_map(Some),
        1 => Just(None),
    ];
    let counts = prop_oneof![
        8 => plausible_counts().prop_map(|counts| Some(Ok(counts))),
        1 => wild_counts().prop_map(|counts| Some(Ok(counts))),
        1 => unknowns().prop_map(|why| Some(Err(why))),
        1 => Just(None),
    ];
    let later = prop_oneof![9 => 0..400_u64, 9 => 0..4000_u64, 2 => 0..30_000_u64];
    let step = (later, latency, signal, counts, prop::bool::weighted(0.03)).prop_map(
        |(later, latency, signal, counts, stop)| Step {
            later: secs(later),
            latency,
            signal,
            counts,
            stop,
        },
    );
    prop::collection::vec(step, 1..40)
}

fn plateaus() -> impl Strategy<Value = Plateau> {
    prop::sample::select(vec![Plateau::Follow, Plateau::Follow, Plateau::Ignore])
}

fn no_benefits() -> impl Strategy<Value = NoBenefit> {
    prop::sample::select(vec![NoBenefit::Report, NoBenefit::Disable])
}

fn any_measures() -> impl Strategy<Value = Measures> {
    prop::sample::select(vec![
        Measures::LogicalCall,
        Measures::LogicalCall,
        Measures::Attempt { losers_run_on: false },
        Measures::Attempt { losers_run_on: true },
        Measures::Server,
    ])
}

/// Rules that a policy can have; few samples are enough, so that decisions are made.
pub(crate) fn some_rules() -> impl Strategy<Value = Rules> {
    (
        prop::sample::select(vec![Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Observe]),
        prop::sample::select(vec![0.5, 0.9, 0.95, 0.99]),
        (1..200_u64, 200..5000_u64, prop::option::of(500..8000_u64)),
        (
            (1..=10_000_u32).prop_map(|hundredths| f64::from(hundredths) / 100.0),
            prop::sample::select(vec![0.0, 2.0]),
        ),
        (1..300_u64, 1..300_u64),
        (any::<bool>(), plateaus(), any_measures(), no_benefits()),
    )
        .prop_map(
            |(
                mode,
                quantile,
                (min, max, deadline),
                (percent, min_per_second),
                (cooldown, ramp_step),
                (counted, plateau, measures, no_benefit),
            )| {
                let mut rules = rules();
                (rules.mode, rules.counted, rules.delay.plateau) = (mode, counted, plateau);
                (rules.measures, rules.no_benefit) = (measures, no_benefit);
                rules.delay.quantile = quantile;
                rules.delay.min = Duration::from_millis(min);
                rules.delay.max = Duration::from_millis(max);
                rules.deadline = deadline.map(Duration::from_millis);
                (rules.budget.percent, rules.budget.min_per_second) = (percent, min_per_second);
                (rules.switch.cooldown, rules.switch.ramp_step) = (secs(cooldown), secs(ramp_step));
                rules.windows.min_samples = 100;
                rules
            },
        )
}

pub(crate) fn wild_durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..7200_u64).prop_map(secs),
        Just(Duration::ZERO),
        Just(Duration::MAX),
        any::<u64>().prop_map(Duration::from_millis)
    ]
}

pub(crate) fn wild_rules() -> impl Strategy<Value = Rules> {
    let lines = prop::collection::vec(
        prop_oneof![
            (wild(), wild(), prop::option::of(any::<u32>())).prop_map(|(off_above, on_below, at_least)| {
                Line::Value {
                    off_above,
                    on_below,
                    at_least,
                }
            }),
            Just(Line::Alert),
        ],
        0..3,
    );
    (
        prop::sample::select(vec![Mode::Enforce, Mode::Observe, Mode::Disabled]),
        prop::option::of(wild_durations()),
        prop::option::of(any::<u32>()),
        prop_oneof![Just(0.95), wild()],
        prop::array::uniform9(wild_durations()),
        (
            prop_oneof![Just(10.0), wild()],
            prop_oneof![Just(0.0), wild()],
            any::<u32>(),
        ),
        lines,
        (any::<bool>(), plateaus(), any_measures()),
    )
        .prop_map(
            |(
                mode,
                deadline,
                fan_out,
                quantile,
                durations,
                (percent, min_per_second, min_samples),
                lines,
                (counted, plateau, measures),
            )| {
                let mut rules = rules();
                (rules.counted, rules.delay.plateau, rules.measures) = (counted, plateau, measures);
                (rules.mode, rules.deadline, rules.fan_out, rules.delay.quantile) =
                    (mode, deadline, fan_out, quantile);
                let [
                    min,
                    max,
                    add,
                    window,
                    max_window,
                    max_unknown,
                    cooldown,
                    max_staleness,
                    propagation,
                ] = durations;
                (rules.delay.min, rules.delay.max, rules.delay.add) = (min, max, add);
                (
                    rules.windows.window,
                    rules.windows.max_window,
                    rules.windows.min_samples,
                ) = (window, max_window, min_samples);
                (
                    rules.switch.max_unknown,
                    rules.switch.cooldown,
                    rules.switch.ramp_step,
                ) = (max_unknown, cooldown, add);
                (rules.max_staleness, rules.propagation) = (max_staleness, propagation);
                (rules.budget.percent, rules.budget.min_per_second) = (percent, min_per_second);
                rules.switch.signals = lines
                    .into_iter()
                    .map(|line| SignalRules {
                        name: "some".to_owned(),
                        line,
                    })
                    .collect();
                rules
            },
        )
}

fn readings(step: &Step, at: Timestamp) -> Readings {
    Readings {
        stop: step.stop.then(|| Stop {
            reason: Reason::Stopped,
            message: "for a test".to_owned(),
        }),
        counts: step.counts.clone().map(|windows| Counts { at, windows }),
        latency: step.latency.clone().map(|windows| Latency { at, windows }),
        signals: vec![step.signal.clone().map(|value| Signal {
            at,
            scrape_interval: Some(secs(15)),
            value,
        })],
    }
}

/// One decision, with what went before it.
pub(crate) struct Decided {
    pub(crate) before: Option<Hedging>,
    pub(crate) switch_before: SwitchState,
    pub(crate) revision_before: u64,
    pub(crate) orders_before: Option<Orders>,
    pub(crate) readings: Readings,
    pub(crate) memory_before: Memory,
    pub(crate) memory: Memory,
    pub(crate) decision: Decision,
    pub(crate) now: Timestamp,
}

/// The share of the budget that a ramp is at.
pub(crate) fn ramp(switch: SwitchState) -> f64 {
    match switch {
        SwitchState::Open { .. } => 0.0,
        SwitchState::Ramping { share, .. } => share,
        SwitchState::Closed => 1.0,
    }
}

impl Decided {
    /// The part of the ramped budget that is published, and was before.
    pub(crate) fn published(&self, rules: &Rules) -> (Option<f64>, Option<f64>) {
        let part =
            |hedging: Option<Hedging>, switch| Some(hedging?.percent / rules.budget.percent / ramp(switch));
        let before = part(self.before, self.switch_before);
        (before, part(self.decision.orders.hedging, self.decision.switch))
    }
}

/// Decides through all steps.
pub(crate) fn walk(
    rules: &Rules,
    steps: &[Step],
    mut check: impl FnMut(&Decided) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut now = Timestamp::from_millis(1_700_000_000_000);
    let mut memory = Memory::default();
    let mut last: Option<Decision> = None;
    for step in steps {
        now = now.plus(step.later);
        let readings = readings(step, now);
        let (decision, after) = decide(rules, &memory, &readings, now);
        let decided = Decided {
            before: last.as_ref().and_then(|last| last.orders.hedging),
            switch_before: last.as_ref().map_or(SwitchState::Closed, |last| last.switch),
            revision_before: last.as_ref().map_or(0, |last| last.revision),
            orders_before: last.as_ref().map(|last| last.orders.clone()),
            memory_before: memory,
            readings,
            memory: after.clone(),
            decision,
            now,
        };
        check(&decided)?;
        (memory, last) = (after, Some(decided.decision));
    }
    Ok(())
}
