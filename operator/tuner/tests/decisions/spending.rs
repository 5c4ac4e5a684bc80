//! The budget that is published to clients that spend more than they are told.

use hedgerow_tuner::{Decision, Memory, Rules, UnknownReason};

use crate::support::{Target, rules, unknown};

fn counting(rules: Rules) -> Rules {
    Rules {
        counted: true,
        ..rules
    }
}

/// Ten minutes after whatever went before, of 10 000 calls so many were hedged.
fn spent(target: &mut Target, hedges: f64) -> Decision {
    target.pass(690);
    target.counts(600, 10_000.0, hedges, Some(0.0));
    target.decide()
}

fn percent(decision: &Decision) -> f64 {
    decision.orders.hedging.unwrap().percent
}

#[test]
fn clients_that_spend_more_than_they_are_told_are_told_less() {
    let mut target = Target::tuned(counting(rules()));
    // Told 10 %, 25 % spent: 10 x 10 / 25 = 4 %. Told 4 %, 10 % spent: that is the budget, and stays.
    assert_eq!(percent(&spent(&mut target, 2500.0)), 4.0);
    assert_eq!(percent(&spent(&mut target, 1000.0)), 4.0);
    // 20 % spent: 4 x 4 / 20 would be 0.8 %; a quarter of the budget is the least.
    assert_eq!(percent(&spent(&mut target, 2000.0)), 2.5);
    // A tenth of the budget comes back with each measurement within what they are told.
    for told in [3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.0, 10.0] {
        assert_eq!(percent(&spent(&mut target, 250.0)), told);
    }
}

#[test]
fn one_measurement_cuts_once() {
    let mut target = Target::tuned(counting(rules()));
    assert_eq!(percent(&spent(&mut target, 2000.0)), 5.0);
    // The same calls are still in view.
    for _ in 0..22 {
        assert_eq!(percent(&target.after(30)), 5.0);
    }
}

#[test]
fn the_part_that_is_published_goes_through_the_ramp_and_a_restart() {
    let mut target = Target::tuned(counting(rules()));
    assert_eq!(percent(&spent(&mut target, 2000.0)), 5.0);
    target.restart();
    target.queue(&[61.0]);
    target.after(5);
    target.queue(&[3.0]);
    target.readings.counts = None;
    let ramp: Vec<_> = (0..120)
        .filter_map(|_| target.after(5).orders.hedging.map(|hedging| hedging.percent))
        .collect();
    let mut steps = ramp;
    steps.dedup();
    assert_eq!(steps, [1.25, 2.5, 5.0]);
}

#[test]
fn nothing_comes_back_while_a_reading_is_unknown() {
    let mut target = Target::tuned(counting(rules()));
    assert_eq!(percent(&spent(&mut target, 2000.0)), 5.0);
    target.signals(vec![Err(unknown(UnknownReason::Timeout))]);
    target.pass(630);
    target.queue(&[3.0]);
    target.decide();
    target.signals(vec![Err(unknown(UnknownReason::Timeout))]);
    target.pass(60);
    target.counts(600, 10_000.0, 250.0, Some(0.0));
    assert_eq!(percent(&target.decide()), 5.0);
}

#[test]
fn clients_that_may_always_send_some_are_not_judged_by_a_share() {
    let mut rules = counting(rules());
    rules.budget.min_per_second = 2.0;
    let mut target = Target::tuned(rules);
    assert_eq!(percent(&spent(&mut target, 2500.0)), 10.0);
}

#[test]
fn a_policy_without_counters_publishes_all_of_its_budget() {
    let mut target = Target::tuned(counting(rules()));
    assert_eq!(percent(&spent(&mut target, 2000.0)), 5.0);
    target.rules.counted = false;
    assert_eq!(percent(&target.after(30)), 10.0);
}

#[test]
fn a_stored_part_that_cannot_be_never_raises_the_budget() {
    let percent_with = |stored: &str| {
        let mut target = Target::tuned(counting(rules()));
        let written = serde_json::to_string(&target.memory).unwrap();
        let with = written.replacen('{', &format!(r#"{{"backOff":{stored},"#), 1);
        target.memory = serde_json::from_str::<Memory>(&with).unwrap();
        percent(&target.after(5))
    };
    assert_eq!(percent_with("0.5"), 5.0);
    assert_eq!(percent_with("7"), 10.0);
    assert_eq!(percent_with("1e300"), 10.0);
    assert_eq!(percent_with("0"), 2.5);
    assert_eq!(percent_with("-3"), 2.5);
}
