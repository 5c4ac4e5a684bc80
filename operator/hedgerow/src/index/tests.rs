use hedgerow_tuner::Reason;
use serde_json::json;

use super::*;
use crate::fixtures::{at, follow, index, policy, read, unread, written_spec};

const PHASE: Duration = Duration::ZERO;

/// Everything that is due, read as `readings` and decided.
fn sample(
    index: &Index,
    now: Timestamp,
    readings: impl Fn(Timestamp) -> TargetReadings,
) -> Vec<Option<Lane>> {
    let (due, _) = index.due("default", PHASE, now);
    let answer = |due: &Due| {
        let mut all = readings(now);
        all.latency = all.latency.filter(|_| due.query.latency.is_some());
        if due.query.signals.is_empty() {
            all.signals.clear();
        }
        all
    };
    due.iter().map(|due| index.take(due, answer(due), now)).collect()
}

/// Decides, and has the document written.
fn decided(index: &Index, now: Timestamp) -> Decision {
    let decision = handed(index, now);
    index.set_outcome(&policy(), outcome(Written::Published), now);
    decision
}

/// Decides, and hands the document on.
fn handed(index: &Index, now: Timestamp) -> Decision {
    index.decide(&policy(), now).unwrap().targets.remove(0).0
}

fn outcome(written: Written) -> Outcome {
    Outcome {
        written: BTreeMap::from([("kb-hedging".to_owned(), written)]),
        again_at: None,
        valid_until: None,
    }
}

/// An index whose target hedges at full budget, with everything handed on.
fn tuned() -> Index {
    let index = index();
    for second in 0..60 {
        sample(&index, at(10 * second), |now| read(now, 3.0));
        decided(&index, at(10 * second));
    }
    assert_eq!(decided(&index, at(600)).reason, Reason::Tuned);
    index
}

#[test]
fn a_target_is_due_at_once_and_then_on_its_schedule() {
    let index = index();
    let (due, _) = index.due("default", PHASE, at(0));
    assert!(due[0].query.latency.is_some() && due[0].query.signals.len() == 1);
    let (due, next) = index.due("default", PHASE, at(1));
    assert!(due.is_empty());
    assert_eq!(next, Some(at(5)), "the signals, every 5 s");
    let (due, _) = index.due("default", PHASE, at(5));
    assert!(due[0].query.latency.is_none() && due[0].query.signals.len() == 1);
}

#[test]
fn another_source_has_nothing_due() {
    assert!(index().due("other", PHASE, at(0)).0.is_empty());
}

#[test]
fn what_is_read_again_and_decided_alike_is_not_written_again() {
    let index = tuned();
    for second in 0..20 {
        let noisy = |now| read(now, f64::from(u32::try_from(second).unwrap()));
        let lanes = sample(&index, at(605 + 5 * second), noisy);
        assert!(lanes.iter().all(Option::is_none), "{second}: {lanes:?}");
    }
}

#[test]
fn a_saturated_target_goes_first() {
    let index = tuned();
    assert_eq!(sample(&index, at(605), |now| read(now, 80.0)), [Some(Lane::Safe)]);
    assert_eq!(decided(&index, at(605)).reason, Reason::Saturated);
}

#[test]
fn what_was_handed_on_is_not_handed_on_again() {
    let index = tuned();
    sample(&index, at(605), |now| read(now, 80.0));
    decided(&index, at(605));
    assert_eq!(sample(&index, at(610), |now| read(now, 81.0)), [None]);
}

#[test]
fn a_remembered_target_waits_for_its_first_reading() {
    let remembered = tuned().views()[0].1[0].memory.clone();
    let index = Index::default();
    index.follow(&policy(), follow(&written_spec()), |_| Some(remembered.clone()));
    assert!(index.decide(&policy(), at(610)).is_none());
    sample(&index, at(611), |now| read(now, 3.0));
    let decided = index.decide(&policy(), at(611)).unwrap();
    assert_eq!(decided.targets[0].0.reason, Reason::Tuned);
    assert!(
        !decided.targets[0].1.must_be_stored(&remembered),
        "a restart changes nothing by itself"
    );
}

#[test]
fn a_stop_does_not_wait_for_a_reading() {
    let index = Index::default();
    let stop = Some(Stop {
        message: "ConfigMap helpdesk/hedgerow-off".to_owned(),
    });
    let stopped = Follow {
        stop,
        ..follow(&written_spec())
    };
    index.follow(&policy(), stopped, |_| Some(Memory::default()));
    assert_eq!(decided(&index, at(0)).reason, Reason::Stopped);
}

#[test]
fn a_refused_policy_is_off_with_the_reason_and_is_not_read() {
    let index = tuned();
    let refused = Follow {
        refusal: Some(Refusal {
            reason: Reason::SourceNotAvailable,
            message: "there is no source".to_owned(),
        }),
        ..follow(&written_spec())
    };
    index.follow(&policy(), refused, |_| None);
    let decision = decided(&index, at(605));
    assert_eq!(
        (decision.orders.hedging, decision.orders.reason),
        (None, Reason::SourceNotAvailable)
    );
    assert!(index.due("default", PHASE, at(1000)).0.is_empty());

    index.follow(&policy(), follow(&written_spec()), |_| None);
    sample(&index, at(610), |now| read(now, 3.0));
    assert_eq!(
        decided(&index, at(610)).reason,
        Reason::CoolingDown,
        "it comes back as after every off"
    );
}

#[test]
fn an_edit_keeps_what_is_read_alike_and_reads_the_rest_at_once() {
    let index = tuned();
    let mut spec = written_spec();
    spec["targets"][0]["saturation"]["signals"][0]["metric"] = json!("other_depth");
    index.follow(&policy(), follow(&spec), |_| None);
    let view = &index.view(&policy()).unwrap()[0];
    assert!(view.readings.latency.is_some());
    assert_eq!(view.readings.signals, [None]);
    assert_eq!(index.due("default", PHASE, at(601)).0.len(), 1);
}

#[test]
fn an_answer_to_a_question_that_was_edited_away_is_dropped() {
    let index = index();
    let (due, _) = index.due("default", PHASE, at(0));
    let mut spec = written_spec();
    spec["targets"][0]["saturation"]["signals"] = json!([]);
    index.follow(&policy(), follow(&spec), |_| None);
    assert_eq!(index.take(&due[0], read(at(0), 3.0), at(0)), None);
    assert!(index.view(&policy()).unwrap()[0].readings.latency.is_none());
}

#[test]
fn another_policy_of_the_same_name_starts_anew() {
    let index = tuned();
    let other = Follow {
        uid: "uid-2".to_owned(),
        ..follow(&written_spec())
    };
    index.follow(&policy(), other, |_| None);
    assert_eq!(decided(&index, at(605)).reason, Reason::WarmingUp);
}

/// `maxUnknown` is 90 s. The policies' places within the 10 s differ by their names.
#[test]
fn the_switches_of_a_source_that_fails_open_one_after_the_other() {
    let mut opened = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let key = PolicyKey::new("helpdesk", name);
        let index = Index::default();
        index.follow(&key, follow(&written_spec()), |_| None);
        for second in 0..60 {
            sample(&index, at(10 * second), |now| read(now, 3.0));
            index.decide(&key, at(10 * second));
            index.set_outcome(&key, outcome(Written::Published), at(10 * second));
        }
        let why = Unknown::new(hedgerow_tuner::UnknownReason::Unavailable, "gone");
        assert_eq!(
            index.set_failing("default", Some(why.clone())),
            BTreeSet::from([key.clone()])
        );
        assert!(index.set_failing("default", Some(why)).is_empty(), "told once");
        let off = (600..720).find(|&second| {
            sample(&index, at(second), unread);
            index.decide(&key, at(second)).unwrap().targets[0].0.reason == Reason::SaturationUnknown
        });
        opened.push(off.unwrap());
    }
    assert!(
        opened.iter().all(|second| (679..=701).contains(second)),
        "{opened:?}"
    );
    opened.dedup();
    assert!(opened.len() > 1, "{opened:?}");
}

#[test]
fn renewals_are_told_when_their_time_has_come() {
    let index = index();
    let outcome = Outcome {
        again_at: Some(at(100)),
        ..Outcome::default()
    };
    index.set_outcome(&policy(), outcome, at(0));
    assert!(index.renewals(at(99)).is_empty());
    assert_eq!(index.renewals(at(100)), [policy()]);
    index.forget(&policy());
    assert!(index.renewals(at(100)).is_empty());
}

/// The share of the budget, and whether anything is to be written, at each of the seconds.
fn percents(index: &Index, seconds: impl IntoIterator<Item = i64>) -> Vec<Option<f64>> {
    let percent = |second| {
        sample(index, at(second), |now| read(now, 3.0));
        handed(index, at(second))
            .orders
            .hedging
            .map(|hedging| hedging.percent)
    };
    seconds.into_iter().map(percent).collect()
}

#[test]
fn a_ramp_does_not_go_on_while_its_step_is_not_written() {
    let index = index();
    decided(&index, at(0));
    assert_eq!(percents(&index, [5]), [Some(2.5)]);
    let unreachable = || Written::Pending {
        message: "the API server cannot be reached".to_owned(),
    };
    // Ten minutes are enough for the whole ramp, but the clients were told nothing of it.
    for second in (10..600).step_by(10) {
        index.set_outcome(&policy(), outcome(unreachable()), at(second));
        assert_eq!(percents(&index, [second]), [Some(2.5)]);
    }
    index.set_outcome(&policy(), outcome(Written::Published), at(600));
    // The step of two minutes counts from when it was written.
    assert_eq!(percents(&index, [660, 715]), [Some(2.5), Some(2.5)]);
    assert_eq!(percents(&index, [725]), [Some(5.0)]);
}

#[test]
fn going_off_waits_for_no_document() {
    let index = index();
    decided(&index, at(0));
    assert_eq!(percents(&index, [5]), [Some(2.5)]);
    sample(&index, at(10), |now| read(now, 80.0));
    assert_eq!(handed(&index, at(10)).reason, Reason::Saturated);
}

#[test]
fn the_wait_after_switching_off_counts_from_the_off_document() {
    let index = tuned();
    sample(&index, at(605), |now| read(now, 80.0));
    assert_eq!(handed(&index, at(605)).reason, Reason::Saturated);
    index.set_outcome(&policy(), outcome(Written::Published), at(900));
    // Written at 900, at the clients by 990, then two minutes of cooldown, doubled: full budget had not lasted 10 minutes.
    for second in (910..1230).step_by(10) {
        sample(&index, at(second), |now| read(now, 3.0));
        assert_eq!(decided(&index, at(second)).orders.hedging, None, "{second}");
    }
    assert_eq!(percents(&index, [1235]), [Some(2.5)]);
}

#[test]
fn a_clock_that_is_set_back_makes_everything_due() {
    let index = tuned();
    let an_hour_ago = at(601 - 3600);
    let (due, _) = index.due("default", PHASE, an_hour_ago);
    assert_eq!(
        due.len(),
        1,
        "or nothing would be read for an hour while clients hedge"
    );
    assert!(due[0].query.latency.is_some() && due[0].query.signals.len() == 1);
    assert!(
        index.due("default", PHASE, an_hour_ago).0.is_empty(),
        "asked for once"
    );
}

#[test]
fn an_answer_about_other_series_of_the_same_metric_is_dropped() {
    let index = index();
    let (due, _) = index.due("default", PHASE, at(0));
    let mut spec = written_spec();
    spec["targets"][0]["latency"]["matchLabels"] = json!({ "index": "faq" });
    index.follow(&policy(), follow(&spec), |_| None);
    assert_eq!(index.take(&due[0], read(at(0), 3.0), at(0)), None);
    assert!(index.view(&policy()).unwrap()[0].readings.latency.is_none());
}

#[test]
fn what_another_source_said_is_forgotten_and_dropped() {
    let index = tuned();
    let (due, _) = index.due("default", PHASE, at(1200));
    let elsewhere = follow(&written_spec());
    let compiled = Compiled {
        source: "other".to_owned(),
        ..(*elsewhere.compiled).clone()
    };
    let elsewhere = Follow {
        compiled: Arc::new(compiled),
        ..elsewhere
    };
    index.follow(&policy(), elsewhere, |_| None);
    let nothing_known = |index: &Index| {
        let readings = index.view(&policy()).unwrap().remove(0).readings;
        readings.latency.is_none() && readings.signals == [None]
    };
    assert!(nothing_known(&index));
    assert_eq!(index.take(&due[0], read(at(1200), 3.0), at(1200)), None);
    assert!(nothing_known(&index));
    assert_eq!(
        index.due("other", PHASE, at(1201)).0.len(),
        1,
        "asked for at once"
    );
}

#[test]
fn a_renewal_that_failed_is_still_due() {
    let index = index();
    let renewed_at = |at| Outcome {
        again_at: Some(at),
        ..outcome(Written::Published)
    };
    index.set_outcome(&policy(), renewed_at(at(100)), at(0));
    let unreachable = Written::Pending {
        message: "the API server cannot be reached".to_owned(),
    };
    index.set_outcome(&policy(), outcome(unreachable), at(100));
    assert!(
        index.renewal_due(&policy(), at(101)),
        "or the document would expire"
    );
    index.set_outcome(&policy(), renewed_at(at(200)), at(101));
    assert!(!index.renewal_due(&policy(), at(102)));
}

/// The API server, or the operator, was away for longer than the documents held: to clients that was an off.
#[test]
fn documents_that_expired_come_back_through_the_ramp() {
    let index = tuned();
    let told_until = |until| Outcome {
        valid_until: Some(until),
        ..outcome(Written::Published)
    };
    index.set_outcome(&policy(), told_until(at(700)), at(601));
    sample(&index, at(699), |now| read(now, 3.0));
    assert_eq!(handed(&index, at(699)).reason, Reason::Tuned);
    sample(&index, at(700), |now| read(now, 3.0));
    let off = handed(&index, at(700));
    assert_eq!((off.orders.hedging, off.reason), (None, Reason::CoolingDown));
    index.set_outcome(&policy(), told_until(at(4300)), at(700));
    // At the clients by 790, then two minutes of cooldown.
    assert_eq!(percents(&index, [905]), [None]);
    assert_eq!(percents(&index, [915]), [Some(2.5)]);
}

/// The spec of a target whose clients count their hedges.
fn counting(hedges: &str) -> serde_json::Value {
    let mut spec = written_spec();
    spec["targets"][0]["hedging"] =
        json!({ "calls": { "rateOf": "calls_total" }, "hedges": { "rateOf": hedges } });
    spec
}

fn counted(at: Timestamp) -> TargetReadings {
    let window = hedgerow_tuner::WindowCounts {
        window: Duration::from_secs(600),
        calls: 10_000.0,
        hedges: 500.0,
        blocked: None,
        wins: None,
    };
    TargetReadings {
        counts: Some(hedgerow_tuner::Counts {
            at,
            windows: Ok(vec![window]),
        }),
        ..read(at, 3.0)
    }
}

#[test]
fn counters_are_read_with_the_latency_and_kept_while_the_same_are_meant() {
    let index = Index::default();
    index.follow(&policy(), follow(&counting("hedges_total")), |_| None);
    let (due, _) = index.due("default", PHASE, at(0));
    assert!(due[0].query.counts.is_some() && due[0].query.latency.is_some());
    index.take(&due[0], counted(at(0)), at(0));
    let known = || index.view(&policy()).unwrap()[0].readings.counts.clone();
    assert!(known().is_some());

    let mut other_deadline = counting("hedges_total");
    other_deadline["targets"][0]["deadline"] = json!("2s");
    index.follow(&policy(), follow(&other_deadline), |_| None);
    assert!(known().is_some());

    index.follow(&policy(), follow(&counting("other_total")), |_| None);
    assert_eq!(known(), None);
    let (due, _) = index.due("default", PHASE, at(1));
    index.follow(&policy(), follow(&counting("hedges_total")), |_| None);
    index.take(&due[0], counted(at(1)), at(1));
    assert_eq!(known(), None, "an answer about other counters is dropped");
}
