use hedgerow_api::{ConditionReason, HedgePolicyStatus};
use hedgerow_signals::TargetReadings;
use hedgerow_tuner::{Diagnosis, DiagnosisReason, Memory, Orders, Readings, decide};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use super::*;
use crate::fixtures::{at, counted_spec, follow, read, read_hedged, unread, written_spec};
use crate::index::Follow;

/// One target that is decided again and again, and its policy's status.
struct Told {
    follow: Follow,
    memory: Memory,
    decision: Option<Decision>,
    written: BTreeMap<String, Written>,
    faults: BTreeMap<(String, String), Fault>,
    refusal: Option<Refusal>,
    failing: Option<Unknown>,
    not_nudged: Option<String>,
    status: HedgePolicyStatus,
}

impl Told {
    fn new() -> Self {
        Self {
            follow: follow(&written_spec()),
            memory: Memory::default(),
            decision: None,
            written: BTreeMap::from([("kb-hedging".to_owned(), Written::Published)]),
            faults: BTreeMap::new(),
            refusal: None,
            failing: None,
            not_nudged: None,
            status: HedgePolicyStatus::default(),
        }
    }

    /// At full budget, with a queue of 3.
    fn tuned() -> Self {
        let mut told = Self::new();
        for second in 0..60 {
            told.after(10 * second, |now| read(now, 3.0));
        }
        assert_eq!(told.target().reason.as_deref(), Some("Tuned"));
        told
    }

    fn after(&mut self, seconds: i64, readings: impl Fn(Timestamp) -> TargetReadings) -> HedgePolicyStatus {
        let readings = readings(at(seconds));
        let readings = Readings {
            stop: None,
            latency: readings.latency,
            counts: readings.counts,
            signals: readings.signals.into_iter().map(Some).collect(),
        };
        let (decision, memory) = decide(
            &self.follow.compiled.targets[0].rules,
            &self.memory,
            &readings,
            at(seconds),
        );
        (self.decision, self.memory) = (Some(decision), memory);
        self.tell(seconds)
    }

    fn tell(&mut self, seconds: i64) -> HedgePolicyStatus {
        let target = &self.follow.compiled.targets[0];
        let targets = self.decision.iter().map(|decision| DecidedTarget {
            name: &target.name,
            rules: &target.rules,
            decision,
        });
        self.status = status(&Facts {
            not_nudged: self.not_nudged.clone(),
            generation: 3,
            spec: Some(&self.follow.spec),
            refusal: self.refusal.as_ref(),
            targets: targets.collect(),
            written: &self.written,
            faults: &self.faults,
            source_failing: self.failing.as_ref(),
            before: &self.status,
            now: at(seconds),
        });
        self.status.clone()
    }

    fn target(&self) -> &hedgerow_api::TargetStatus {
        &self.status.targets[0]
    }

    fn condition(&self, type_: &str) -> &Condition {
        self.status
            .conditions
            .iter()
            .find(|condition| condition.type_ == type_)
            .unwrap()
    }

    fn has(&self, type_: &str) -> bool {
        self.status
            .conditions
            .iter()
            .any(|condition| condition.type_ == type_)
    }

    fn says(&self, type_: &str) -> (&str, &str) {
        let condition = self.condition(type_);
        (condition.status.as_str(), condition.reason.as_str())
    }
}

#[test]
fn pods_that_cannot_be_nudged_are_told_of_and_the_policy_is_ready_all_the_same() {
    let mut told = Told::tuned();
    told.not_nudged = Some("the API server refused".to_owned());
    told.tell(601);
    assert_eq!(told.says("Published"), ("True", "NudgeForbidden"));
    assert!(
        told.condition("Published")
            .message
            .ends_with("no effect: the API server refused")
    );
    assert_eq!(told.says("Ready"), ("True", "Published"));
    assert!(!told.has("Stalled"));
}

#[test]
fn a_tuned_policy_in_a_line() {
    let told = Told::tuned();
    let summary = told.status.summary.clone().unwrap();
    assert_eq!(summary.hedging.as_deref(), Some("1/1"));
    assert_eq!(summary.delay.as_deref(), Some("500ms"));
    assert_eq!(summary.budget.as_deref(), Some("10%"));
    assert_eq!(summary.reason.as_deref(), Some("Tuned"));
    assert_eq!(told.status.observed_generation, Some(3));
}

#[test]
fn ready_does_not_depend_on_signals() {
    let mut told = Told::new();
    told.after(0, unread);
    assert_eq!(told.says("Ready"), ("True", "Published"));
    assert_eq!(told.says("SignalsAvailable"), ("False", "Unavailable"));
    assert!(!told.has("Stalled") && !told.has("Reconciling"));
}

#[test]
fn before_the_first_reading_signals_are_pending() {
    let mut told = Told::new();
    told.after(0, |_| TargetReadings::default());
    assert_eq!(told.says("SignalsAvailable"), ("False", "Pending"));
    assert_eq!(told.says("Ready"), ("True", "Published"));
}

#[test]
fn off_under_saturation_is_as_it_is_meant() {
    let mut told = Told::tuned();
    told.after(610, |now| read(now, 80.0));
    assert_eq!(told.says("Ready"), ("True", "Published"));
    assert_eq!(told.says("HedgingDisabled"), ("True", "Saturated"));
    assert_eq!(
        told.condition("HedgingDisabled").message,
        "1 of 1 targets are not hedged: shard-read (Saturated)"
    );
    let signal = &told.target().signals[0];
    assert_eq!(signal.message.as_deref(), Some("queue 80, back under 35"));
    assert_eq!(told.status.summary.as_ref().unwrap().delay, None);
}

#[test]
fn a_reading_alone_changes_nothing() {
    let mut told = Told::tuned();
    let before = told.status.clone();
    for second in 0..20 {
        let noise = f64::from(u32::try_from(second).unwrap());
        assert_eq!(
            told.after(605 + 5 * second, |now| read(now, noise)),
            before,
            "{second}"
        );
    }
}

#[test]
fn a_restart_changes_nothing() {
    let mut told = Told::tuned();
    let before = told.status.clone();
    // The figures of the new process come from another reading; what was decided is the same.
    let mut memory = told.memory.clone();
    memory.written = at(0);
    told.memory = memory;
    assert_eq!(told.after(900, |now| read(now, 7.0)), before);
}

#[test]
fn the_history_grows_with_what_clients_are_told() {
    let mut told = Told::tuned();
    let steps: Vec<_> = told
        .target()
        .history
        .iter()
        .rev()
        .map(|change| change.to.clone().unwrap())
        .collect();
    assert_eq!(steps, ["500ms, 2.5%", "500ms, 5%", "500ms, 10%"]);
    told.after(610, |now| read(now, 80.0));
    let newest = told.target().history[0].clone();
    assert_eq!(
        (newest.from.as_deref(), newest.to.as_deref()),
        (Some("500ms, 10%"), Some("off"))
    );
    assert_eq!(newest.reason.as_deref(), Some("Saturated"));
}

#[test]
fn the_history_keeps_ten_changes() {
    let mut told = Told::tuned();
    let mut second = 600;
    for _ in 0..8 {
        second += 10;
        told.after(second, |now| read(now, 80.0));
        // Longer than the longest cooldown.
        for _ in 0..300 {
            second += 10;
            told.after(second, |now| read(now, 3.0));
        }
    }
    assert_eq!(told.target().history.len(), 10);
}

#[test]
fn a_transition_time_moves_with_the_status_alone() {
    let mut told = Told::tuned();
    let since = |told: &Told| told.condition("HedgingDisabled").last_transition_time.clone();
    let before = since(&told);
    told.after(610, |now| read(now, 80.0));
    let off = since(&told);
    assert_ne!(off, before);
    told.after(615, |now| read(now, 90.0));
    told.after(900, |now| read(now, 3.0));
    assert_eq!(since(&told), off, "still off, for another reason");
}

#[test]
fn what_only_a_person_can_mend_is_stalled() {
    let mut told = Told::tuned();
    let refused = Written::Refused {
        reason: ConditionReason::NameConflict.as_str(),
        message: "ConfigMap kb-hedging was not created by Hedgerow".to_owned(),
    };
    told.written.insert("kb-hedging".to_owned(), refused);
    told.tell(700);
    for type_ in ["Ready", "Published"] {
        assert_eq!(told.says(type_), ("False", "NameConflict"));
    }
    assert_eq!(told.says("Accepted"), ("True", "Accepted"));
    assert_eq!(told.says("Stalled"), ("True", "NameConflict"));
    assert_eq!(told.status.outputs[0].state.as_deref(), Some("Refused"));
}

#[test]
fn the_loser_of_a_claim_is_not_accepted() {
    let mut told = Told::tuned();
    let refused = Written::Refused {
        reason: ConditionReason::Conflicted.as_str(),
        message: "ConfigMap kb-hedging belongs to the older policy helpdesk/other".to_owned(),
    };
    told.written.insert("kb-hedging".to_owned(), refused);
    told.tell(700);
    assert_eq!(told.says("Accepted"), ("False", "Conflicted"));
    assert!(told.condition("Accepted").message.contains("helpdesk/other"));
}

/// It may hedge, but the document that would say so cannot be written.
#[test]
fn what_waits_for_its_document_is_off_for_what_stands_in_the_way() {
    let mut told = Told::tuned();
    let decision = told.decision.as_mut().unwrap();
    decision.orders = Orders {
        hedging: None,
        reason: Reason::WarmingUp,
    };
    let refused = Written::Refused {
        reason: "NameConflict",
        message: "ConfigMap kb-hedging was not made by Hedgerow".to_owned(),
    };
    told.written.insert("kb-hedging".to_owned(), refused);
    told.tell(700);
    assert_eq!(told.says("SignalsAvailable"), ("True", "Fresh"));
    assert_eq!(told.says("Ready"), ("False", "NameConflict"));
    assert_eq!(told.says("HedgingDisabled"), ("True", "NameConflict"));
    assert!(
        told.condition("HedgingDisabled")
            .message
            .contains("shard-read (NameConflict)")
    );
    // What turns it off by itself is told as before.
    told.after(710, |now| read(now, 80.0));
    assert_eq!(told.says("HedgingDisabled"), ("True", "Saturated"));
}

#[test]
fn what_the_operator_tries_again_is_reconciling() {
    let mut told = Told::tuned();
    let pending = Written::Pending {
        message: "no answer".to_owned(),
    };
    told.written.insert("kb-hedging".to_owned(), pending);
    told.tell(700);
    assert_eq!(told.says("Ready"), ("False", "WriteFailed"));
    assert_eq!(told.says("Reconciling"), ("True", "WriteFailed"));
    assert!(!told.has("Stalled"));
}

#[test]
fn a_refused_policy_says_why_and_is_stalled() {
    let mut told = Told::new();
    told.refusal = Some(Refusal {
        reason: Reason::SourceNotAvailable,
        message: "spec.source: there is no source \"x\"".to_owned(),
    });
    told.after(0, |_| TargetReadings::default());
    for type_ in ["Accepted", "Ready"] {
        assert_eq!(told.says(type_), ("False", "SourceNotAvailable"));
    }
    assert_eq!(told.says("Stalled"), ("True", "SourceNotAvailable"));
    assert_eq!(told.says("SignalsAvailable"), ("False", "Pending"));
    assert_eq!(
        told.condition("SignalsAvailable").message,
        "Nothing is read until the policy is accepted",
        "no reading is on its way"
    );
    assert_eq!(told.says("HedgingDisabled"), ("True", "SourceNotAvailable"));
    assert_eq!(
        told.status.summary.as_ref().unwrap().reason.as_deref(),
        Some("SourceNotAvailable")
    );
}

#[test]
fn a_source_that_fails_is_told_as_that() {
    let mut told = Told::tuned();
    told.failing = Some(Unknown::new(
        hedgerow_tuner::UnknownReason::Timeout,
        "no answer in 10 s",
    ));
    told.tell(700);
    assert_eq!(told.says("SignalsAvailable"), ("False", "SourceFailing"));
    assert_eq!(told.says("Ready"), ("True", "Published"));
}

#[test]
fn a_target_without_an_off_switch_is_named() {
    let mut written = written_spec();
    written["targets"][0]["saturation"] = json!({});
    let mut told = Told::new();
    told.follow = follow(&written);
    told.after(0, |now| TargetReadings {
        signals: Vec::new(),
        ..read(now, 0.0)
    });
    assert_eq!(told.says("Accepted"), ("True", "NoOffSwitch"));
    assert!(told.condition("Accepted").message.contains("shard-read"));
}

#[test]
fn few_samples_are_told_as_little_confidence() {
    let mut written = written_spec();
    written["targets"][0]["latency"]["minSamples"] = json!(100);
    let mut told = Told::new();
    told.follow = follow(&written);
    told.after(0, |now| read(now, 3.0));
    assert_eq!(told.says("LowConfidence"), ("True", "LittleData"));
    assert!(told.condition("LowConfidence").message.contains("minSamples 100"));
}

#[test]
fn other_numbers_of_the_same_doubt_change_no_status() {
    let mut told = Told::tuned();
    let mut after = |seconds: i64, doubt: Option<&str>| {
        told.after(seconds, |now| {
            let mut readings = read(now, 3.0);
            let windows = &mut readings.latency.as_mut().unwrap().windows;
            windows.as_mut().unwrap()[0].caveat = doubt.map(str::to_owned);
            readings
        })
    };
    let common =
        |series: u32| format!("3 of 5 bucket bounds are in all {series} series; only those are used");
    let first = after(600, Some(&common(8)));
    assert_eq!(after(610, Some(&common(9))), first);
    let doubted = first.conditions.iter().find(|told| told.type_ == "LowConfidence");
    assert!(
        doubted.unwrap().message.contains("in all 8 series"),
        "{doubted:?}"
    );
    // That there is no doubt any more is news.
    let sure = after(620, None);
    let sure = sure.conditions.iter().find(|told| told.type_ == "LowConfidence");
    assert_eq!(sure.unwrap().status, "False");
}

#[test]
fn no_number_that_was_read_moves_a_status() {
    // Every reading, and what is counted and doubted of it, a fifth more and a fifth less.
    let mut written = written_spec();
    written["targets"][0]["latency"]["minSamples"] = json!(100);
    let mut told = Told::new();
    told.follow = follow(&written);
    let noisy = |factor: f64| {
        move |now| {
            let mut readings = read(now, 3.0 * factor);
            let window = &mut readings.latency.as_mut().unwrap().windows.as_mut().unwrap()[0];
            let buckets = window.distribution.as_ref().unwrap().buckets().to_vec();
            let buckets = buckets.into_iter().map(|(bound, calls)| (bound, calls * factor));
            window.distribution = hedgerow_tuner::Histogram::from_cumulative(buckets, None, None);
            window.caveat = Some(format!("{factor} of its series"));
            readings
        }
    };
    for second in 0..60 {
        told.after(10 * second, noisy(1.0));
    }
    let calm = told.status.clone();
    for (second, factor) in [(600, 0.8), (610, 1.2), (620, 1.0)] {
        assert_eq!(told.after(second, noisy(factor)), calm);
    }
}

/// The bases of the unhedged and the hedged share, as status tells them now.
fn bases(told: &mut Told, seconds: i64) -> (Option<String>, Option<String>) {
    // As after a restart without a status: what is there is carried over.
    told.status = HedgePolicyStatus::default();
    told.tell(seconds);
    let effect = told.target().effect.clone().unwrap();
    (effect.unhedged_basis, effect.hedged_basis)
}

#[test]
fn how_a_share_is_known_is_told() {
    let said = |basis: &str| Some(basis.to_owned());
    let mut told = Told::new();
    told.follow = follow(&counted_spec());
    told.after(0, |now| read(now, 3.0));
    assert_eq!(bases(&mut told, 0), (said("Measured"), said("Predicted")));
    for second in 1..720 {
        told.after(10 * second, |now| read_hedged(now, false));
    }
    assert_eq!(bases(&mut told, 7190), (None, said("Measured")));
    told.after(7200, |now| read_hedged(now, true));
    assert_eq!(bases(&mut told, 7200), (said("Inferred"), said("Measured")));
}

#[test]
fn every_condition_and_reason_is_one_that_is_declared() {
    let mut told = Told::tuned();
    told.after(610, |now| read(now, 80.0));
    for condition in &told.status.conditions {
        assert!(
            hedgerow_api::ConditionType::ALL
                .iter()
                .any(|known| known.as_str() == condition.type_)
        );
        assert!(!condition.reason.is_empty());
        assert_eq!(condition.observed_generation, Some(3));
    }
}

#[test]
fn values_in_use_are_told_where_the_spec_is_silent() {
    let told = Told::tuned();
    let in_use = told.target().in_use.clone().unwrap();
    assert_eq!(in_use.unit.as_deref(), Some("Seconds"));
    assert_eq!(in_use.min_samples, Some(400));
    assert_eq!(in_use.delay_max.as_deref(), Some("1s"));
    assert_eq!(in_use.max_staleness.as_deref(), Some("5m"));
}

fn diagnosis(reason: DiagnosisReason, message: &str) -> Diagnosis {
    Diagnosis {
        reason,
        message: message.to_owned(),
    }
}

#[test]
fn a_diagnosis_is_a_reason_of_not_being_effective_with_its_numbers() {
    let mut told = Told::tuned();
    assert_eq!(told.says("Effective"), ("True", "AsExpected"));

    told.decision.as_mut().unwrap().diagnoses =
        vec![diagnosis(DiagnosisReason::NoBenefit, "3 of 400 hedges win")];
    told.tell(700);
    assert_eq!(told.says("Effective"), ("False", "NoBenefit"));
    assert_eq!(
        told.condition("Effective").message,
        "1 of 1 targets gain less by hedging than they could: shard-read (NoBenefit: 3 of 400 hedges win)"
    );
    assert_eq!(told.target().diagnoses[0].reason, "NoBenefit");

    told.decision.as_mut().unwrap().diagnoses.clear();
    told.tell(800);
    assert_eq!(told.says("Effective"), ("True", "AsExpected"));
}

#[test]
fn other_numbers_for_the_same_diagnosis_change_no_status() {
    let mut told = Told::tuned();
    let mut after = |wins: &str| {
        told.decision.as_mut().unwrap().diagnoses = vec![diagnosis(DiagnosisReason::NoBenefit, wins)];
        told.tell(700)
    };
    assert_eq!(after("3 of 400 hedges win"), after("5 of 410 hedges win"));
}

#[test]
fn of_several_diagnoses_the_first_by_name_is_the_reason_and_all_are_told() {
    let mut told = Told::tuned();
    told.decision.as_mut().unwrap().diagnoses = vec![
        diagnosis(DiagnosisReason::TooSlow, "p50 is 2 s"),
        diagnosis(DiagnosisReason::SlowTogether, "1.4 times"),
    ];
    told.tell(700);
    assert_eq!(told.says("Effective"), ("False", "SlowTogether"));
    let message = &told.condition("Effective").message;
    assert!(
        message.contains("p50 is 2 s") && message.contains("1.4 times"),
        "{message}"
    );
}

#[test]
fn nothing_is_said_of_the_effect_while_nothing_is_decided() {
    let mut told = Told::new();
    told.tell(0);
    assert!(!told.has("Effective"));
}

#[test]
fn what_is_read_and_where_it_misleads_is_told_with_the_values_in_use() {
    let mut spec = written_spec();
    spec["targets"][0]["latency"] = json!({ "preset": "Istio" });
    let mut told = Told::new();
    told.follow = follow(&spec);
    told.after(0, |now| read(now, 3.0));
    let in_use = told.target().in_use.clone().unwrap();
    assert_eq!(
        in_use.metric.as_deref(),
        Some("istio_request_duration_milliseconds")
    );
    assert_eq!(in_use.measures.as_deref(), Some("Attempt"));
    assert!(in_use.notes.len() >= 2 && in_use.notes[0].starts_with("Istio: "));
    let delay = told.target().delay.clone().unwrap();
    assert!(delay.message.unwrap().contains("p95"));
}

fn fault(reason: ConditionReason, instead: crate::cluster::Instead) -> Fault {
    Fault {
        reason,
        message: "base helpdesk/kb-base, key rds.yaml: no such route".to_owned(),
        instead,
    }
}

/// At full budget, by a document of that format.
fn by_format(output: serde_json::Value) -> Told {
    let mut spec = written_spec();
    spec["publish"][0] = output;
    let mut told = Told::tuned();
    told.follow = follow(&spec);
    told.tell(1000);
    told
}

fn by_envoy() -> Told {
    by_format(json!({
        "configMap": "kb-hedging", "key": "rds.yaml", "format": "EnvoyRoute",
        "base": { "configMap": "kb-base", "key": "rds.yaml" },
        "targets": [{ "name": "shard-read", "envoyRoute": { "cluster": "kb" } }],
    }))
}

#[test]
fn an_output_says_how_it_reaches_its_clients() {
    let told = by_envoy();
    let output = &told.status.outputs[0];
    assert_eq!(
        (output.format.as_deref(), output.delivery.as_deref()),
        (Some("EnvoyRoute"), Some("Live"))
    );
    assert_eq!(
        (output.expires, output.budget.as_deref()),
        (Some(false), Some("ByClient"))
    );
    assert_eq!(
        (output.state.as_deref(), &output.message),
        (Some("Published"), &None)
    );

    let native = Told::tuned();
    let output = &native.status.outputs[0];
    assert_eq!((output.expires, output.budget.as_deref()), (Some(true), None));
}

#[test]
fn clients_that_do_not_follow_a_mounted_file_need_a_copy_and_are_told_so() {
    let told = by_format(json!({
        "configMap": "kb-hedging", "key": "kitex.json", "format": "Kitex",
        "targets": [{
            "name": "shard-read", "kitex": { "client": "front", "server": "search", "method": "Read" },
        }],
    }));
    let output = &told.status.outputs[0];
    assert_eq!(output.delivery.as_deref(), Some("ByCopy"));
    let message = output.message.as_deref().unwrap();
    assert!(message.contains("sidecar"), "{message}");
    assert_eq!(told.says("HedgingDisabled"), ("False", "Hedging"));
    let summary = told.status.summary.as_ref().unwrap();
    assert_eq!(
        summary.hedging.as_deref(),
        Some("1/1"),
        "by their copy they are switched"
    );
}

#[test]
fn a_bad_base_stalls_the_policy_and_names_the_place() {
    let mut told = by_envoy();
    let place = ("kb-hedging".to_owned(), "rds.yaml".to_owned());
    let bad = fault(ConditionReason::BaseInvalid, crate::cluster::Instead::OldBase);
    told.faults.insert(place, bad);
    told.tell(1010);
    assert_eq!(told.says("Published"), ("False", "BaseInvalid"));
    assert_eq!(told.says("Stalled"), ("True", "BaseInvalid"));
    assert!(
        told.condition("Published")
            .message
            .contains("kb-hedging/rds.yaml: base helpdesk/kb-base")
    );
    assert_eq!(told.status.outputs[0].state.as_deref(), Some("OldBase"));
    assert_eq!(
        told.says("HedgingDisabled"),
        ("False", "Hedging"),
        "orders go on over the base before"
    );
}

#[test]
fn orders_that_a_document_cannot_say_disable_hedging_and_nothing_else() {
    let mut told = by_envoy();
    let place = ("kb-hedging".to_owned(), "rds.yaml".to_owned());
    let unsaid = fault(ConditionReason::OrdersRefused, crate::cluster::Instead::Off);
    told.faults.insert(place, unsaid);
    told.tell(1010);
    assert_eq!(
        told.says("Ready"),
        ("True", "Published"),
        "it does not depend on signals"
    );
    assert_eq!(told.says("HedgingDisabled"), ("True", "OrdersRefused"));
    assert_eq!(told.status.outputs[0].state.as_deref(), Some("Unhedged"));
}

#[test]
fn clients_that_need_a_restart_do_not_count_as_switched_off() {
    let mut told = by_format(json!({
        "configMap": "kb-hedging", "key": "hdfs.xml", "format": "Hdfs", "manualOff": "Accepted",
        "targets": [{ "name": "shard-read" }],
    }));
    told.after(1610, |now| read(now, 80.0));
    assert_eq!(told.target().reason.as_deref(), Some("Saturated"));
    assert_eq!(told.says("HedgingDisabled"), ("False", "Hedging"));
    let summary = told.status.summary.as_ref().unwrap();
    assert_eq!(
        summary.hedging.as_deref(),
        Some("1 by hand"),
        "nobody knows what they do"
    );
    let output = &told.status.outputs[0];
    assert_eq!(output.delivery.as_deref(), Some("Manual"));
    assert!(
        output
            .message
            .as_deref()
            .is_some_and(|message| message.contains("restart"))
    );
}
