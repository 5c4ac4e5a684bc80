//! Documents that a person carries on (DataStax, Cassandra, HDFS, Loki, Tempo), and plain properties.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

mod golden;
mod invariants;
mod read_back;
mod refused;

use std::time::Duration;

use hedgerow_config::{
    CassandraTable, DataStaxProfile, Form, HdfsClient, Limits, LokiClient, Part, PropertiesPrefix,
    RenderError, TempoClient,
};
use hedgerow_tuner::{Hedging, Orders, Reason};

fn limits() -> Limits {
    Limits {
        deadline: Some(Duration::from_secs(1)),
        max_attempts: 2,
        max_concurrent: 100,
    }
}

/// Hedges after 511.2 ms, so that rounding shows: 512 in whole milliseconds.
fn on() -> Orders {
    let hedging = Hedging {
        delay_ms: 511.2,
        min_remaining_ms: 150.4,
        percent: 10.0,
        min_per_second: 0.5,
    };
    Orders {
        hedging: Some(hedging),
        reason: Reason::Tuned,
    }
}

fn ramping() -> Orders {
    let hedging = on().hedging.map(|hedging| Hedging {
        percent: 2.5,
        min_per_second: 0.125,
        ..hedging
    });
    Orders {
        hedging,
        reason: Reason::Ramping,
    }
}

const OFF: Orders = Orders {
    hedging: None,
    reason: Reason::Saturated,
};

fn part<P>(orders: &Orders, place: P) -> Part<P> {
    Part {
        target: "shard-read".to_owned(),
        orders: orders.clone(),
        limits: limits(),
        place,
    }
}

/// A target that always hedges, later and with one attempt more: what becomes of the other one must not touch it.
fn other_part<P>(place: P) -> Part<P> {
    let hedging = on().hedging.map(|hedging| Hedging {
        delay_ms: 2000.0,
        ..hedging
    });
    Part {
        target: "report".to_owned(),
        orders: Orders { hedging, ..on() },
        limits: Limits {
            max_attempts: 3,
            ..limits()
        },
        place,
    }
}

fn profile(name: Option<&str>) -> DataStaxProfile {
    DataStaxProfile {
        profile: name.map(str::to_owned),
    }
}

fn table(keyspace: &str, table: &str) -> CassandraTable {
    CassandraTable {
        keyspace: keyspace.to_owned(),
        table: table.to_owned(),
    }
}

fn hdfs(threads: Option<u32>) -> HdfsClient {
    HdfsClient { threads }
}

fn loki(max_per_second: Option<u32>) -> LokiClient {
    LokiClient { max_per_second }
}

fn tempo(max_per_second: Option<u32>) -> TempoClient {
    TempoClient { max_per_second }
}

fn prefix(prefix: Option<&str>) -> PropertiesPrefix {
    PropertiesPrefix {
        prefix: prefix.map(str::to_owned),
    }
}

/// A document of each form for a target with these orders, and for the other one where the form has room for two.
fn forms(orders: &Orders) -> [(&'static str, Form); 6] {
    [
        (
            "data-stax.conf",
            Form::DataStax(vec![
                part(orders, profile(None)),
                other_part(profile(Some("reports"))),
            ]),
        ),
        (
            "cassandra.cql",
            Form::Cassandra(vec![
                part(orders, table("kb", "articles")),
                other_part(table("kb", "Reports")),
            ]),
        ),
        ("hdfs.xml", Form::Hdfs(vec![part(orders, hdfs(Some(16)))])),
        ("loki.yaml", Form::Loki(vec![part(orders, loki(Some(7)))])),
        ("tempo.yaml", Form::Tempo(vec![part(orders, tempo(None))])),
        (
            "properties.properties",
            Form::Properties(vec![
                part(orders, prefix(Some("hedging"))),
                other_part(prefix(Some("reports.hedging"))),
            ]),
        ),
    ]
}

fn rendered(form: &Form) -> String {
    form.render(None).unwrap()
}

/// What is said about the target when a document is refused.
fn refusal(form: &Form) -> String {
    match form.render(None) {
        Err(RenderError::Orders { target, problem }) => format!("{target}: {problem}"),
        other => panic!("not refused: {other:?}"),
    }
}
