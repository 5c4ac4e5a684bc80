//! What hedging does to the user's query.

use hedgerow_tuner::{Basis, Effect, Histogram, Mode, decide_settled};

use crate::support::{Target, help_desk, histogram, rules, rules_without_signals};

const INF: f64 = f64::INFINITY;

fn near(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() < 1e-6)
}

/// What hedging will do to unhedged calls like these, each query waiting for 8 of them.
fn settled(calls: Histogram) -> Effect {
    let mut target = Target::new(rules());
    target.latency(calls);
    decide_settled(&target.rules, &target.readings, target.now).effect
}

#[test]
fn a_query_of_eight_shards_of_which_each_misses_one_in_a_hundred_misses_one_in_thirteen() {
    // 1 - 0.99^8 = 1 - 0.922 745.
    let effect = settled(histogram(&[
        (0.15, 500.0),
        (0.5, 950.0),
        (1.0, 990.0),
        (3.0, 1000.0),
        (INF, 1000.0),
    ]));
    assert!(near(effect.miss_share_unhedged, 0.077_255), "{effect:?}");
}

#[test]
fn the_help_desk_query_misses_one_in_seven_without_hedging() {
    // S(T) = 2 %: 1 - 0.98^8 = 1 - 0.850 763.
    let effect = settled(help_desk());
    assert!(near(effect.miss_share_unhedged, 0.149_237), "{effect:?}");
    assert_eq!(effect.unhedged_basis, Some(Basis::Measured));
}

#[test]
fn the_help_desk_query_will_miss_one_in_a_hundred_and_twenty_five_with_hedging() {
    // d = 0.5 s, S(d) = 5 %, a = min(1, 10/5) = 1, S(T-d) = 5 %: m = 0.02 x 0.05 = 0.001, 1 - 0.999^8 = 1 - 0.992 028.
    let effect = settled(help_desk());
    assert!(near(effect.miss_share_hedged, 0.007_972), "{effect:?}");
    assert_eq!(effect.hedged_basis, Some(Basis::Predicted));
}

#[test]
fn the_help_desk_query_costs_four_tenths_of_a_read_more() {
    // 5 % of its 8 reads.
    let per_query = settled(help_desk()).hedge_share.map(|share| 8.0 * share);
    assert!(near(per_query, 0.4), "{per_query:?}");
}

#[test]
fn a_ramped_budget_hedges_fewer_of_the_calls_past_the_delay() {
    // First step: B = 2.5 %, a = 2.5/5 = 0.5: m = 0.02 x (1 - 0.5 x 0.95) = 0.0105.
    let effect = Target::new(rules()).decide().effect;
    assert!(near(effect.hedge_share, 0.025), "{effect:?}");
    assert!(
        near(effect.miss_share_hedged, 1.0 - (1.0 - 0.0105_f64).powi(8)),
        "{effect:?}"
    );
}

#[test]
fn while_hedging_the_hedged_share_is_measured_and_the_unhedged_one_is_not_known() {
    let mut target = Target::tuned(rules());
    // As hedged only 0.1 % of the calls miss 1 s.
    target.latency(histogram(&[
        (0.15, 500.0),
        (0.5, 950.0),
        (1.0, 999.0),
        (3.0, 1000.0),
        (INF, 1000.0),
    ]));
    let effect = target.after(30).effect;
    assert!(
        near(effect.miss_share_hedged, 1.0 - 0.999_f64.powi(8)),
        "{effect:?}"
    );
    assert_eq!(effect.miss_share_unhedged, None);
    assert!(near(effect.hedge_share, 0.05), "{effect:?}");
}

#[test]
fn a_window_that_was_partly_hedged_identifies_neither() {
    let mut target = Target::new(rules());
    target.decide();
    let effect = target.after(300).effect;
    assert_eq!(
        (effect.miss_share_unhedged, effect.miss_share_hedged),
        (None, None)
    );
}

#[test]
fn off_hedges_nothing_and_tells_what_is_missed() {
    let mut target = Target::new(rules());
    target.queue(&[60.0]);
    let effect = target.decide().effect;
    assert_eq!(effect.hedge_share, Some(0.0));
    assert!(near(effect.miss_share_unhedged, 0.149_237), "{effect:?}");
    assert_eq!(effect.miss_share_hedged, None);
}

#[test]
fn observe_predicts_what_full_hedging_would_do() {
    let mut rules = rules();
    rules.mode = Mode::Observe;
    let effect = Target::new(rules).run(3600, 30).effect;
    assert!(near(effect.hedge_share, 0.05), "{effect:?}");
    assert!(near(effect.miss_share_hedged, 0.007_972), "{effect:?}");
}

#[test]
fn without_a_deadline_nothing_is_missed_or_saved() {
    let mut rules = rules_without_signals();
    rules.deadline = None;
    let effect = decide_settled(
        &rules,
        &Target::new(rules.clone()).readings,
        Target::new(rules.clone()).now,
    )
    .effect;
    assert_eq!(
        (effect.miss_share_unhedged, effect.miss_share_hedged),
        (None, None)
    );
    assert!(near(effect.hedge_share, 0.05), "{effect:?}");
}

#[test]
fn a_deadline_beyond_the_buckets_is_not_identified() {
    // The last bound is .8 s, 2 % are beyond it; whether they took more than 1 s nobody knows.
    let mut target = Target::new(rules());
    target.latency(histogram(&[
        (0.15, 500.0),
        (0.3, 900.0),
        (0.5, 950.0),
        (0.8, 980.0),
        (INF, 1000.0),
    ]));
    let effect = target.decide().effect;
    assert_eq!(
        (effect.miss_share_unhedged, effect.miss_share_hedged),
        (None, None)
    );
}

#[test]
fn without_traffic_nothing_is_known_of_the_effect() {
    let mut target = Target::new(rules());
    target.readings.latency = None;
    assert_eq!(
        target.decide().effect,
        Effect {
            hedge_share: Some(0.0),
            ..Effect::default()
        }
    );
    assert!(help_desk().count() > 0.0);
}
