//! The documents read by parsers that are not ours.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hedgerow_config::{Form, Identity, Limits, NativeDocument, Part, Validity};
use hedgerow_tuner::Timestamp;
use hocon::{Hocon, HoconLoader};
use serde_json::Value;

use crate::{OFF, forms, hdfs, loki, on, part, prefix, profile, ramping, rendered, tempo};

pub(crate) fn hocon(document: &str) -> Hocon {
    HoconLoader::new()
        .strict()
        .load_str(document)
        .unwrap()
        .hocon()
        .unwrap()
}

pub(crate) fn hadoop(document: &str) -> BTreeMap<String, String> {
    let xml = roxmltree::Document::parse(document).unwrap();
    let root = xml.root_element();
    assert_eq!(root.tag_name().name(), "configuration");
    let text = |property: roxmltree::Node<'_, '_>, tag| {
        let child = property.children().find(|child| child.has_tag_name(tag));
        child.and_then(|child| child.text()).unwrap().to_owned()
    };
    root.children()
        .filter(|child| child.is_element())
        .map(|property| (text(property, "name"), text(property, "value")))
        .collect()
}

pub(crate) fn yaml(document: &str) -> Value {
    serde_saphyr::from_str(document).unwrap()
}

pub(crate) fn properties(document: &str) -> BTreeMap<String, String> {
    java_properties::read(document.as_bytes())
        .unwrap()
        .into_iter()
        .collect()
}

/// Lines of `ALTER TABLE "k"."t" WITH speculative_retry = 'r';` as `k.t` and `r`. The tests in `tests/readers` have Cassandra
/// itself read them.
pub(crate) fn cql(document: &str) -> BTreeMap<String, String> {
    let statements = document.lines().filter(|line| !line.starts_with("--"));
    statements
        .map(|statement| {
            let fields: Vec<&str> = statement.split(['"', '\'']).collect();
            let [alter, keyspace, point, table, with, retry, end] = fields[..] else {
                panic!("{statement}");
            };
            assert_eq!((alter, point, end), ("ALTER TABLE ", ".", ";"));
            assert_eq!(with, " WITH speculative_retry = ");
            (format!("{keyspace}.{table}"), retry.to_owned())
        })
        .collect()
}

fn document(name: &str, orders: &hedgerow_tuner::Orders) -> String {
    let (_, form) = forms(orders)
        .into_iter()
        .find(|(found, _)| *found == name)
        .unwrap();
    rendered(&form)
}

#[test]
fn hocon_says_policy_executions_and_delay_for_each_profile() {
    let on = hocon(&document("data-stax.conf", &on()));
    let driver = &on["datastax-java-driver"];
    let policy = &driver["advanced"]["speculative-execution-policy"];
    assert_eq!(
        policy["class"].as_string().unwrap(),
        "ConstantSpeculativeExecutionPolicy"
    );
    assert_eq!(policy["max-executions"].as_i64(), Some(2));
    assert_eq!(policy["delay"].as_duration(), Some(Duration::from_millis(512)));

    let off = hocon(&document("data-stax.conf", &OFF));
    for (state, executions) in [(&on, 3), (&off, 3)] {
        let reports = &state["datastax-java-driver"]["profiles"]["reports"]["advanced"];
        let policy = &reports["speculative-execution-policy"];
        assert_eq!(policy["max-executions"].as_i64(), Some(executions));
        assert_eq!(policy["delay"].as_duration(), Some(Duration::from_secs(2)));
    }
    let policy = &off["datastax-java-driver"]["advanced"]["speculative-execution-policy"];
    let Hocon::Hash(settings) = policy else {
        panic!("{policy:?}");
    };
    assert_eq!(settings.len(), 1, "off has nothing but its class");
    assert_eq!(
        policy["class"].as_string().unwrap(),
        "NoSpeculativeExecutionPolicy"
    );
}

#[test]
fn a_profile_may_have_any_name() {
    for name in [
        "reads",
        "a.b",
        "say \"hi\"\\",
        "${x}",
        "# no // comment",
        "blätter",
        "a\nb",
    ] {
        let form = Form::DataStax(vec![part(&on(), profile(Some(name)))]);
        let read = hocon(&rendered(&form));
        let Hocon::Hash(profiles) = &read["datastax-java-driver"]["profiles"] else {
            panic!("{read:?}");
        };
        assert_eq!(profiles.keys().collect::<Vec<_>>(), [name]);
    }
}

#[test]
fn each_table_of_cassandra_has_its_statement() {
    let read = |orders: &_| cql(&document("cassandra.cql", orders));
    let pairs = |first: &str| {
        let pairs = [("kb.articles", first), ("kb.Reports", "2000ms")];
        BTreeMap::from(pairs.map(|(table, retry)| (table.to_owned(), retry.to_owned())))
    };
    assert_eq!(read(&on()), pairs("512ms"));
    assert_eq!(read(&OFF), pairs("NEVER"));
    assert_eq!(read(&ramping()), pairs("NEVER"));
}

#[test]
fn hadoop_reads_threads_and_threshold_and_off_has_no_threshold() {
    let size = "dfs.client.hedged.read.threadpool.size";
    let on = hadoop(&document("hdfs.xml", &on()));
    assert_eq!(on.len(), 2);
    assert_eq!(on[size], "16");
    assert_eq!(on["dfs.client.hedged.read.threshold.millis"], "512");
    let off = hadoop(&document("hdfs.xml", &OFF));
    assert_eq!(off, BTreeMap::from([(size.to_owned(), "0".to_owned())]));
}

#[test]
fn hdfs_has_the_fewer_of_the_threads_named_and_the_hedges_allowed_in_flight() {
    for (threads, max_concurrent, size) in [(None, 100, "100"), (Some(200), 100, "100"), (Some(3), 100, "3")]
    {
        let form = Form::Hdfs(vec![Part {
            limits: Limits {
                max_concurrent,
                ..crate::limits()
            },
            ..part(&on(), hdfs(threads))
        }]);
        let read = hadoop(&rendered(&form));
        assert_eq!(read["dfs.client.hedged.read.threadpool.size"], size);
    }
}

#[test]
fn loki_and_tempo_say_off_twice() {
    let of_loki = |orders: &_| yaml(&document("loki.yaml", orders));
    assert_eq!(
        of_loki(&on()),
        serde_json::json!({ "storage_config": { "hedging": { "at": "512ms", "up_to": 2, "max_per_second": 7 } } })
    );
    assert_eq!(
        of_loki(&OFF),
        serde_json::json!({ "storage_config": { "hedging": { "at": "0s", "up_to": 1 } } })
    );
    let of_tempo = |orders: &_| yaml(&document("tempo.yaml", orders));
    assert_eq!(
        of_tempo(&on()),
        serde_json::json!({ "hedge_requests_at": "512ms", "hedge_requests_up_to": 2 })
    );
    assert_eq!(
        of_tempo(&OFF),
        serde_json::json!({ "hedge_requests_at": "0s", "hedge_requests_up_to": 1 })
    );
}

#[test]
fn without_a_limit_loki_has_its_own_default() {
    let form = Form::Loki(vec![part(&on(), loki(None))]);
    assert_eq!(
        yaml(&rendered(&form))["storage_config"]["hedging"]["max_per_second"],
        5
    );
}

#[test]
fn the_attempts_of_the_policy_reach_each_system_that_can_count_them() {
    let limits = Limits {
        max_attempts: 3,
        ..crate::limits()
    };
    let form = Form::Loki(vec![Part {
        limits,
        ..part(&on(), loki(None))
    }]);
    assert_eq!(yaml(&rendered(&form))["storage_config"]["hedging"]["up_to"], 3);
    let form = Form::Tempo(vec![Part {
        limits,
        ..part(&on(), tempo(None))
    }]);
    assert_eq!(yaml(&rendered(&form))["hedge_requests_up_to"], 3);
}

#[test]
fn properties_say_what_is_ordered_in_whole_milliseconds_rounded_up() {
    let read = properties(&document("properties.properties", &on()));
    let of = |key: &str| read[&format!("hedging.{key}")].as_str();
    assert_eq!((of("enabled"), of("reason")), ("true", "Tuned"));
    assert_eq!(
        (of("delayMs"), of("deadlineMs"), of("minRemainingMs")),
        ("512", "1000", "151")
    );
    assert_eq!((of("budget.percent"), of("budget.minPerSecond")), ("10", "0.5"));
    assert_eq!(read["reports.hedging.delayMs"], "2000");

    let read = properties(&document("properties.properties", &ramping()));
    assert_eq!(read["hedging.reason"], "Ramping");
    assert_eq!(read["hedging.budget.percent"], "2.5");
    assert_eq!(read["hedging.budget.minPerSecond"], "0.125");
}

#[test]
fn properties_have_the_orders_of_the_native_document_as_keys() {
    let identity = Identity {
        policy: "helpdesk/kb-search".to_owned(),
        policy_uid: "uid".to_owned(),
        target: "shard-read".to_owned(),
    };
    let validity = Validity::new(Timestamp::from_millis(0), None);
    for orders in [on(), ramping(), OFF] {
        let native = NativeDocument::new(&identity, &orders, &crate::limits(), 1, validity);
        let json: Value = serde_json::from_str(&native.to_json()).unwrap();
        let mut keys = BTreeSet::new();
        for (key, value) in json.as_object().unwrap() {
            match value.as_object() {
                Some(nested) => keys.extend(nested.keys().map(|inner| format!("{key}.{inner}"))),
                None => drop(keys.insert(key.clone())),
            }
        }
        for of_the_document in [
            "apiVersion",
            "policy",
            "policyUID",
            "target",
            "revision",
            "issuedAt",
        ] {
            assert!(keys.remove(of_the_document));
        }
        let form = Form::Properties(vec![part(&orders, prefix(None))]);
        let read = properties(&rendered(&form));
        assert_eq!(read.into_keys().collect::<BTreeSet<_>>(), keys);
    }
}

#[test]
fn a_prefix_may_end_with_its_point() {
    for (given, key) in [
        (None, "enabled"),
        (Some(""), "enabled"),
        (Some("a"), "a.enabled"),
        (Some("a."), "a.enabled"),
    ] {
        let form = Form::Properties(vec![part(&OFF, prefix(given))]);
        assert_eq!(properties(&rendered(&form))[key], "false");
    }
}
