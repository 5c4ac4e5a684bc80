//! What is refused before anything is written, and what it says.

use hedgerow_config::{Form, Limits, Part, RenderError};

use crate::{
    OFF, forms, hdfs, loki, on, other_part, part, prefix, profile, ramping, refusal, rendered, table, tempo,
};

#[test]
fn two_targets_in_one_place_of_which_one_hedges() {
    let named = profile(Some("reads"));
    for orders in [on(), OFF, ramping()] {
        for form in [
            Form::DataStax(vec![part(&orders, named.clone()), other_part(named.clone())]),
            Form::Cassandra(vec![part(&orders, table("k", "t")), other_part(table("k", "t"))]),
            Form::Hdfs(vec![part(&orders, hdfs(None)), other_part(hdfs(None))]),
            Form::Loki(vec![part(&orders, loki(None)), other_part(loki(None))]),
            Form::Tempo(vec![part(&orders, tempo(None)), other_part(tempo(None))]),
            Form::Properties(vec![
                part(&orders, prefix(Some("a"))),
                other_part(prefix(Some("a."))),
            ]),
        ] {
            let said = refusal(&form);
            assert!(
                said.starts_with("report: ") && said.contains("shard-read"),
                "{said}"
            );
        }
    }
}

/// Nothing may stand in the way of off.
#[test]
fn two_targets_in_one_place_that_are_both_off_are_off() {
    let twice = |place: &str| vec![part(&OFF, prefix(Some(place))), part(&OFF, prefix(Some(place)))];
    let once = rendered(&Form::Properties(vec![part(&OFF, prefix(Some("a")))]));
    assert_eq!(rendered(&Form::Properties(twice("a"))), once);
    let once = rendered(&Form::Cassandra(vec![part(&OFF, table("k", "t"))]));
    let twice = Form::Cassandra(vec![part(&OFF, table("k", "t")), part(&OFF, table("k", "t"))]);
    assert_eq!(rendered(&twice), once);
    for place in [None, Some("reads")] {
        let once = rendered(&Form::DataStax(vec![part(&OFF, profile(place))]));
        let twice = Form::DataStax(vec![part(&OFF, profile(place)), part(&OFF, profile(place))]);
        assert_eq!(rendered(&twice), once);
    }
}

#[test]
fn profiles_that_the_driver_would_refuse() {
    let of = |name| refusal(&Form::DataStax(vec![part(&OFF, profile(Some(name)))]));
    assert_eq!(
        of("default"),
        "shard-read: the driver refuses a profile of the name \"default\": leave profile out for the default profile"
    );
    assert_eq!(
        of(""),
        "shard-read: the profile has no name: give one, or none at all for the default profile"
    );
}

#[test]
fn names_that_cassandra_has_not() {
    let long = "x".repeat(49);
    for bad in ["", "a b", "a\"; DROP TABLE x; --", "blätter", "a-b", "a.b", &long] {
        let said = refusal(&Form::Cassandra(vec![part(&on(), table(bad, "articles"))]));
        assert!(
            said.ends_with("is no name of a keyspace: give 1 to 48 letters, digits and underscores"),
            "{said}"
        );
    }
    let longest = "x".repeat(222);
    rendered(&Form::Cassandra(vec![part(&on(), table("kb", &longest))]));
    let said = refusal(&Form::Cassandra(vec![part(&on(), table("kb", "it's"))]));
    assert_eq!(
        said,
        "shard-read: \"it's\" is no name of a table: give 1 to 222 letters, digits and underscores"
    );
}

#[test]
fn limits_that_would_be_off_or_would_not_hold() {
    let form = Form::Hdfs(vec![part(&on(), hdfs(Some(0)))]);
    assert_eq!(
        refusal(&form),
        "shard-read: 0 threads are off: give at least 1 thread and 1 hedge in flight"
    );
    let form = Form::Loki(vec![part(&on(), loki(Some(0)))]);
    assert_eq!(
        refusal(&form),
        "shard-read: maxPerSecond is 0, with which each hedge fails: give at least 1"
    );
    let form = Form::Tempo(vec![part(&on(), tempo(Some(5)))]);
    assert_eq!(
        refusal(&form),
        "shard-read: Tempo has no limit of hedges per second: leave maxPerSecond out"
    );
}

/// Off needs none of the numbers, so wrong ones do not keep it from being written.
#[test]
fn numbers_that_hedging_could_not_have_are_no_matter_when_off() {
    rendered(&Form::Hdfs(vec![part(&OFF, hdfs(Some(0)))]));
    rendered(&Form::Loki(vec![part(&OFF, loki(Some(0)))]));
    rendered(&Form::Tempo(vec![part(&OFF, tempo(Some(5)))]));
    let limits = Limits {
        max_attempts: 0,
        max_concurrent: 0,
        ..crate::limits()
    };
    let off = Part {
        limits,
        ..part(&OFF, prefix(None))
    };
    rendered(&Form::Properties(vec![off]));
}

#[test]
fn orders_without_a_delay_that_can_be_said() {
    for delay_ms in [0.0, -1.0, f64::NAN, f64::INFINITY, 3_600_001.0] {
        let mut orders = on();
        orders.hedging.as_mut().unwrap().delay_ms = delay_ms;
        for (name, form) in forms(&orders) {
            let refused = form.render(None);
            assert!(
                matches!(&refused, Err(RenderError::Orders { target, .. }) if target == "shard-read"),
                "{name}, {delay_ms}: {refused:?}"
            );
        }
    }
}

#[test]
fn properties_of_a_budget_that_is_none() {
    let mut orders = on();
    orders.hedging.as_mut().unwrap().min_per_second = f64::NAN;
    let said = refusal(&Form::Properties(vec![part(&orders, prefix(None))]));
    assert!(said.contains("budget.minPerSecond"), "{said}");
}
