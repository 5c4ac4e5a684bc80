//! The switch: off, cooldown, ramp.

use hedgerow_tuner::{
    Alert, Decision, Line, Mode, Reason, SignalRules, SignalValue, Stop, SwitchState, Timestamp,
    UnknownReason, decide_settled,
};

use crate::support::{Target, alert, hedged, help_desk, line, many, rules, scaled_help_desk, secs, unknown};

fn percent(decision: &Decision) -> Option<f64> {
    decision.orders.hedging.map(|hedging| hedging.percent)
}

/// Seconds until hedging is on again, decided every second.
fn seconds_until_on(target: &mut Target) -> u64 {
    (0..10_000)
        .find(|_| target.after(1).orders.hedging.is_some())
        .unwrap()
        + 1
}

#[test]
fn the_first_start_ramps_at_once_without_a_cooldown() {
    let mut target = Target::new(rules());
    let decision = target.decide();
    assert_eq!(
        (decision.reason, percent(&decision)),
        (Reason::Ramping, Some(2.5))
    );
    assert_eq!(decision.orders.reason, Reason::Ramping);
    assert_eq!(percent(&target.after(119)), Some(2.5));
    assert_eq!(percent(&target.after(1)), Some(5.0));
    assert_eq!(percent(&target.after(119)), Some(5.0));
    let decision = target.after(1);
    assert_eq!((decision.reason, percent(&decision)), (Reason::Tuned, Some(10.0)));
    assert_eq!(decision.switch, SwitchState::Closed);
}

#[test]
fn min_per_second_is_ramped_with_the_budget() {
    let mut rules = rules();
    rules.budget.min_per_second = 8.0;
    let mut target = Target::new(rules);
    let min_per_second = |decision: Decision| decision.orders.hedging.unwrap().min_per_second;
    assert_eq!(min_per_second(target.decide()), 2.0);
    assert_eq!(min_per_second(target.after(120)), 4.0);
    assert_eq!(min_per_second(target.after(120)), 8.0);
}

#[test]
fn before_the_first_readings_it_warms_up() {
    let mut target = Target::new(rules());
    target.readings = hedgerow_tuner::Readings::default();
    let decision = target.decide();
    assert_eq!(decision.orders.reason, Reason::WarmingUp);
    assert_eq!(decision.revision, 1);
    // Latency alone does not start hedging: the queue has not been read.
    target.latency(scaled_help_desk(1.0));
    assert_eq!(target.after(1).orders.reason, Reason::WarmingUp);
    // Not read for longer than maxUnknown.
    assert_eq!(target.after(90).orders.reason, Reason::SaturationUnknown);
    target.queue(&[3.0]);
    assert_eq!(target.decide().orders.reason, Reason::Ramping);
}

#[test]
fn above_the_line_it_is_off_at_once_with_the_numbers() {
    let mut target = Target::tuned(rules());
    target.queue(&[50.0]);
    assert!(
        target.after(5).orders.hedging.is_some(),
        "the line itself is not above it"
    );
    target.queue(&[61.0]);
    let decision = target.after(5);
    assert_eq!((decision.reason, percent(&decision)), (Reason::Saturated, None));
    assert_eq!(decision.orders.reason, Reason::Saturated);
    assert_eq!(decision.message.to_string(), "queue 61, off above 50, back at 35");
    assert!(decision.signals[0].saturated);
}

#[test]
fn between_the_lines_it_stays_as_it_is() {
    let mut target = Target::tuned(rules());
    target.queue(&[38.0]);
    assert_eq!(target.after(5).reason, Reason::Tuned);
    target.queue(&[61.0]);
    target.after(5);
    target.queue(&[38.0]);
    let decision = target.run(3600, 5);
    assert_eq!(decision.reason, Reason::Saturated);
    assert_eq!(decision.message.to_string(), "queue 38, back at 35");
    assert!(decision.signals[0].saturated);
    assert!(matches!(decision.switch, SwitchState::Open { until: None, .. }));
}

#[test]
fn the_cooldown_runs_from_the_off_document_and_its_propagation() {
    // Above the line for one reading: 90 s of propagation and 120 s of cooldown after the document.
    let mut target = Target::tuned(rules());
    target.queue(&[61.0]);
    target.after(1);
    let off = target.now;
    target.queue(&[3.0]);
    let decision = target.after(1);
    assert_eq!(decision.reason, Reason::CoolingDown);
    assert_eq!(
        decision.switch,
        SwitchState::Open {
            since: off,
            until: Some(off.plus(secs(210)))
        }
    );
    assert_eq!(decision.message.to_string(), "back in 3m29s");
    assert_eq!(seconds_until_on(&mut target), 209);
}

#[test]
fn the_cooldown_runs_from_the_last_value_not_back_under_its_line() {
    let mut target = Target::tuned(rules());
    target.queue(&[61.0]);
    target.run(600, 1);
    target.queue(&[35.0]); // at onBelow is not below it
    target.run(60, 1);
    target.queue(&[34.9]);
    target.after(1);
    assert_eq!(seconds_until_on(&mut target), 120);
    // And a value between the lines restarts it.
    let mut target = Target::tuned(rules());
    target.queue(&[61.0]);
    target.after(1);
    target.queue(&[3.0]);
    target.run(180, 1);
    target.queue(&[40.0]);
    let decision = target.after(1);
    assert_eq!(decision.reason, Reason::CoolingDown);
    assert_eq!(decision.message.to_string(), "back in 2m; queue 40, back at 35");
    target.queue(&[3.0]);
    assert_eq!(seconds_until_on(&mut target), 120);
}

#[test]
fn every_return_ramps() {
    let mut target = Target::tuned(rules());
    target.queue(&[61.0]);
    target.after(1);
    target.queue(&[3.0]);
    seconds_until_on(&mut target);
    let shares: Vec<_> = (0..4).map(|_| percent(&target.after(60)).unwrap()).collect();
    assert_eq!(shares, [2.5, 5.0, 5.0, 10.0]);
}

#[test]
fn a_return_from_too_slow_needs_a_cooldown_and_the_ramp_too() {
    let mut target = Target::tuned(rules());
    let good = many(&hedged(&help_desk(), 0.5, 1.0));
    target.latency(scaled_help_desk(3.0));
    assert_eq!(target.after(1).reason, Reason::AboveMax);
    target.latency(good);
    assert_eq!(target.after(1).reason, Reason::CoolingDown);
    assert_eq!(seconds_until_on(&mut target), 209);
    assert_eq!(target.decide().reason, Reason::Ramping);
}

/// Trips now, and says how long hedging is off after the value is good again.
fn trip(target: &mut Target) -> u64 {
    target.queue(&[61.0]);
    target.after(1);
    target.queue(&[3.0]);
    target.pass(0);
    seconds_until_on(target)
}

#[test]
fn a_trip_soon_after_full_budget_doubles_the_cooldown_up_to_half_an_hour() {
    let mut target = Target::tuned(rules());
    // After an hour at full budget: 90 s of propagation and one cooldown.
    assert_eq!(trip(&mut target), 210);
    // Each next trip comes within the ramp: 240, 480, 960 s, then 1800 s and no more.
    let expected = [240, 480, 960, 1800, 1800].map(|cooldown| cooldown + 90);
    assert_eq!([(); 5].map(|()| trip(&mut target)), expected);
    // Tripped 599 s after full budget: still doubled. After 600 s: a single cooldown again.
    target.run(240 + 598, 1);
    assert_eq!(target.decide().reason, Reason::Tuned);
    assert_eq!(trip(&mut target), 1890);
    target.run(240 + 599, 1);
    assert_eq!(trip(&mut target), 210);
}

#[test]
fn ten_minutes_at_full_budget_count_whatever_ended_them() {
    let mut target = Target::tuned(rules());
    trip(&mut target);
    trip(&mut target);
    target.run(1200, 5);
    target.latency(scaled_help_desk(3.0));
    target.after(5);
    target.latency(scaled_help_desk(1.0));
    seconds_until_on(&mut target);
    // Tripped within the ramp: doubled once, not three times.
    assert_eq!(trip(&mut target), 330);
}

#[test]
fn opening_by_unknown_doubles_nothing() {
    let mut target = Target::new(rules());
    target.decide();
    target.signals(vec![Err(unknown(UnknownReason::Unavailable))]);
    assert_eq!(target.run(91, 1).reason, Reason::SaturationUnknown);
    target.queue(&[3.0]);
    assert_eq!(seconds_until_on(&mut target), 210);
}

#[test]
fn unknown_is_endured_for_max_unknown_since_the_last_fresh_reading() {
    let mut target = Target::tuned(rules());
    target.after(5);
    let fresh = target.now;
    target.pass(5);
    target.signals(vec![Err(unknown(UnknownReason::Unavailable))]);
    let decision = target.decide();
    assert_eq!(decision.reason, Reason::Tuned);
    assert_eq!(decision.signals[0].unknown_since, Some(fresh));
    assert_eq!(target.after(85).reason, Reason::Tuned);
    let decision = target.after(1);
    assert_eq!(decision.reason, Reason::SaturationUnknown);
    assert_eq!(
        decision.message.to_string(),
        "queue unknown for 1m31s (Unavailable: for a test)"
    );
}

#[test]
fn a_reading_handed_in_again_grows_old() {
    let mut target = Target::tuned(rules());
    target.live = false;
    assert_eq!(target.after(90).reason, Reason::Tuned);
    let decision = target.after(1);
    assert_eq!(decision.reason, Reason::SaturationUnknown);
    assert_eq!(
        decision.signals[0].unknown.as_ref().unwrap().reason,
        UnknownReason::Stale
    );
}

#[test]
fn max_unknown_is_never_less_than_three_scrapes() {
    let mut target = Target::tuned(rules());
    target.queue(&[3.0]);
    target.readings.signals[0].as_mut().unwrap().scrape_interval = Some(secs(60));
    target.after(5);
    target.live = false;
    assert_eq!(target.after(180).reason, Reason::Tuned);
    assert_eq!(target.after(1).reason, Reason::SaturationUnknown);
}

#[test]
fn unknown_never_closes() {
    let mut target = Target::tuned(rules());
    target.queue(&[61.0]);
    target.after(5);
    target.queue(&[3.0]);
    target.run(200, 5);
    // Unknown for less than maxUnknown as the cooldown runs out.
    target.signals(vec![Err(unknown(UnknownReason::Throttled))]);
    let decision = target.run(60, 5);
    assert_eq!(decision.reason, Reason::CoolingDown);
    assert!(
        decision.message.to_string().starts_with("queue unknown for"),
        "{}",
        decision.message
    );
    target.queue(&[3.0]);
    assert_eq!(target.after(5).reason, Reason::Ramping);
}

#[test]
fn unknown_does_not_raise_the_budget() {
    let mut target = Target::new(rules());
    target.decide();
    target.run(115, 5);
    target.signals(vec![Err(unknown(UnknownReason::Throttled))]);
    assert_eq!(percent(&target.run(60, 5)), Some(2.5));
    target.queue(&[3.0]);
    assert_eq!(percent(&target.after(5)), Some(5.0));
}

#[test]
fn one_noisy_replica_does_not_switch_a_fleet_off() {
    let saturated = |series: &[f64]| {
        let mut target = Target::tuned(rules());
        target.queue(series);
        target.after(5).reason == Reason::Saturated
    };
    assert!(saturated(&[60.0]));
    assert!(!saturated(&[60.0, 3.0]));
    assert!(saturated(&[60.0, 60.0]));
    // 10 % of 30 series are 3.
    let mut fleet = vec![3.0; 28];
    fleet.extend([60.0, 60.0]);
    assert!(!saturated(&fleet));
    fleet[0] = 60.0;
    assert!(saturated(&fleet));
}

#[test]
fn at_least_says_how_many_series_it_takes() {
    let saturated = |at_least, series: &[f64]| {
        let mut rules = rules();
        rules.switch.signals[0].line = Line::Value {
            off_above: 50.0,
            on_below: 35.0,
            at_least: Some(at_least),
        };
        let mut target = Target::tuned(rules);
        target.queue(series);
        target.after(5).reason == Reason::Saturated
    };
    assert!(saturated(1, &[60.0, 3.0, 3.0]));
    assert!(!saturated(3, &[60.0, 60.0, 3.0]));
    // With fewer series than that, all of them.
    assert!(saturated(3, &[60.0, 60.0]));
    assert!(!saturated(3, &[60.0, 3.0]));
}

#[test]
fn a_firing_alert_saturates_and_a_pending_one_does_not() {
    let mut rules = rules();
    rules.switch.signals = vec![SignalRules {
        name: "incident".to_owned(),
        line: Line::Alert,
    }];
    let mut target = Target::new(rules);
    target.signals(vec![alert(Alert::Inactive)]);
    target.decide();
    target.signals(vec![alert(Alert::Pending)]);
    assert_eq!(target.after(5).signals[0].value, Some(0.0));
    assert!(target.hedging().is_some());
    target.signals(vec![alert(Alert::Firing)]);
    let decision = target.after(5);
    assert_eq!(decision.reason, Reason::Saturated);
    assert_eq!(decision.message.to_string(), "incident fires");
    assert_eq!(
        (decision.signals[0].value, decision.signals[0].off_above),
        (Some(1.0), None)
    );
    target.signals(vec![alert(Alert::Pending)]);
    assert_eq!(target.after(5).reason, Reason::CoolingDown);
}

#[test]
fn a_signal_that_becomes_unknown_while_saturated_is_told_as_what_it_is() {
    let mut target = Target::tuned(rules());
    target.queue(&[80.0, 80.0]);
    assert_eq!(target.after(5).reason, Reason::Saturated);
    target.signals(vec![Err(unknown(UnknownReason::Unavailable))]);
    let decision = target.after(5);
    assert_eq!(decision.reason, Reason::Saturated);
    assert!(decision.orders.hedging.is_none() && !decision.signals[0].saturated);
    assert_eq!(
        decision.message.to_string(),
        "off since a signal was above its line, until all are known to be under theirs: queue unknown for 5s \
         (Unavailable: for a test)"
    );
}

#[test]
fn any_signal_turns_off_and_all_must_be_back() {
    let mut rules = rules();
    rules.switch.signals.push(line("rejected", 0.01, 0.007));
    let mut target = Target::new(rules);
    let says = |queue: f64, rejected: f64| {
        vec![
            Ok(SignalValue::Series(vec![queue])),
            Ok(SignalValue::Series(vec![rejected])),
        ]
    };
    target.signals(says(3.0, 0.0));
    assert!(target.hedging().is_some());
    target.signals(says(3.0, 0.02));
    assert_eq!(
        target.after(5).message.to_string(),
        "rejected 0.02, off above 0.01, back at 0.007"
    );
    target.signals(says(40.0, 0.0));
    assert_eq!(target.run(1200, 5).message.to_string(), "queue 40, back at 35");
}

#[test]
fn values_that_cannot_be_compared_are_unknown() {
    let mut target = Target::tuned(rules());
    for (value, reason) in [
        (
            SignalValue::Series(vec![3.0, f64::NAN]),
            UnknownReason::NotANumber,
        ),
        (SignalValue::Series(vec![]), UnknownReason::SelectorMatchesNothing),
        (SignalValue::Alert(Alert::Firing), UnknownReason::BadResponse),
    ] {
        target.signals(vec![Ok(value)]);
        let decision = target.after(5);
        assert_eq!(decision.signals[0].unknown.as_ref().unwrap().reason, reason);
        assert_eq!(decision.signals[0].value, None);
    }
    // A ratio to nothing is above any line.
    target.queue(&[f64::INFINITY]);
    let decision = target.after(5);
    assert_eq!(decision.reason, Reason::Saturated);
    assert!(decision.signals[0].value.unwrap().is_finite());
}

#[test]
fn a_stop_by_a_person_goes_before_everything_and_comes_back_through_the_ramp() {
    let mut target = Target::tuned(rules());
    target.queue(&[61.0]);
    target.stop(true);
    let decision = target.after(1);
    assert_eq!(decision.orders.reason, Reason::Stopped);
    assert_eq!(
        decision.message.to_string(),
        "ConfigMap helpdesk/hedgerow-off: incident 7"
    );
    target.queue(&[3.0]);
    target.run(3600, 30);
    target.stop(false);
    assert_eq!(target.after(1).reason, Reason::Ramping);
    // Lifted at once it still needs its cooldown.
    target.stop(true);
    target.after(1);
    target.stop(false);
    assert_eq!(seconds_until_on(&mut target), 210);
}

#[test]
fn mode_disabled_is_stopped() {
    let mut rules = rules();
    rules.mode = Mode::Disabled;
    let decision = Target::new(rules).decide();
    assert_eq!(
        (decision.orders.reason, decision.message.to_string().as_str()),
        (Reason::Stopped, "mode: Disabled")
    );
}

/// What is wrong with a policy turns it off under its own name, in the mode `Observe` too; a person goes before it, and it
/// goes before what is measured.
#[test]
fn a_refusal_has_its_own_reason_under_that_of_a_person() {
    for refusal in [Reason::Invalid, Reason::SourceNotAvailable] {
        let stop = || {
            Some(Stop {
                reason: refusal,
                message: "there is no source".to_owned(),
            })
        };
        let decided = |mode| {
            let mut target = Target::tuned(rules());
            target.rules.mode = mode;
            target.readings.stop = stop();
            target.queue(&[61.0]);
            let decision = target.after(1);
            assert_eq!(decision.reason, decision.orders.reason);
            assert_eq!(decision.orders.hedging, None);
            (decision.reason, decision.message.to_string())
        };
        let refused = (refusal, "there is no source".to_owned());
        assert_eq!(decided(Mode::Enforce), refused);
        assert_eq!(decided(Mode::Observe), refused);
        assert_eq!(
            decided(Mode::Disabled),
            (Reason::Stopped, "mode: Disabled".to_owned())
        );
    }
}

#[test]
fn a_stop_for_a_reason_that_stops_nothing_is_one_by_a_person() {
    let mut target = Target::tuned(rules());
    target.readings.stop = Some(Stop {
        reason: Reason::Tuned,
        message: "for a test".to_owned(),
    });
    let decision = target.after(1);
    assert_eq!(
        (
            decision.orders.hedging,
            decision.reason,
            decision.message.to_string().as_str()
        ),
        (None, Reason::Stopped, "for a test")
    );
}

#[test]
fn observe_tells_clients_off_and_shows_what_would_be() {
    let mut rules = rules();
    rules.mode = Mode::Observe;
    let mut target = Target::new(rules);
    let decision = target.run(3600, 30);
    assert_eq!(
        (decision.orders.hedging, decision.orders.reason),
        (None, Reason::Observing)
    );
    assert_eq!(
        (decision.reason, decision.recommended_ms),
        (Reason::Observing, Some(500.0))
    );
    assert_eq!(decision.revision, 1);
    // The switch is followed, and clients hear nothing of it.
    target.queue(&[61.0]);
    let decision = target.after(5);
    assert_eq!(
        (decision.reason, decision.orders.reason),
        (Reason::Saturated, Reason::Observing)
    );
    assert_eq!(decision.revision, 1);
    target.queue(&[3.0]);
    target.run(3600, 30);
    // Entering Enforce goes through the ramp.
    target.rules.mode = Mode::Enforce;
    let decision = target.after(30);
    assert_eq!(
        (decision.reason, percent(&decision)),
        (Reason::Ramping, Some(2.5))
    );
}

#[test]
fn a_glance_at_observe_does_not_save_the_cooldown() {
    let mut target = Target::tuned(rules());
    target.rules.mode = Mode::Observe;
    target.after(1);
    target.rules.mode = Mode::Enforce;
    assert_eq!(target.after(1).reason, Reason::CoolingDown);
    assert_eq!(seconds_until_on(&mut target), 209);
}

#[test]
fn plan_shows_a_target_that_may_hedge_after_the_ramp() {
    let target = Target::new(rules());
    let decision = decide_settled(&target.rules, &target.readings, target.now);
    assert_eq!((decision.reason, percent(&decision)), (Reason::Tuned, Some(10.0)));
    assert_eq!(decision.switch, SwitchState::Closed);
    let mut saturated = Target::new(rules());
    saturated.queue(&[61.0]);
    let decision = decide_settled(&saturated.rules, &saturated.readings, saturated.now);
    assert_eq!((decision.reason, percent(&decision)), (Reason::Saturated, None));
}

#[test]
fn rules_that_cannot_hold_are_off() {
    let mut target = Target::tuned(rules());
    target.rules.delay.min = secs(2);
    let decision = target.after(1);
    assert_eq!(
        (decision.orders.hedging, decision.orders.reason),
        (None, Reason::Invalid)
    );
    assert_eq!(decision.message.to_string(), "delay.min is above delay.max");
    assert!(target.now > Timestamp::default());
}
