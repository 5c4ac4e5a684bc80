use hedgerow_signals::Operator;
use hedgerow_tuner::Measures;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::written_spec;

const PROPAGATION: Duration = Duration::from_secs(90);

fn source(ceilings: Ceilings) -> DeclaredSource {
    DeclaredSource {
        ceilings,
        ..DeclaredSource::plain("default", "http://prometheus:9090")
    }
}

fn compiled(spec: &Value, source: &DeclaredSource) -> Compiled {
    compile(&api::decode_spec(spec).unwrap(), "helpdesk", source, PROPAGATION).unwrap()
}

#[test]
fn what_a_policy_leaves_unsaid_has_its_documented_value() {
    let compiled = compiled(&written_spec(), &source(Ceilings::default()));
    assert_eq!(
        (compiled.interval, compiled.saturation_interval),
        (Duration::from_secs(30), Duration::from_secs(5))
    );
    assert_eq!(compiled.expiry, Some(Duration::from_secs(3600)));
    let rules = &compiled.targets[0].rules;
    assert_eq!(rules.measure, "shard_read_duration_seconds/Seconds");
    assert_eq!(rules.delay.max, Duration::from_secs(1), "the deadline");
    assert_eq!(rules.windows.min_samples, 400);
    assert_eq!(rules.max_staleness, Duration::from_secs(300));
    let Line::Value {
        off_above,
        on_below,
        at_least,
    } = rules.switch.signals[0].line
    else {
        panic!("a gauge has a line");
    };
    assert_eq!((off_above, on_below, at_least), (50.0, 35.0, None));
}

/// The API refuses it, but nobody shall be told of another limit than was written.
#[test]
fn a_number_that_does_not_fit_is_said_and_not_replaced() {
    let mut spec = api::decode_spec(&written_spec()).unwrap();
    spec.targets[0].budget.max_attempts = 300;
    let why = compile(&spec, "helpdesk", &source(Ceilings::default()), PROPAGATION).unwrap_err();
    assert!(why.to_string().ends_with("budget.maxAttempts is 300"), "{why}");
}

#[test]
fn a_delay_is_held_for_two_intervals_at_least() {
    let mut spec = written_spec();
    spec["interval"] = json!("10m");
    assert_eq!(
        compiled(&spec, &source(Ceilings::default())).targets[0]
            .rules
            .max_staleness,
        Duration::from_secs(1200)
    );
}

#[test]
fn the_ceilings_of_the_source_win() {
    let compiled = compiled(
        &written_spec(),
        &source(Ceilings {
            min_interval: Some(Duration::from_secs(60)),
            min_saturation_interval: Some(Duration::from_secs(15)),
            max_window: Some(Duration::from_secs(120)),
            max_budget_percent: Some(5.0),
            max_targets_per_namespace: None,
        }),
    );
    assert_eq!(
        (compiled.interval, compiled.saturation_interval),
        (Duration::from_secs(60), Duration::from_secs(15))
    );
    let rules = &compiled.targets[0].rules;
    assert_eq!(
        (rules.windows.window, rules.windows.max_window),
        (Duration::from_secs(120), Duration::from_secs(120))
    );
    assert_eq!(
        (rules.budget.percent, rules.budget.limited_by_source),
        (5.0, true)
    );
}

/// Hedges by the second go beyond any share of few calls.
#[test]
fn a_ceiling_of_the_budget_is_not_passed_by_the_second() {
    let mut spec = written_spec();
    spec["targets"][0]["budget"] = json!({ "percent": "5", "perClient": { "minPerSecond": "1000" } });
    let budget = |ceilings| compiled(&spec, &source(ceilings)).targets.remove(0).rules.budget;
    let free = budget(Ceilings::default());
    assert_eq!((free.min_per_second, free.limited_by_source), (1000.0, false));
    let capped = budget(Ceilings {
        max_budget_percent: Some(5.0),
        ..Ceilings::default()
    });
    assert_eq!(
        (capped.percent, capped.min_per_second, capped.limited_by_source),
        (5.0, 0.0, true)
    );
}

#[test]
fn a_ceiling_above_what_is_asked_changes_nothing() {
    let ceilings = Ceilings {
        max_budget_percent: Some(50.0),
        max_window: Some(Duration::from_secs(7200)),
        ..Ceilings::default()
    };
    assert_eq!(
        compiled(&written_spec(), &source(ceilings)),
        compiled(&written_spec(), &source(Ceilings::default()))
    );
}

#[test]
fn the_namespace_is_enforced_where_the_source_says_so() {
    let mut source = source(Ceilings::default());
    source.namespace_label = Some("namespace".to_owned());
    let query = &compiled(&written_spec(), &source).targets[0].query;
    assert_eq!(
        query.enforced,
        Some(("namespace".to_owned(), "helpdesk".to_owned()))
    );
}

#[test]
fn each_kind_of_signal_is_read_as_it_is_said() {
    let mut spec = written_spec();
    spec["targets"][0]["saturation"]["signals"] = json!([
        { "name": "rejected", "rateOf": "rejected_total", "per": { "rateOf": "calls_total" }, "offAbove": "0.01",
          "matchExpressions": [{ "key": "zone", "operator": "NotIn", "values": ["a"] }],
          "zeroWhenAbsent": { "witness": { "metric": "up", "matchLabels": { "job": "kb" } } } },
        { "name": "incident", "alert": "KbIndexDown" },
    ]);
    let target = compiled(&spec, &source(Ceilings::default())).targets.remove(0);
    let SignalKind::Rate { of, window, per } = &target.query.signals[0].kind else {
        panic!("a rate");
    };
    assert_eq!(
        (of.metric.as_str(), *window),
        ("rejected_total", Duration::from_secs(120))
    );
    assert_eq!(of.selector.requirements[0].operator, Operator::NotIn);
    assert_eq!(of.zero_when_absent.as_ref().unwrap().match_labels["job"], "kb");
    assert_eq!(per.as_ref().unwrap().metric, "calls_total");
    assert_eq!(
        target.query.signals[1].kind,
        SignalKind::Alert {
            name: "KbIndexDown".to_owned()
        }
    );
    assert_eq!(target.rules.switch.signals[1].line, Line::Alert);
}

/// A target whose latency is written so.
fn with_latency(latency: Value) -> Target {
    let mut spec = written_spec();
    spec["targets"][0]["latency"] = latency;
    compiled(&spec, &source(Ceilings::default())).targets.remove(0)
}

#[test]
fn what_is_measured_is_told_to_the_rules_and_outcomes_to_the_reader() {
    let target = with_latency(json!({
        "metric": "attempt_ms", "measures": "Attempt",
        "outcomes": { "label": "status", "cancelled": ["CANCELLED"], "ignored": ["UNAVAILABLE"] },
    }));
    assert_eq!(target.rules.measures, Measures::Attempt { losers_run_on: false });
    let latency = target.query.latency.unwrap();
    assert_eq!(
        latency.outcomes.unwrap(),
        hedgerow_signals::Outcomes {
            label: "status".to_owned(),
            cancelled: vec!["CANCELLED".to_owned()],
            ignored: vec!["UNAVAILABLE".to_owned()],
        }
    );

    let running_on =
        with_latency(json!({ "metric": "attempt_ms", "measures": "Attempt", "losersRunOn": true }));
    assert_eq!(
        running_on.rules.measures,
        Measures::Attempt { losers_run_on: true }
    );
    assert_eq!(running_on.query.latency.unwrap().outcomes, None);
}

/// What is read apart of a histogram with these outcomes, when it measures `measures`.
fn read_apart(measures: &str, outcomes: Value) -> Option<hedgerow_signals::Outcomes> {
    let mut spec = written_spec();
    spec["targets"][0]["latency"] =
        json!({ "metric": "calls_ms", "measures": measures, "outcomes": outcomes });
    spec["targets"][0]["delay"] = json!({ "add": "1ms" });
    let target = compiled(&spec, &source(Ceilings::default())).targets.remove(0);
    target.query.latency.unwrap().outcomes
}

/// The rules censor attempts alone: read apart elsewhere, what was cut short would be dropped.
#[test]
fn what_was_cut_short_is_read_apart_only_where_attempts_are_measured() {
    let both = || json!({ "label": "status", "cancelled": ["499"], "ignored": ["500"] });
    assert_eq!(read_apart("Attempt", both()).unwrap().cancelled, ["499"]);
    for measures in ["LogicalCall", "Server"] {
        let read = read_apart(measures, both()).unwrap();
        assert!(read.cancelled.is_empty(), "{measures}");
        assert_eq!(read.ignored, ["500"], "{measures}");
        let cancelled = json!({ "label": "status", "cancelled": ["499"] });
        assert_eq!(read_apart(measures, cancelled), None, "{measures}");
    }
    let losers_run_on = with_latency(json!({
        "metric": "calls_ms", "measures": "Attempt", "losersRunOn": true, "outcomes": { "label": "status", "cancelled": ["499"] },
    }));
    let read = losers_run_on.query.latency.unwrap().outcomes.unwrap();
    assert_eq!(read.cancelled, ["499"], "callers cancel too");
}

#[test]
fn a_preset_is_read_as_what_it_stands_for() {
    let target = with_latency(json!({ "preset": "Istio", "matchLabels": { "destination_workload": "kb" } }));
    assert_eq!(
        target.rules.measure,
        "istio_request_duration_milliseconds/Milliseconds"
    );
    let latency = target.query.latency.unwrap();
    assert_eq!(latency.metric, "istio_request_duration_milliseconds");
    assert_eq!(latency.unit, hedgerow_signals::Unit::Milliseconds);
    assert_eq!(latency.selector.match_labels["reporter"], "source");
    assert_eq!(latency.selector.match_labels["destination_workload"], "kb");
    assert_eq!(latency.outcomes.unwrap().label, "response_flags");
}

#[test]
fn counters_of_hedges_close_the_loop() {
    let mut spec = written_spec();
    let target = |spec: &Value| compiled(spec, &source(Ceilings::default())).targets.remove(0);
    assert!(!target(&spec).rules.counted);
    assert_eq!(target(&spec).query.counts, None);

    spec["targets"][0]["hedging"] = json!({
        "calls": { "rateOf": "calls_total", "matchLabels": { "index": "kb" } },
        "hedges": { "rateOf": "hedges_total" },
        "wins": { "rateOf": "wins_total" },
    });
    spec["targets"][0]["noBenefit"] = json!("Disable");
    spec["targets"][0]["delay"] = json!({ "plateau": "Ignore" });
    let target = target(&spec);
    assert!(target.rules.counted);
    assert_eq!(target.rules.no_benefit, NoBenefit::Disable);
    assert_eq!(target.rules.delay.plateau, Plateau::Ignore);
    let counts = target.query.counts.unwrap();
    assert_eq!(counts.calls.metric, "calls_total");
    assert_eq!(counts.calls.selector.match_labels["index"], "kb");
    assert_eq!(counts.wins.unwrap().metric, "wins_total");
    assert_eq!(counts.blocked, None);
    assert_eq!(counts.windows, [Duration::from_secs(600)]);
}

#[test]
fn the_preset_of_our_own_client_brings_its_counters() {
    let target =
        with_latency(json!({ "preset": "HedgerowClient", "matchLabels": { "target": "shard-read" } }));
    assert!(target.rules.counted);
    let counts = target.query.counts.unwrap();
    assert_eq!(counts.blocked.unwrap().metric, "hedgerow_client_blocked_total");
    assert_eq!(counts.calls.selector.match_labels["target"], "shard-read");
}
