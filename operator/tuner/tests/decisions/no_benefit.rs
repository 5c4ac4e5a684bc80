//! Hedges that do not win.

use hedgerow_tuner::{DiagnosisReason, Mode, NoBenefit, Reason, SwitchState, WindowCounts};

use crate::diagnoses::counted_rules;
use crate::support::{Target, counts, diagnosis, secs};

const HOUR: u64 = 3600;

/// Hedging at full budget, clients count, and hedges that do not win turn it off.
fn disabling() -> Target {
    let mut rules = counted_rules();
    rules.no_benefit = NoBenefit::Disable;
    Target::tuned(rules)
}

/// `hedges` in 10 minutes, of which so many won.
fn won(hedges: f64, wins: f64) -> Vec<WindowCounts> {
    vec![counts(600, 20.0 * hedges, hedges, 0.0, wins)]
}

/// So many hedges of a probe, within a quarter of the budget, of which so many won.
fn probed(hedges: f64, wins: f64) -> Vec<WindowCounts> {
    vec![counts(600, 40.0 * hedges, hedges, 0.0, wins)]
}

fn says(target: &mut Target) -> bool {
    diagnosis(&target.decide(), DiagnosisReason::NoBenefit).is_some()
}

#[test]
fn hedges_that_seldom_win_are_told() {
    // The 99 % upper bounds: 2 of 200 are at most 4.4 %, 3 of 200 at most 5.1 %.
    let mut target = Target::tuned(counted_rules());
    target.counted(won(200.0, 3.0));
    assert!(!says(&mut target));
    target.counted(won(200.0, 2.0));
    let decision = target.decide();
    let said = &diagnosis(&decision, DiagnosisReason::NoBenefit).unwrap().message;
    assert!(said.starts_with("2 of 200 hedges won (1 %) in 10m; "), "{said}");
    assert!(decision.orders.hedging.is_some(), "it is only told");
}

#[test]
fn fewer_than_two_hundred_hedges_show_nothing_and_are_counted_back_for_a_day() {
    let mut target = Target::tuned(counted_rules());
    target.counted(won(199.0, 0.0));
    assert!(!says(&mut target));
    target.counted(vec![
        counts(600, 4000.0, 199.0, 0.0, 0.0),
        counts(48 * HOUR, 9e5, 400.0, 0.0, 0.0),
    ]);
    assert!(!says(&mut target));
    target.counted(vec![
        counts(600, 4000.0, 199.0, 0.0, 0.0),
        counts(24 * HOUR, 9e5, 400.0, 0.0, 0.0),
    ]);
    assert!(says(&mut target));
}

#[test]
fn unknown_wins_are_not_none() {
    let mut target = disabling();
    let mut counts = won(500.0, 0.0);
    counts[0].wins = None;
    target.counted(counts);
    assert!(!says(&mut target));
    target.counted(won(f64::NAN, 0.0));
    assert!(!says(&mut target));
}

#[test]
fn what_is_only_near_the_line_does_not_end_it() {
    let mut target = Target::tuned(counted_rules());
    target.counted(won(300.0, 3.0));
    assert!(says(&mut target));
    // The 99 % lower bounds: 23 of 300 are at least 4.8 %, 24 at least 5.1 %.
    target.counted(won(300.0, 23.0));
    target.run(2 * HOUR, 60);
    assert!(says(&mut target), "it is not sure");
    target.counted(won(300.0, 24.0));
    target.run(2 * HOUR, 60);
    assert!(!says(&mut target));
}

#[test]
fn disable_turns_hedging_off_for_six_hours() {
    let mut target = disabling();
    target.counted(won(300.0, 3.0));
    let decision = target.decide();
    assert_eq!(
        (decision.reason, decision.orders.hedging),
        (Reason::NoBenefit, None)
    );
    assert!(
        decision
            .message
            .to_string()
            .starts_with("3 of 300 hedges won (1 %); hedging is off, and is tried again after 6h"),
        "{}",
        decision.message
    );
    let until = target.now.plus(secs(6 * HOUR));
    assert!(matches!(decision.switch, SwitchState::Open { until: Some(at), .. } if at == until));
    // Whatever is counted meanwhile, and through a restart.
    target.counted(won(300.0, 200.0));
    target.restart();
    let decision = target.run(6 * HOUR - 30, 30);
    assert_eq!(decision.reason, Reason::NoBenefit);
    assert_eq!(target.after(30).reason, Reason::Ramping);
}

/// Off for six hours, and back to be tried.
fn probing() -> Target {
    let mut target = disabling();
    target.counted(won(300.0, 3.0));
    target.decide();
    target.counted(won(0.0, 0.0));
    target.run(6 * HOUR, 60);
    assert_eq!(target.hedging().unwrap().percent, 2.5);
    target
}

#[test]
fn a_probe_stays_at_a_quarter_of_the_budget_until_it_has_two_hundred_hedges() {
    let mut target = probing();
    target.counted(probed(199.0, 150.0));
    let decision = target.run(2 * HOUR, 60);
    assert_eq!(
        (decision.reason, decision.orders.hedging.unwrap().percent),
        (Reason::Ramping, 2.5)
    );
    assert!(says(&mut target));
}

#[test]
fn a_probe_that_wins_ends_it_and_hedging_ramps_on() {
    // 10 of 200 is 5 %: worth it.
    let mut target = probing();
    target.run(HOUR, 60);
    target.counted(probed(200.0, 10.0));
    assert_eq!(target.after(60).orders.hedging.unwrap().percent, 5.0);
    assert!(!says(&mut target));
    target.run(120, 60);
    assert_eq!(target.hedging().unwrap().percent, 10.0);
    // What was counted before the probe is no evidence any more.
    target.counted(vec![
        counts(600, 2000.0, 100.0, 0.0, 50.0),
        counts(24 * HOUR, 3e5, 10_000.0, 0.0, 100.0),
    ]);
    assert!(!says(&mut target));
    assert!(target.hedging().is_some());
}

#[test]
fn a_probe_that_does_not_win_doubles_the_time_off_to_a_day() {
    let mut target = probing();
    for hours in [12, 24, 24] {
        target.counted(won(200.0, 9.0));
        let decision = target.after(60);
        assert_eq!(
            (decision.reason, decision.orders.hedging),
            (Reason::NoBenefit, None)
        );
        assert!(
            decision
                .message
                .to_string()
                .contains(&format!("tried again after {hours}h")),
            "{}",
            decision.message
        );
        target.counted(won(0.0, 0.0));
        assert_eq!(target.run(hours * HOUR - 60, 60).orders.hedging, None);
        assert_eq!(target.after(60).orders.hedging.unwrap().percent, 2.5);
    }
}

#[test]
fn hedges_sent_before_it_went_off_judge_no_probe() {
    let mut target = probing();
    target.counted(vec![
        counts(600, 500.0, 10.0, 0.0, 5.0),
        counts(24 * HOUR, 3e5, 10_000.0, 0.0, 100.0),
    ]);
    assert_eq!(target.after(60).reason, Reason::Ramping);
}

#[test]
fn a_probe_that_is_interrupted_goes_on_as_one() {
    let mut target = probing();
    target.queue(&[60.0]);
    assert_eq!(target.after(30).reason, Reason::Saturated);
    target.queue(&[3.0]);
    let decision = target.run(HOUR, 30);
    assert_eq!(decision.orders.hedging.unwrap().percent, 2.5);
}

#[test]
fn report_turns_it_on_again() {
    let mut target = disabling();
    target.counted(won(300.0, 3.0));
    target.decide();
    target.rules.no_benefit = NoBenefit::Report;
    target.run(HOUR, 30);
    assert_eq!(target.hedging().unwrap().percent, 10.0);
    assert!(says(&mut target));
}

#[test]
fn observe_turns_nothing_off() {
    let mut target = disabling();
    target.rules.mode = Mode::Observe;
    target.counted(won(300.0, 3.0));
    assert_eq!(target.decide().reason, Reason::Observing);
}

#[test]
fn saturation_and_lines_come_before_it() {
    let mut target = disabling();
    target.counted(won(300.0, 3.0));
    target.queue(&[60.0]);
    assert_eq!(target.decide().reason, Reason::Saturated);
    target.queue(&[3.0]);
    target.after(30);
    assert_eq!(target.run(300, 30).reason, Reason::NoBenefit);
}

#[test]
fn going_off_without_benefit_is_no_trip() {
    let mut target = disabling();
    target.counted(won(300.0, 3.0));
    target.decide();
    target.rules.no_benefit = NoBenefit::Report;
    // One cooldown of 2 minutes after the 90 s that the off document takes, undoubled.
    assert_eq!(target.run(180, 30).orders.hedging, None);
    assert!(target.after(30).orders.hedging.is_some());
}
