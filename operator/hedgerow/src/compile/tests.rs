use hedgerow_signals::Operator;
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
