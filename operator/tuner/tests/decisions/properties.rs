//! What holds for any rules, any readings and any sequence of them.

use std::time::Duration;

use hedgerow_tuner::{
    Alert, Basis, Counts, Decision, DiagnosisReason, Hedging, Histogram, Latency, Line, Memory, Mode,
    NoBenefit, Readings, Rules, Signal, SignalRules, SignalValue, Stop, SwitchState, Timestamp, Unknown,
    UnknownReason, WindowCounts, WindowReading, decide,
};
use proptest::prelude::*;

use crate::support::{rules, secs};

/// Numbers as they come, and as they must not.
fn wild() -> impl Strategy<Value = f64> {
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
fn plausible_histograms() -> impl Strategy<Value = Histogram> {
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

fn wild_histograms() -> impl Strategy<Value = Result<Histogram, Unknown>> {
    let buckets = prop::collection::vec((wild(), wild()), 0..12);
    (buckets, prop::option::of(wild()), prop::option::of(wild())).prop_map(|(mut buckets, sum, count)| {
        let largest = buckets.iter().map(|&(_, count)| count).fold(0.0, f64::max);
        buckets.push((f64::INFINITY, largest));
        Histogram::from_cumulative(buckets, sum, count)
    })
}

fn windows(
    histograms: impl Strategy<Value = Result<Histogram, Unknown>> + Clone + 'static,
) -> impl Strategy<Value = Vec<WindowReading>> {
    let window = |seconds: u64| {
        (
            histograms.clone(),
            prop::option::of(prop_oneof![Just(0.0), 0.0..100.0_f64, wild()]),
        )
            .prop_map(move |(distribution, timeouts)| WindowReading {
                window: secs(seconds),
                distribution,
                cancelled: None,
                timeouts,
                caveat: None,
            })
    };
    (window(600), window(1200), window(2400), 1..=3_usize)
        .prop_map(|(first, second, third, len)| [first, second, third].into_iter().take(len).collect())
}

fn signal_values() -> impl Strategy<Value = Result<SignalValue, Unknown>> {
    prop_oneof![
        6 => prop::collection::vec(prop_oneof![Just(3.0), Just(38.0), Just(60.0)], 1..4).prop_map(|series| Ok(SignalValue::Series(series))),
        1 => prop::collection::vec(wild(), 0..4).prop_map(|series| Ok(SignalValue::Series(series))),
        1 => prop::sample::select(vec![Alert::Inactive, Alert::Pending, Alert::Firing]).prop_map(|alert| Ok(SignalValue::Alert(alert))),
        1 => unknowns().prop_map(Err),
    ]
}

/// What clients counted: mostly hedges that were due, sent and won in some share of the calls.
fn counts() -> impl Strategy<Value = Result<Vec<WindowCounts>, Unknown>> {
    let share = || prop_oneof![3 => 0.0..1.0_f64, 1 => Just(0.0), 1 => Just(1.0)];
    let plausible = (
        10.0..1e5_f64,
        0.0..0.5_f64,
        share(),
        share(),
        prop::bool::weighted(0.8),
    )
        .prop_map(|(calls, due, sent, won, known)| {
            let hedges = calls * due * sent;
            let known = |number| known.then_some(number);
            (calls, hedges, known(calls * due - hedges), known(hedges * won))
        });
    let wild = (wild(), wild(), prop::option::of(wild()), prop::option::of(wild()));
    let window = prop_oneof![9 => plausible, 1 => wild];
    let seconds = prop::sample::subsequence(vec![600, 1200, 3600, 21_600, 86_400], 1..4);
    let windows = (seconds, prop::collection::vec(window, 4)).prop_map(|(seconds, windows)| {
        let counts = |(seconds, (calls, hedges, blocked, wins))| WindowCounts {
            window: secs(seconds),
            calls,
            hedges,
            blocked,
            wins,
        };
        Ok(seconds.into_iter().zip(windows).map(counts).collect())
    });
    prop_oneof![9 => windows, 1 => unknowns().prop_map(Err)]
}

/// One step: how much later, what is read, whether a person stops it.
#[derive(Clone, Debug)]
struct Step {
    later: Duration,
    latency: Option<Result<Vec<WindowReading>, Unknown>>,
    counts: Option<Result<Vec<WindowCounts>, Unknown>>,
    signal: Option<Result<SignalValue, Unknown>>,
    stop: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
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
    let later = prop_oneof![9 => 0..400_u64, 1 => 0..30_000_u64];
    let counts = prop::option::weighted(0.8, counts());
    let step = (later, latency, counts, signal, prop::bool::weighted(0.03)).prop_map(
        |(later, latency, counts, signal, stop)| Step {
            later: secs(later),
            latency,
            counts,
            signal,
            stop,
        },
    );
    prop::collection::vec(step, 1..40)
}

fn no_benefits() -> impl Strategy<Value = NoBenefit> {
    prop::sample::select(vec![NoBenefit::Report, NoBenefit::Disable])
}

/// Rules that a policy can have; few samples are enough, so that decisions are made.
fn some_rules() -> impl Strategy<Value = Rules> {
    (
        prop::sample::select(vec![Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Observe]),
        prop::sample::select(vec![0.5, 0.9, 0.95, 0.99]),
        (1..200_u64, 200..5000_u64, prop::option::of(500..8000_u64)),
        (
            (1..=10_000_u32).prop_map(|hundredths| f64::from(hundredths) / 100.0),
            prop::sample::select(vec![0.0, 2.0]),
        ),
        (1..300_u64, 1..300_u64),
        (any::<bool>(), no_benefits()),
    )
        .prop_map(
            |(
                mode,
                quantile,
                (min, max, deadline),
                (percent, min_per_second),
                (cooldown, ramp_step),
                (counted, no_benefit),
            )| {
                let mut rules = rules();
                (rules.mode, rules.counted, rules.no_benefit) = (mode, counted, no_benefit);
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

fn wild_durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..7200_u64).prop_map(secs),
        Just(Duration::ZERO),
        Just(Duration::MAX),
        any::<u64>().prop_map(Duration::from_millis)
    ]
}

fn wild_rules() -> impl Strategy<Value = Rules> {
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
            )| {
                let mut rules = rules();
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
struct Decided {
    before: Option<Hedging>,
    revision_before: u64,
    orders_before: Option<hedgerow_tuner::Orders>,
    readings: Readings,
    memory_before: Memory,
    memory: Memory,
    decision: Decision,
    now: Timestamp,
}

/// Decides through all steps.
fn walk(
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

fn latency_is_unknown(decided: &Decided) -> bool {
    decided.decision.latency.unknown.is_some()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_delay_is_between_min_and_max_and_the_budget_within_its_cap(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            if let Some(hedging) = decided.decision.orders.hedging {
                let ms = |limit: Duration| limit.as_secs_f64() * 1e3;
                prop_assert!(hedging.delay_ms >= ms(rules.delay.min) && hedging.delay_ms <= ms(rules.delay.max));
                prop_assert!(hedging.percent > 0.0 && hedging.percent <= rules.budget.percent);
                prop_assert!(hedging.min_per_second <= rules.budget.min_per_second);
                prop_assert!(hedging.min_remaining_ms > 0.0);
            }
            Ok(())
        })?;
    }

    #[test]
    fn saturated_stopped_or_observed_is_off(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            let saturated = decided.decision.signals.iter().any(|signal| signal.saturated);
            if saturated || decided.readings.stop.is_some() || rules.mode != Mode::Enforce {
                prop_assert_eq!(decided.decision.orders.hedging, None);
            }
            let above = decided.decision.signals[0].value.is_some_and(|value| value > 50.0);
            prop_assert!(!above || saturated);
            Ok(())
        })?;
    }

    #[test]
    fn unknown_and_bounds_never_make_hedging_more_aggressive(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            let unknown_signal = decided.decision.signals.iter().any(|signal| signal.unknown.is_some());
            if !(latency_is_unknown(decided) || unknown_signal) {
                return Ok(());
            }
            let Some(now) = decided.decision.orders.hedging else { return Ok(()) };
            prop_assert!(decided.before.is_some(), "unknown turned hedging on");
            let before = decided.before.unwrap();
            prop_assert!(now.percent <= before.percent && now.min_per_second <= before.min_per_second);
            if latency_is_unknown(decided) {
                prop_assert!(now.delay_ms >= before.delay_ms);
            }
            Ok(())
        })?;
    }

    #[test]
    fn the_same_step_with_a_signal_unknown_orders_no_more(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            let mut readings = decided.readings.clone();
            if let Some(signal) = &mut readings.signals[0] {
                signal.value = Err(Unknown::new(UnknownReason::Unavailable, "for a test"));
            }
            let (blind, _) = decide(&rules, &decided.memory_before, &readings, decided.now);
            match (blind.orders.hedging, decided.decision.orders.hedging) {
                (Some(blind), Some(seeing)) => {
                    prop_assert!(blind.percent <= seeing.percent && blind.delay_ms >= seeing.delay_ms);
                }
                // A reading that is bad turns off at once, one that is missing after `maxUnknown`.
                (Some(_), None) => prop_assert!(decided.before.is_some()),
                (None, _) => {}
            }
            Ok(())
        })?;
    }

    #[test]
    fn every_return_goes_through_the_ramp_step_by_step(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            let share = |hedging: Hedging| hedging.percent / rules.budget.percent;
            let Some(now) = decided.decision.orders.hedging.map(share) else { return Ok(()) };
            let allowed: &[f64] = match decided.before.map(share) {
                None => &[0.25],
                Some(before) if before < 0.3 => &[0.25, 0.5],
                Some(before) if before < 0.6 => &[0.25, 0.5, 1.0],
                Some(_) => &[0.25, 1.0],
            };
            prop_assert!(allowed.iter().any(|allowed| (allowed - now).abs() < 1e-9), "{:?} to {}", decided.before, now);
            Ok(())
        })?;
    }

    #[test]
    fn the_delay_falls_by_no_more_than_new_samples_allow(rules in some_rules(), steps in steps()) {
        let mut last_move = Timestamp::default();
        walk(&rules, &steps, |decided| {
            if let (Some(before), Some(after)) = (decided.before, decided.decision.orders.hedging) && after.delay_ms < before.delay_ms {
                    let elapsed = decided.now.since(last_move).as_secs_f64();
                    let least = before.delay_ms * 0.8_f64.powf((elapsed / 30.0).floor());
                    prop_assert!(after.delay_ms >= least - 1e-6, "{} to {} in {elapsed} s", before.delay_ms, after.delay_ms);
            }
            if decided.before.map(|hedging| hedging.delay_ms) != decided.decision.orders.hedging.map(|hedging| hedging.delay_ms) {
                last_move = decided.now;
            }
            Ok(())
        })?;
    }

    #[test]
    fn deciding_again_on_the_same_input_changes_nothing(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            let (again, memory) = decide(&rules, &decided.memory, &decided.readings, decided.now);
            prop_assert_eq!(&again, &decided.decision);
            prop_assert_eq!(&memory, &decided.memory);
            prop_assert!(!memory.must_be_stored(&decided.memory));
            Ok(())
        })?;
    }

    #[test]
    fn the_revision_rises_by_one_exactly_when_orders_change(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            let changed = decided.orders_before.as_ref() != Some(&decided.decision.orders);
            prop_assert_eq!(decided.decision.revision, decided.revision_before + u64::from(changed));
            prop_assert!(!changed || decided.memory.must_be_stored(&decided.memory_before));
            Ok(())
        })?;
    }

    #[test]
    fn what_is_stored_decides_the_same(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            let written = serde_json::to_string(&decided.memory).unwrap();
            prop_assert!(!written.contains("null"), "{}", written);
            let read: Memory = serde_json::from_str(&written).unwrap();
            let (again, _) = decide(&rules, &read, &decided.readings, decided.now);
            prop_assert_eq!(&again.orders, &decided.decision.orders);
            prop_assert_eq!(again.revision, decided.decision.revision);
            Ok(())
        })?;
    }

    #[test]
    fn shares_are_shares_and_hedging_misses_no_more(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            let effect = decided.decision.effect;
            for share in [effect.hedge_share, effect.miss_share_unhedged, effect.miss_share_hedged].into_iter().flatten() {
                prop_assert!((0.0..=1.0).contains(&share), "{effect:?}");
            }
            prop_assert_eq!(effect.unhedged_basis.is_some(), effect.miss_share_unhedged.is_some());
            prop_assert_eq!(effect.hedged_basis.is_some(), effect.miss_share_hedged.is_some());
            prop_assert!(effect.unhedged_basis != Some(Basis::Inferred) || decided.readings.counts.is_some());
            if let (Some(hedged), Some(unhedged)) = (effect.miss_share_hedged, effect.miss_share_unhedged) {
                prop_assert!(hedged <= unhedged, "{effect:?}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_diagnosis_is_said_once_and_in_words(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            let reasons: Vec<_> = decided.decision.diagnoses.iter().map(|diagnosis| diagnosis.reason).collect();
            prop_assert!(reasons.windows(2).all(|pair| pair[0] < pair[1]), "{reasons:?}");
            for diagnosis in &decided.decision.diagnoses {
                let odd = diagnosis.message.is_empty() || diagnosis.message.contains("NaN") || diagnosis.message.contains("inf");
                prop_assert!(!odd, "{}", diagnosis.message);
            }
            prop_assert!(decided.decision.counts_wanted.is_sorted() && decided.decision.counts_wanted.len() <= 4);
            Ok(())
        })?;
    }

    #[test]
    fn hedges_that_do_not_win_only_turn_hedging_off(rules in some_rules(), steps in steps()) {
        let report = Rules { no_benefit: NoBenefit::Report, ..rules.clone() };
        walk(&rules, &steps, |decided| {
            let (reported, _) = decide(&report, &decided.memory_before, &decided.readings, decided.now);
            if let Some(now) = decided.decision.orders.hedging {
                prop_assert!(reported.orders.hedging.is_some());
                let reported = reported.orders.hedging.unwrap();
                prop_assert!(now.percent <= reported.percent && now.min_per_second <= reported.min_per_second);
                prop_assert!(now.delay_ms >= reported.delay_ms);
            }
            let rests = decided.decision.reason == hedgerow_tuner::Reason::NoBenefit;
            prop_assert!(!rests || rules.no_benefit == NoBenefit::Disable);
            prop_assert!(!rests || decided.decision.diagnoses.iter().any(|diagnosis| diagnosis.reason == DiagnosisReason::NoBenefit));
            Ok(())
        })?;
    }

    #[test]
    fn readings_of_counters_alone_are_stored_only_where_something_begins_or_ends(rules in some_rules(), steps in steps()) {
        let rules = Rules { no_benefit: NoBenefit::Report, ..rules };
        let mut before: Vec<DiagnosisReason> = Vec::new();
        walk(&rules, &steps, |decided| {
            let reasons: Vec<_> = decided.decision.diagnoses.iter().map(|diagnosis| diagnosis.reason).collect();
            let mut uncounted = decided.readings.clone();
            uncounted.counts = None;
            let (_, without) = decide(&rules, &decided.memory_before, &uncounted, decided.now);
            let begins_or_ends = reasons != before;
            let orders_alike = without.revision == decided.memory.revision;
            if !begins_or_ends && orders_alike && !without.must_be_stored(&decided.memory_before) {
                prop_assert!(!decided.memory.must_be_stored(&decided.memory_before));
            }
            before = reasons;
            Ok(())
        })?;
    }

    #[test]
    fn no_input_panics_and_every_number_is_finite(
        start in any::<i64>(),
        rules in prop::collection::vec(wild_rules(), 3),
        steps in prop::collection::vec((any::<i64>(), windows(prop_oneof![wild_histograms(), plausible_histograms().prop_map(Ok)].boxed()), prop::collection::vec(signal_values(), 0..3), prop::option::of(counts()), wild_durations()), 1..8),
    ) {
        let mut memory = Memory::default();
        let mut now = Timestamp::from_millis(start);
        for (index, (at, windows, signals, counts, scrape)) in steps.into_iter().enumerate() {
            let at = Timestamp::from_millis(at);
            let readings = Readings {
                stop: None,
                counts: counts.map(|windows| Counts { at, windows }),
                latency: Some(Latency { at, windows: Ok(windows) }),
                signals: signals.into_iter().map(|value| Some(Signal { at, scrape_interval: Some(scrape), value })).collect(),
            };
            let (decision, after) = decide(&rules[index % rules.len()], &memory, &readings, now);
            let numbers = [
                decision.recommended_ms, decision.latency.samples, decision.latency.p50_ms, decision.latency.p95_ms, decision.latency.p99_ms,
                decision.effect.hedge_share, decision.effect.miss_share_hedged, decision.effect.miss_share_unhedged,
                decision.orders.hedging.map(|hedging| hedging.delay_ms), decision.orders.hedging.map(|hedging| hedging.min_remaining_ms),
                decision.orders.hedging.map(|hedging| hedging.percent), decision.orders.hedging.map(|hedging| hedging.min_per_second),
                decision.signals.first().and_then(|signal| signal.value),
                match decision.switch { SwitchState::Ramping { share, .. } => Some(share), _ => None },
            ];
            prop_assert!(numbers.into_iter().flatten().all(f64::is_finite), "{decision:?}");
            let written = serde_json::to_string(&after).unwrap();
            prop_assert!(!written.contains(":null"), "{}", written);
            memory = serde_json::from_str(&written).unwrap();
            now = if index % 2 == 0 { now.plus(scrape) } else { now.minus(scrape) };
        }
    }
}
