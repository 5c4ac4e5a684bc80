//! What holds for any rules, any readings and any sequence of them.

use std::time::Duration;

use hedgerow_tuner::{
    Basis, Counts, Diagnosis, DiagnosisReason, Latency, Memory, Mode, NoBenefit, Plateau, Readings, Rules,
    Signal, SwitchState, Timestamp, Unknown, UnknownReason, WindowCounts, decide,
};
use proptest::prelude::*;

use crate::random::{
    Decided, plausible_counts, plausible_histograms, ramp, signal_values, some_rules, steps, walk,
    wild_counts, wild_durations, wild_histograms, wild_rules, windows,
};

fn latency_is_unknown(decided: &Decided) -> bool {
    decided.decision.latency.unknown.is_some()
}

fn signal_is_unknown(decided: &Decided) -> bool {
    let mut signals = decided.decision.signals.iter();
    signals.any(|signal| signal.unknown.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_delay_is_between_min_and_max_and_the_budget_within_its_cap(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            if let Some(hedging) = decided.decision.orders.hedging {
                let ms = |limit: Duration| limit.as_nanos() as f64 / 1e6;
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
            if !(latency_is_unknown(decided) || signal_is_unknown(decided)) {
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
            if decided.decision.orders.hedging.is_none() { return Ok(()) }
            let (before, now) = (decided.before.map(|_| ramp(decided.switch_before)), ramp(decided.decision.switch));
            let allowed: &[f64] = match before {
                None => &[0.25],
                Some(before) if before < 0.3 => &[0.25, 0.5],
                Some(before) if before < 0.6 => &[0.25, 0.5, 1.0],
                Some(_) => &[0.25, 1.0],
            };
            prop_assert!(allowed.iter().any(|allowed| (allowed - now).abs() < 1e-9), "{before:?} to {now}");
            Ok(())
        })?;
    }

    #[test]
    fn between_a_quarter_and_all_of_the_ramped_budget_is_published(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            let (before, now) = decided.published(&rules);
            let Some(now) = now else { return Ok(()) };
            // Published numbers have eight decimals.
            let exact = 1e-7 / rules.budget.percent;
            prop_assert!(now >= 0.25 - exact && now <= 1.0 + exact, "{now}");
            prop_assert!(rules.counted || (now - 1.0).abs() < exact, "{now} without counters");
            if let Some(before) = before && now > before + exact {
                let known = !latency_is_unknown(decided) && !signal_is_unknown(decided);
                prop_assert!(known && decided.decision.switch == SwitchState::Closed, "raised in doubt");
                prop_assert!(now <= before + 0.1 + 1e-3 + exact, "{before} to {now}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn counters_that_are_unknown_shorten_nothing_and_raise_nothing(rules in some_rules(), steps in steps()) {
        // Hedges that do not win turn hedging off only while they are counted.
        let rules = Rules { no_benefit: NoBenefit::Report, ..rules };
        walk(&rules, &steps, |decided| {
            let mut readings = decided.readings.clone();
            readings.counts = readings.counts.map(|counts| Counts {
                windows: Err(Unknown::new(UnknownReason::Timeout, "for a test")),
                ..counts
            });
            let (blind, _) = decide(&rules, &decided.memory_before, &readings, decided.now);
            // Only counted hedges tell that attempts which must have been cut short are not seen, and that replicas are slow together.
            let unseen = |why: &Unknown| why.reason == UnknownReason::CensoringUnseen;
            let together = |said: &Diagnosis| said.reason == DiagnosisReason::SlowTogether;
            if decided.decision.latency.unknown.as_ref().is_some_and(unseen) || decided.decision.diagnoses.iter().any(together) {
                return Ok(());
            }
            // By what hedging can have hidden at most a delay may be above its line.
            prop_assert!(ramp(blind.switch) <= ramp(decided.decision.switch), "{:?} {:?}, and with them {:?} {:?}", blind.switch, blind.message, decided.decision.switch, decided.decision.message);
            let (Some(now), ramped, Some(blind)) = (decided.decision.orders.hedging, blind.switch, blind.orders.hedging) else { return Ok(()) };
            let least = decided.before.map_or(now.delay_ms, |before| before.delay_ms.min(now.delay_ms));
            prop_assert!(blind.delay_ms >= least, "{} where {:?} became {}", blind.delay_ms, decided.before, now.delay_ms);
            if let Some(before) = decided.published(&rules).0 {
                let part = blind.percent / rules.budget.percent / ramp(ramped);
                prop_assert!(part <= before + 1e-7 / rules.budget.percent);
            }
            Ok(())
        })?;
    }

    #[test]
    fn counters_shorten_a_delay_only_where_nothing_hides_the_share(rules in some_rules(), steps in steps()) {
        walk(&rules, &steps, |decided| {
            let (Some(before), Some(now)) = (decided.before, decided.decision.orders.hedging) else { return Ok(()) };
            let Some(Counts { windows: Ok(counts), .. }) = &decided.readings.counts else { return Ok(()) };
            if counts.iter().any(|counts| counts.calls > 1e12) { return Ok(()) }
            // What hedging hid is read from the share that was hedged in the latency's own window, which is then not known.
            let own = decided.decision.latency.window;
            if counts.iter().any(|counts| Some(counts.window) == own) { return Ok(()) }
            // The same rates over a window too long to be a measurement.
            let mut unmeasured = decided.readings.clone();
            // A moment has no rate: nothing is read from it.
            let rates = counts.iter().filter(|counts| !counts.window.is_zero()).map(|counts| {
                let times = 7200.0 / counts.window.as_secs_f64().max(1.0);
                WindowCounts { window: Duration::from_secs(7200), calls: counts.calls * times, ..*counts }
            });
            unmeasured.counts = Some(Counts { at: decided.now, windows: Ok(rates.collect()) });
            let (unmeasured, _) = decide(&rules, &decided.memory_before, &unmeasured, decided.now);
            // What another window of them shows beside is not the loop's.
            let reasons = |said: &[Diagnosis]| said.iter().map(|said| said.reason).collect::<Vec<_>>();
            if reasons(&unmeasured.diagnoses) != reasons(&decided.decision.diagnoses) { return Ok(()) }
            if unmeasured.latency.unknown != decided.decision.latency.unknown { return Ok(()) }
            let by_buckets = unmeasured.orders.hedging.map_or(now.delay_ms, |hedging| hedging.delay_ms);
            if now.delay_ms >= before.delay_ms.min(by_buckets) {
                return Ok(());
            }
            prop_assert!(rules.mode == Mode::Enforce && decided.decision.switch == SwitchState::Closed);
            prop_assert!(!latency_is_unknown(decided) && !signal_is_unknown(decided));
            prop_assert!((before.percent - rules.budget.percent).abs() < 1e-7, "not at full budget");
            prop_assert!(now.delay_ms >= before.delay_ms * (-0.1_f64).exp());
            let enough = 40.0 / (1.0 - rules.delay.quantile);
            let aim = (1.0 - rules.delay.quantile).max(0.8 * rules.budget.percent / 100.0);
            let vouches = |counts: &hedgerow_tuner::WindowCounts| {
                counts.calls >= enough
                    && counts.hedges / counts.calls < 0.8 * rules.budget.percent / 100.0
                    && counts.blocked.is_some_and(|blocked| (counts.hedges + blocked) / counts.calls < aim)
            };
            prop_assert!(counts.iter().any(vouches), "{counts:?}");
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
            prop_assert_eq!(serde_json::to_string(&read).unwrap(), written);
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
        // Where the delay does not follow them.
        let mut rules = Rules { no_benefit: NoBenefit::Report, counted: false, ..rules };
        rules.delay.plateau = Plateau::Ignore;
        let mut before: Vec<DiagnosisReason> = Vec::new();
        walk(&rules, &steps, |decided| {
            let reasons: Vec<_> = decided.decision.diagnoses.iter().map(|diagnosis| diagnosis.reason).collect();
            let mut uncounted = decided.readings.clone();
            uncounted.counts = None;
            let (uncounted, without) = decide(&rules, &decided.memory_before, &uncounted, decided.now);
            let begins_or_ends = reasons != before;
            let decision = &decided.decision;
            let orders_alike = without.revision == decided.memory.revision
                && (uncounted.reason, &uncounted.latency.unknown) == (decision.reason, &decision.latency.unknown);
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
        steps in prop::collection::vec((any::<i64>(), windows(prop_oneof![wild_histograms(), plausible_histograms().prop_map(Ok)].boxed()), prop::collection::vec(signal_values(), 0..3), prop::option::of(prop_oneof![wild_counts(), plausible_counts()]), wild_durations()), 1..8),
    ) {
        let mut memory = Memory::default();
        let mut now = Timestamp::from_millis(start);
        for (index, (at, windows, signals, counts, scrape)) in steps.into_iter().enumerate() {
            let at = Timestamp::from_millis(at);
            let readings = Readings {
                stop: None,
                counts: counts.map(|windows| Counts { at, windows: Ok(windows) }),
                latency: Some(Latency { at, windows: Ok(windows) }),
                signals: signals.into_iter().map(|value| Some(Signal { at, scrape_interval: Some(scrape), value })).collect(),
            };
            let (decision, after) = decide(&rules[index % rules.len()], &memory, &readings, now);
            let numbers = [
                decision.recommended_ms, decision.latency.samples, decision.latency.p50_ms, decision.latency.p95_ms, decision.latency.p99_ms,
                decision.latency.percentile_ms.map(|(least, _)| least), decision.latency.percentile_ms.map(|(_, most)| most),
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
