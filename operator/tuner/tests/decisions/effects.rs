//! What hedging does to the user's query.

use hedgerow_tuner::{Effect, Mode, decide_settled};

use crate::support::{Target, help_desk, histogram, rules, rules_without_signals};

const INF: f64 = f64::INFINITY;

fn near(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() < 1e-6)
}

#[test]
fn the_help_desk_case_is_predicted_from_unhedged_calls() {
    // S(T) = 2 %: 1 - 0.98^8 = 14.92 %. d = .5, S(d) = 5 %, a = min(1, 10/5) = 1, S(T-d) = 5 %:
    // m = 0.02 x 0.05 = 0.001, 1 - 0.999^8 = 0.797 %.
    let effect = decide_settled(&rules(), &Target::new(rules()).readings, Target::new(rules()).now).effect;
    assert!(
        near(effect.miss_share_unhedged, 1.0 - 0.98_f64.powi(8)),
        "{effect:?}"
    );
    assert!(
        near(effect.miss_share_hedged, 1.0 - 0.999_f64.powi(8)),
        "{effect:?}"
    );
    assert!(near(effect.hedge_share, 0.05), "{effect:?}");
    assert!(near(effect.miss_share_unhedged, 0.149_237), "{effect:?}");
    assert!(near(effect.miss_share_hedged, 0.007_972), "{effect:?}");
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
