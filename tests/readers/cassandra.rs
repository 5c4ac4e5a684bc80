//! What Cassandra makes of the statements.

use hedgerow_config::{CassandraTable, Form};
use hedgerow_tuner::Orders;

use crate::{OFF, Read, assert_refused, expected, on, part, rendered};

fn table(keyspace: &str, table: &str) -> CassandraTable {
    CassandraTable {
        keyspace: keyspace.to_owned(),
        table: table.to_owned(),
    }
}

/// With three tables, of which one has a name that is a keyword.
fn read(document: &str) -> anyhow::Result<Read> {
    let tables = ["kb", "Articles", "kb", "select", "kb", "other"];
    crate::read("cassandra", "hedgerow.cql", document, &tables)
}

fn both(articles: &Orders, select: &Orders) -> String {
    rendered(&Form::Cassandra(vec![
        part(articles, table("kb", "Articles")),
        part(select, table("kb", "select")),
    ]))
}

#[test]
fn each_table_gets_its_own_and_no_other_is_touched() {
    let tables = |articles, select| {
        // 99p is Cassandra's default.
        expected([
            ("kb.Articles", articles),
            ("kb.select", select),
            ("kb.other", "99p"),
        ])
    };
    for (articles, select, said) in [
        (on(511.2), on(2000.0), tables("512ms", "2000ms")),
        (on(600.0), OFF, tables("600ms", "NEVER")),
        (OFF, OFF, tables("NEVER", "NEVER")),
    ] {
        assert_eq!(read(&both(&articles, &select)).unwrap(), said);
    }
}

#[test]
fn cassandra_refuses_what_the_renderer_never_writes() {
    let good = both(&on(512.0), &OFF);
    for (from, to, reason) in [
        ("'512ms'", "'512'", "speculative_retry"),
        ("\"select\"", "select", "no viable alternative"),
        ("\"Articles\"", "Articles", "articles"),
        (
            "speculative_retry",
            "speculative",
            "Unknown property 'speculative'",
        ),
    ] {
        assert!(good.contains(from));
        assert_refused(read(&good.replace(from, to)), reason);
    }
}
