//! What holds for every document of these forms.

use std::time::Duration;

use hedgerow_config::{CassandraTable, DataStaxProfile, Form, Limits, Part, PropertiesPrefix};
use hedgerow_tuner::{Hedging, Orders, Reason};
use proptest::prelude::*;

use crate::read_back::{cql, hadoop, hocon, properties, yaml};
use crate::{hdfs, loki, on, part, prefix, profile, rendered, table, tempo};

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..4e6_f64, 0.0..2.0_f64, any::<f64>()]
}

fn any_orders() -> impl Strategy<Value = Orders> {
    let hedging = (
        any_number(),
        any_number(),
        prop_oneof![0.0..=100.0_f64, any::<f64>()],
        any_number(),
    );
    let hedging = hedging.prop_map(|(delay_ms, min_remaining_ms, percent, min_per_second)| Hedging {
        delay_ms,
        min_remaining_ms,
        percent,
        min_per_second,
    });
    let reason = prop_oneof![Just(Reason::Tuned), proptest::sample::select(Reason::ALL)];
    (proptest::option::of(hedging), reason).prop_map(|(hedging, reason)| Orders { hedging, reason })
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let deadline = proptest::option::of(any::<u64>().prop_map(Duration::from_nanos));
    (deadline, any::<u8>(), any::<u32>()).prop_map(|(deadline, max_attempts, max_concurrent)| Limits {
        deadline,
        max_attempts,
        max_concurrent,
    })
}

fn parts<P>(place: impl Strategy<Value = P>) -> impl Strategy<Value = Vec<Part<P>>>
where
    P: std::fmt::Debug,
{
    let part = ("\\PC{0,8}", any_orders(), any_limits(), place);
    let part = part.prop_map(|(target, orders, limits, place)| Part {
        target,
        orders,
        limits,
        place,
    });
    proptest::collection::vec(part, 0..4)
}

/// Any text, or one of a few names, so that some are the same.
fn any_name() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]", any::<String>()]
}

fn any_form() -> impl Strategy<Value = Form> {
    let name = || proptest::option::of(any_name());
    let number = || proptest::option::of(any::<u32>());
    let tables = (any_name(), any_name()).prop_map(|(keyspace, table)| CassandraTable { keyspace, table });
    prop_oneof![
        parts(name().prop_map(|profile| DataStaxProfile { profile })).prop_map(Form::DataStax),
        parts(tables).prop_map(Form::Cassandra),
        parts(number().prop_map(hdfs)).prop_map(Form::Hdfs),
        parts(number().prop_map(loki)).prop_map(Form::Loki),
        parts(number().prop_map(tempo)).prop_map(Form::Tempo),
        parts(name().prop_map(|prefix| PropertiesPrefix { prefix })).prop_map(Form::Properties),
    ]
}

/// A delay in milliseconds that can be ordered.
fn any_delay() -> impl Strategy<Value = f64> {
    prop_oneof![
        0.001..3_600_000.0_f64,
        0.001..3.0_f64,
        (1_u32..3_600_000).prop_map(f64::from)
    ]
}

proptest! {
    #[test]
    fn no_orders_no_names_and_no_limits_make_a_renderer_panic(form in any_form()) {
        let _ = form.render(None);
    }

    #[test]
    fn what_is_written_is_never_without_a_line_end(form in any_form()) {
        if let Ok(document) = form.render(None) {
            prop_assert!(document.is_empty() || document.ends_with('\n'));
        }
    }

    #[test]
    fn a_delay_is_rounded_up_and_never_zero(delay_ms in any_delay()) {
        let mut orders = on();
        orders.hedging.as_mut().unwrap().delay_ms = delay_ms;
        let written = |form: Form| rendered(&form);

        let driver = hocon(&written(Form::DataStax(vec![part(&orders, profile(None))])));
        let driver = &driver["datastax-java-driver"]["advanced"]["speculative-execution-policy"]["delay"];
        let tables = cql(&written(Form::Cassandra(vec![part(&orders, table("k", "t"))])));
        let client = hadoop(&written(Form::Hdfs(vec![part(&orders, hdfs(None))])));
        let loki = yaml(&written(Form::Loki(vec![part(&orders, loki(None))])));
        let tempo = yaml(&written(Form::Tempo(vec![part(&orders, tempo(None))])));
        let lines = properties(&written(Form::Properties(vec![part(&orders, prefix(None))])));

        for millis in [
            driver.as_duration().unwrap().as_millis().to_string().as_str(),
            tables["k.t"].strip_suffix("ms").unwrap(),
            &client["dfs.client.hedged.read.threshold.millis"],
            loki["storage_config"]["hedging"]["at"].as_str().unwrap().strip_suffix("ms").unwrap(),
            tempo["hedge_requests_at"].as_str().unwrap().strip_suffix("ms").unwrap(),
            &lines["delayMs"],
        ] {
            let millis = f64::from(millis.parse::<u32>().unwrap());
            prop_assert!(millis >= 1.0 && millis >= delay_ms && millis < delay_ms + 1.0, "{}", millis);
        }
    }

    /// A reason to be off is off whatever else the orders say, and nothing of hedging is left in the document.
    #[test]
    fn off_has_no_trace_of_hedging(
        mut orders in any_orders(),
        off in proptest::sample::select(Reason::ALL).prop_filter("off", |reason| !reason_hedges(*reason)),
    ) {
        orders.reason = off;
        for (form, traces) in [
            (Form::DataStax(vec![part(&orders, profile(None))]), ["Constant", "max-executions", "delay ="]),
            (Form::Cassandra(vec![part(&orders, table("k", "t"))]), ["ms'", "PERCENTILE", "ALWAYS"]),
            (Form::Hdfs(vec![part(&orders, hdfs(Some(8)))]), ["threshold", "8<", "100"]),
            (Form::Loki(vec![part(&orders, loki(None))]), ["ms\n", "up_to: 2", "max_per_second:"]),
            (Form::Tempo(vec![part(&orders, tempo(None))]), ["ms\n", "up_to: 2", "per_second:"]),
            (Form::Properties(vec![part(&orders, prefix(None))]), ["delayMs", "budget", "minRemaining"]),
        ] {
            let document = rendered(&form);
            for trace in traces {
                prop_assert!(!document.contains(trace), "{} in {}", trace, document);
            }
        }
    }

    /// Of the characters that one unit of UTF-16 holds: this reader knows no others. Java does (`tests/readers`).
    #[test]
    fn any_prefix_reads_back_as_it_was(text in "[\\u{0}-\\u{d7ff}\\u{e000}-\\u{ffff}]{0,20}") {
        let form = Form::Properties(vec![part(&on(), prefix(Some(&text)))]);
        let read = properties(&rendered(&form));
        let point = if text.is_empty() || text.ends_with('.') { "" } else { "." };
        prop_assert_eq!(read.get(&format!("{text}{point}enabled")).map(String::as_str), Some("true"));
        prop_assert_eq!(read.len(), 10);
    }

    #[test]
    fn any_word_names_a_table_and_nothing_else_does(keyspace in any_name(), name in any_name()) {
        let form = Form::Cassandra(vec![part(&on(), table(&keyspace, &name))]);
        let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let written = format!("{keyspace}.{name}");
        match form.render(None) {
            Ok(document) => prop_assert!(cql(&document).contains_key(&written)),
            Err(_) => prop_assert!(!word(&keyspace) || !word(&name) || keyspace.len() > 48),
        }
    }
}

fn reason_hedges(reason: Reason) -> bool {
    matches!(reason, Reason::Tuned | Reason::Ramping)
}
