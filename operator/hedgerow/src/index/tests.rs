use hedgerow_tuner::Reason;
use serde_json::json;

use super::*;
use crate::fixtures::{at, follow, index, policy, read, sample, sample_kind, unknown, unread, written_spec};

const PHASE: Duration = Duration::ZERO;

/// What is due of either kind.
fn due(index: &Index, source: &str, now: Timestamp) -> Vec<Due> {
    let kinds = ReadingKind::ALL.into_iter();
    kinds
        .flat_map(|kind| index.due(source, kind, PHASE, now).0)
        .collect()
}

fn kinds(due: &[Due]) -> Vec<ReadingKind> {
    due.iter().map(|due| due.kind).collect()
}

/// What the ConfigMap of the policy remembers of the target.
fn recall(memory: &Memory) -> Vec<(String, Memory)> {
    vec![("kb-hedging".to_owned(), memory.clone())]
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
        ..Outcome::default()
    }
}

/// The policy, refused for its source.
fn refused() -> Follow {
    Follow {
        refusal: Some(Refusal {
            reason: Reason::SourceNotAvailable,
            message: "there is no source".to_owned(),
        }),
        ..follow(&written_spec())
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
fn each_kind_of_reading_is_due_at_once_and_then_on_its_own_schedule() {
    let index = index();
    let (latency, next) = index.due("default", ReadingKind::Latency, PHASE, at(0));
    assert!(latency[0].query.latency.is_some() && latency[0].query.signals.is_empty());
    assert_eq!(next, Some(at(10)), "every 30 s, and 1,700,000,000 leaves 20");
    let (signals, next) = index.due("default", ReadingKind::Saturation, PHASE, at(0));
    assert!(signals[0].query.latency.is_none() && signals[0].query.signals.len() == 1);
    assert_eq!(next, Some(at(5)), "every 5 s");
    assert!(due(&index, "default", at(1)).is_empty());
    assert_eq!(kinds(&due(&index, "default", at(5))), [ReadingKind::Saturation]);
    assert_eq!(kinds(&due(&index, "default", at(10))), ReadingKind::ALL);
}

#[test]
fn another_source_has_nothing_due() {
    assert!(due(&index(), "other", at(0)).is_empty());
}

/// The answer to a question about latency may take as long as it likes.
#[test]
fn signals_are_decided_while_latency_is_asked_for() {
    let index = tuned();
    let (asked, _) = index.due("default", ReadingKind::Latency, PHASE, at(700));
    assert_eq!(asked.len(), 1);
    for second in [705, 710] {
        let lanes = sample_kind(&index, ReadingKind::Saturation, at(second), |now| read(now, 3.0));
        assert_eq!(lanes, [None]);
    }
    let lanes = sample_kind(&index, ReadingKind::Saturation, at(715), |now| read(now, 80.0));
    assert_eq!(lanes, [Some(Lane::Safe)]);
    assert_eq!(decided(&index, at(715)).reason, Reason::Saturated);
    assert_eq!(index.take(&asked[0], read(at(700), 3.0), at(716)), None);
    assert_eq!(decided(&index, at(716)).reason, Reason::Saturated);
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
    assert_eq!(sample(&index, at(610), |now| read(now, 81.0)), [None, None]);
}

#[test]
fn a_remembered_target_waits_for_its_first_reading() {
    let remembered = tuned().views()[0].1[0].memory.clone();
    let index = Index::default();
    index.follow(&policy(), follow(&written_spec()), |_| recall(&remembered));
    assert!(index.decide(&policy(), at(610)).is_none());
    sample(&index, at(611), |now| read(now, 3.0));
    let decided = index.decide(&policy(), at(611)).unwrap();
    assert_eq!(decided.targets[0].0.reason, Reason::Tuned);
    assert!(
        !decided.targets[0].1.must_be_stored(&remembered),
        "a restart changes nothing by itself"
    );
}

/// What was remembered of [`tuned`], and an index that follows the policy with it after a restart.
fn restarted(spec: &serde_json::Value) -> (Memory, Index) {
    let remembered = tuned().views()[0].1[0].memory.clone();
    let index = Index::default();
    index.follow(&policy(), follow(spec), |_| recall(&remembered));
    (remembered, index)
}

#[test]
fn a_remembered_target_waits_for_both_kinds_of_reading() {
    for first in ReadingKind::ALL {
        let (remembered, index) = restarted(&written_spec());
        let lanes = sample_kind(&index, first, at(611), |now| read(now, 3.0));
        assert_eq!(lanes, [None], "{first:?}");
        assert!(index.decide(&policy(), at(611)).is_none(), "{first:?}");
        sample(&index, at(612), |now| read(now, 3.0));
        let decided = index.decide(&policy(), at(612)).unwrap();
        assert_eq!(decided.targets[0].0.reason, Reason::Tuned);
        assert!(!decided.targets[0].1.must_be_stored(&remembered), "{first:?}");
    }
}

#[test]
fn a_saturated_target_goes_off_after_a_restart_though_latency_is_not_read() {
    let (remembered, index) = restarted(&written_spec());
    let saturated = |now| read(now, 80.0);
    let lanes = sample_kind(&index, ReadingKind::Saturation, at(611), saturated);
    assert_eq!(lanes, [Some(Lane::Safe)]);
    for second in [611, 612] {
        // It is tried again while it is not written.
        let decision = handed(&index, at(second));
        assert_eq!(
            (decision.orders.hedging, decision.reason),
            (None, Reason::Saturated)
        );
        assert_eq!(decision.revision, remembered.revision + 1);
        let pending = Written::Pending {
            message: "the API server cannot be reached".to_owned(),
        };
        index.set_outcome(&policy(), outcome(pending), at(second));
    }
}

#[test]
fn one_target_that_goes_off_after_a_restart_does_not_wait_for_another() {
    let mut spec = written_spec();
    let mut second = spec["targets"][0].clone();
    second["name"] = json!("faq-read");
    spec["targets"] = json!([spec["targets"][0], second]);
    let faq =
        json!({ "configMap": "kb-hedging", "key": "faq-read.json", "targets": [{ "name": "faq-read" }] });
    spec["publish"] = json!([spec["publish"][0], faq]);
    let (remembered, index) = restarted(&spec);
    let (asked, _) = index.due("default", ReadingKind::Saturation, PHASE, at(611));
    let lanes = asked.iter().map(|due| {
        let queue = if due.key.target == "shard-read" { 80.0 } else { 3.0 };
        let signals = read(at(611), queue).signals;
        index.take(
            due,
            TargetReadings {
                signals,
                ..TargetReadings::default()
            },
            at(611),
        )
    });
    assert_eq!(lanes.collect::<Vec<_>>(), [Some(Lane::Safe), None]);
    let decided = index.decide(&policy(), at(611)).unwrap().targets;
    assert_eq!(decided[0].0.reason, Reason::Saturated);
    assert_eq!(
        decided[1].0.revision, remembered.revision,
        "clients are told the same"
    );
    assert!(!decided[1].1.must_be_stored(&remembered));
}

/// What is read of an edit that was made while no operator ran.
#[test]
fn what_turns_hedging_off_by_the_spec_waits_for_no_reading_after_a_restart() {
    for (mode, reason) in [("Disabled", Reason::Stopped), ("Observe", Reason::Observing)] {
        let mut spec = written_spec();
        spec["mode"] = json!(mode);
        let (remembered, index) = restarted(&spec);
        let off = index.decide(&policy(), at(611)).unwrap().targets.remove(0);
        assert_eq!((off.0.orders.hedging, off.0.orders.reason), (None, reason));
        assert_eq!(off.0.revision, remembered.revision + 1);
        // And once that is written, a restart writes nothing.
        let again = Index::default();
        again.follow(&policy(), follow(&spec), |_| recall(&off.1));
        match again.decide(&policy(), at(700)) {
            None => assert_eq!(mode, "Observe", "what it would do is read first"),
            Some(decided) => {
                let (decision, memory) = &decided.targets[0];
                assert_eq!((decision.orders.hedging, decision.reason), (None, reason));
                assert_eq!(*memory, off.1, "not even since when nothing is read");
            }
        }
    }
}

#[test]
fn a_refusal_that_stands_writes_nothing_after_a_restart() {
    let index = tuned();
    let refused = refused();
    index.follow(&policy(), refused.clone(), unknown);
    let before = index.decide(&policy(), at(605)).unwrap().targets.remove(0);
    let again = Index::default();
    again.follow(&policy(), refused, |_| recall(&before.1));
    let after = again.decide(&policy(), at(700)).unwrap().targets.remove(0);
    assert_eq!(after.0.orders, before.0.orders);
    assert_eq!(after.1, before.1);
}

#[test]
fn a_person_goes_before_a_refusal_and_each_change_of_the_reason_is_a_revision() {
    let index = tuned();
    let revision = decided(&index, at(601)).revision;
    let refusal = refused().refusal;
    let stop = Some(Stop {
        reason: Reason::Stopped,
        message: "ConfigMap helpdesk/hedgerow-off".to_owned(),
    });
    let steps = [
        (refusal.clone(), None, Reason::SourceNotAvailable),
        (refusal.clone(), stop.clone(), Reason::Stopped),
        (None, stop, Reason::Stopped),
        (refusal, None, Reason::SourceNotAvailable),
    ];
    let mut told = Vec::new();
    for (refusal, stop, reason) in steps {
        let follow = Follow {
            refusal,
            stop,
            ..follow(&written_spec())
        };
        index.follow(&policy(), follow, unknown);
        let decision = decided(&index, at(605));
        assert_eq!((decision.reason, decision.orders.reason), (reason, reason));
        told.push(decision.revision - revision);
    }
    assert_eq!(told, [1, 2, 2, 3]);
}

#[test]
fn an_edit_of_a_limit_is_a_revision() {
    let index = tuned();
    let before = decided(&index, at(601));
    let mut spec = written_spec();
    spec["targets"][0]["budget"] = json!({ "maxAttempts": 3 });
    index.follow(&policy(), follow(&spec), unknown);
    let after = decided(&index, at(602));
    assert_eq!(
        (after.revision, after.orders),
        (before.revision + 1, before.orders)
    );
}

/// 10 % at full budget; the first step of the ramp is a quarter of it.
#[test]
fn clients_of_an_added_config_map_come_on_through_the_ramp() {
    let percent = |index: &Index, second| percent_of(&decided(index, at(second)));
    let added = json!([
        written_spec()["publish"][0],
        { "configMap": "kb-other", "key": "shard-read.json", "targets": [{ "name": "shard-read" }] },
    ]);
    let mut spec = written_spec();
    spec["publish"] = added;
    let index = tuned();
    index.follow(&policy(), follow(&spec), unknown);
    assert_eq!(percent(&index, 601), Some(2.5));
    index.follow(&policy(), follow(&spec), unknown);
    assert_eq!(percent(&index, 602), Some(2.5), "once");
    // One less is nobody new.
    let index = tuned();
    index.follow(&policy(), follow(&written_spec()), unknown);
    assert_eq!(percent(&index, 601), Some(10.0));
}

/// It was named while no operator ran, or another ConfigMap of that name stood in its way: it shows when it is written.
#[test]
fn clients_of_a_config_map_that_is_written_later_come_on_through_the_ramp() {
    let mut spec = written_spec();
    spec["publish"] = json!([
        written_spec()["publish"][0],
        { "configMap": "kb-other", "key": "shard-read.json", "targets": [{ "name": "shard-read" }] },
    ]);
    let (_, index) = restarted(&spec);
    sample(&index, at(611), |now| read(now, 3.0));
    let percent = |second| percent_of(&handed(&index, at(second)));
    let written = |other: Written, second| {
        let mut both = outcome(Written::Published);
        both.written.insert("kb-other".to_owned(), other);
        index.set_outcome(&policy(), both, at(second));
    };
    let conflict = || Written::Refused {
        reason: "NameConflict",
        message: "it is another's".to_owned(),
    };
    assert_eq!(percent(611), Some(10.0));
    written(conflict(), 611);
    assert_eq!(percent(612), Some(10.0), "a restart changes nothing by itself");
    written(Written::Published, 612);
    assert_eq!(sample(&index, at(615), |now| read(now, 3.0)), [Some(Lane::Safe)]);
    assert_eq!(percent(615), Some(2.5));
}

#[test]
fn a_stop_does_not_wait_for_a_reading() {
    let index = Index::default();
    let stop = Some(Stop {
        reason: Reason::Stopped,
        message: "ConfigMap helpdesk/hedgerow-off".to_owned(),
    });
    let stopped = Follow {
        stop,
        ..follow(&written_spec())
    };
    index.follow(&policy(), stopped, |_| recall(&Memory::default()));
    assert_eq!(decided(&index, at(0)).reason, Reason::Stopped);
}

#[test]
fn a_refused_policy_is_off_with_the_reason_and_is_not_read() {
    let index = tuned();
    let refused = refused();
    index.follow(&policy(), refused, unknown);
    let decision = decided(&index, at(605));
    assert_eq!(
        (decision.orders.hedging, decision.orders.reason),
        (None, Reason::SourceNotAvailable)
    );
    assert!(due(&index, "default", at(1000)).is_empty());

    index.follow(&policy(), follow(&written_spec()), unknown);
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
    index.follow(&policy(), follow(&spec), unknown);
    let view = &index.view(&policy()).unwrap()[0];
    assert!(view.readings.latency.is_some());
    assert_eq!(view.readings.signals, [None]);
    assert_eq!(kinds(&due(&index, "default", at(601))), ReadingKind::ALL);
}

#[test]
fn an_answer_to_a_question_that_was_edited_away_is_dropped() {
    let index = index();
    let (asked, _) = index.due("default", ReadingKind::Saturation, PHASE, at(0));
    let mut spec = written_spec();
    spec["targets"][0]["saturation"]["signals"][0]["metric"] = json!("other_depth");
    index.follow(&policy(), follow(&spec), unknown);
    assert_eq!(index.take(&asked[0], read(at(0), 3.0), at(0)), None);
    assert_eq!(index.view(&policy()).unwrap()[0].readings.signals, [None]);
}

#[test]
fn another_policy_of_the_same_name_starts_anew() {
    let index = tuned();
    let other = Follow {
        uid: "uid-2".to_owned(),
        ..follow(&written_spec())
    };
    index.follow(&policy(), other, unknown);
    assert_eq!(decided(&index, at(605)).reason, Reason::WarmingUp);
}

/// `maxUnknown` is 90 s. The policies' places within the 10 s differ by their names.
#[test]
fn the_switches_of_a_source_that_fails_open_one_after_the_other() {
    let mut opened = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let key = PolicyKey::new("helpdesk", name);
        let index = Index::default();
        index.follow(&key, follow(&written_spec()), unknown);
        for second in 0..60 {
            sample(&index, at(10 * second), |now| read(now, 3.0));
            index.decide(&key, at(10 * second));
            index.set_outcome(&key, outcome(Written::Published), at(10 * second));
        }
        let why = Unknown::new(hedgerow_tuner::UnknownReason::Unavailable, "gone");
        assert_eq!(
            index.set_failing("default", Some(why.clone()), at(600)),
            BTreeSet::from([key.clone()])
        );
        assert!(
            index.set_failing("default", Some(why), at(605)).is_empty(),
            "told once"
        );
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

/// Hedges per 100 calls; `None` when off.
fn percent_of(decision: &Decision) -> Option<f64> {
    decision.orders.hedging.map(|hedging| hedging.percent)
}

/// The share of the budget, and whether anything is to be written, at each of the seconds.
fn percents(index: &Index, seconds: impl IntoIterator<Item = i64>) -> Vec<Option<f64>> {
    let percent = |second| {
        sample(index, at(second), |now| read(now, 3.0));
        percent_of(&handed(index, at(second)))
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

/// Another's ConfigMap of that name stands there since before anything was read.
#[test]
fn what_is_read_is_told_while_a_document_cannot_be_written() {
    let index = index();
    let before = handed(&index, at(0));
    let conflict = || Written::Refused {
        reason: "NameConflict",
        message: "it is another's".to_owned(),
    };
    index.set_outcome(&policy(), outcome(conflict()), at(0));
    let lanes = sample(&index, at(5), |now| read(now, 3.0));
    assert!(
        lanes.contains(&Some(Lane::Document)),
        "people are told: {lanes:?}"
    );
    for second in (5..100).step_by(10) {
        sample(&index, at(second), |now| read(now, 3.0));
        let decision = handed(&index, at(second));
        index.set_outcome(&policy(), outcome(conflict()), at(second));
        assert_eq!(
            (decision.revision, &decision.orders),
            (before.revision, &before.orders),
            "nothing is raised beyond what is not written"
        );
        let told = index.handed(&policy()).unwrap().0.remove(0).decision.unwrap();
        assert_eq!(told, decision);
        assert_eq!(told.latency.unknown, None);
        assert!(told.latency.at >= Some(at(second - 30)) && told.signals[0].unknown.is_none());
        assert_eq!(told.reason, Reason::Ramping);
        assert!(
            told.message
                .to_string()
                .ends_with("; clients are told once their documents are written"),
            "{}",
            told.message
        );
    }
    sample(&index, at(100), |now| read(now, 80.0));
    assert_eq!(handed(&index, at(100)).reason, Reason::Saturated);
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
    assert_eq!(
        kinds(&due(&index, "default", an_hour_ago)),
        ReadingKind::ALL,
        "or nothing would be read for an hour while clients hedge"
    );
    assert!(due(&index, "default", an_hour_ago).is_empty(), "asked for once");
}

#[test]
fn an_answer_about_other_series_of_the_same_metric_is_dropped() {
    let index = index();
    let (asked, _) = index.due("default", ReadingKind::Latency, PHASE, at(0));
    let mut spec = written_spec();
    spec["targets"][0]["latency"]["matchLabels"] = json!({ "index": "faq" });
    index.follow(&policy(), follow(&spec), unknown);
    assert_eq!(index.take(&asked[0], read(at(0), 3.0), at(0)), None);
    assert!(index.view(&policy()).unwrap()[0].readings.latency.is_none());
}

#[test]
fn what_another_source_said_is_forgotten_and_dropped() {
    let index = tuned();
    let asked = due(&index, "default", at(1200));
    assert_eq!(kinds(&asked), ReadingKind::ALL);
    let elsewhere = follow(&written_spec());
    let compiled = Compiled {
        source: "other".to_owned(),
        ..(*elsewhere.compiled).clone()
    };
    let elsewhere = Follow {
        compiled: Arc::new(compiled),
        ..elsewhere
    };
    index.follow(&policy(), elsewhere, unknown);
    let nothing_known = |index: &Index| {
        let readings = index.view(&policy()).unwrap().remove(0).readings;
        readings.latency.is_none() && readings.signals == [None]
    };
    assert!(nothing_known(&index));
    for asked in asked {
        assert_eq!(index.take(&asked, read(at(1200), 3.0), at(1200)), None);
    }
    assert!(nothing_known(&index));
    assert_eq!(
        kinds(&due(&index, "other", at(1201))),
        ReadingKind::ALL,
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

/// The first publication after a restart finds out, and renews nothing: so the clients are not told to hedge in full again.
#[test]
fn documents_that_expired_while_no_operator_ran_come_back_through_the_ramp() {
    let (_, index) = restarted(&written_spec());
    sample(&index, at(5000), |now| read(now, 3.0));
    assert_eq!(handed(&index, at(5000)).reason, Reason::Tuned);
    assert!(
        !index.renewal_due(&policy(), at(5000)),
        "or they would be prolonged"
    );
    let found = Outcome {
        valid_until: Some(at(4200)),
        again_at: Some(at(1800)),
        ..outcome(Written::Published)
    };
    index.set_outcome(&policy(), found, at(5000));
    assert!(index.renewal_due(&policy(), at(5001)));
    let off = handed(&index, at(5001));
    assert_eq!((off.orders.hedging, off.reason), (None, Reason::CoolingDown));
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
    index.follow(&policy(), follow(&counting("hedges_total")), |_| Vec::new());
    let (due, _) = index.due("default", ReadingKind::Latency, PHASE, at(0));
    assert!(due[0].query.counts.is_some() && due[0].query.latency.is_some());
    index.take(&due[0], counted(at(0)), at(0));
    let known = || index.view(&policy()).unwrap()[0].readings.counts.clone();
    assert!(known().is_some());

    let mut other_deadline = counting("hedges_total");
    other_deadline["targets"][0]["deadline"] = json!("2s");
    index.follow(&policy(), follow(&other_deadline), |_| Vec::new());
    assert!(known().is_some());

    index.follow(&policy(), follow(&counting("other_total")), |_| Vec::new());
    assert_eq!(known(), None);
    let (due, _) = index.due("default", ReadingKind::Latency, PHASE, at(1));
    index.follow(&policy(), follow(&counting("hedges_total")), |_| Vec::new());
    index.take(&due[0], counted(at(1)), at(1));
    assert_eq!(known(), None, "an answer about other counters is dropped");
}
