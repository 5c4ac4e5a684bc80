//! Apache Cassandra, which hedges reads of replicas by itself.
//!
//! Source: [`speculative_retry`](https://cassandra.apache.org/doc/latest/cassandra/developing/cql/ddl.html#spec_retry), and
//! `FixedSpeculativeRetryPolicy` and `SchemaConstants` of Cassandra 5.0.

use std::fmt::Write;

use super::place::Place;
use super::told::told_places;
use super::{Part, RenderError};

/// The longest name of a keyspace, and before Cassandra 5 of a table.
const LONGEST_KEYSPACE: usize = 48;
/// The longest name of a table of which the folder still has a name that file systems take.
const LONGEST_TABLE: usize = 222;

const NOTE: &str = "\
-- Speculative retries of reads by Apache Cassandra, from Hedgerow.
-- What to do: run these statements, with cqlsh -f for example; they hold at once and need no restart.
-- Cassandra asks one more replica at most, and has no budget for hedges.
";

/// A table of Cassandra, of which `speculative_retry` is set.
///
/// On is `'<delay>ms'`, in whole milliseconds; off is `'NEVER'`. However many attempts are allowed, Cassandra adds one at
/// most. Names are letters, digits and underscores and stand in quotes, so that they keep their case and are no keywords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CassandraTable {
    /// The keyspace, as `system_schema` has it: 1 to 48 characters.
    pub keyspace: String,
    /// The table, likewise: 1 to 222 characters.
    pub table: String,
}

impl Place for CassandraTable {
    fn is_same(&self, other: &Self) -> bool {
        self == other
    }
}

pub(super) fn render(parts: &[Part<CassandraTable>]) -> Result<String, RenderError> {
    let mut statements = NOTE.to_owned();
    for (CassandraTable { keyspace, table }, hedge) in told_places(parts, check)? {
        let retry = hedge.map_or_else(|| "NEVER".to_owned(), |hedge| format!("{}ms", hedge.delay_ms));
        // Writing to a string cannot fail.
        let _ = writeln!(
            statements,
            "ALTER TABLE \"{keyspace}\".\"{table}\" WITH speculative_retry = '{retry}';"
        );
    }
    Ok(statements)
}

fn check(part: &Part<CassandraTable>) -> Result<(), RenderError> {
    let CassandraTable { keyspace, table } = &part.place;
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (what, name, longest) in [
        ("keyspace", keyspace, LONGEST_KEYSPACE),
        ("table", table, LONGEST_TABLE),
    ] {
        if !(1..=longest).contains(&name.len()) || !name.chars().all(in_word) {
            return Err(part.cannot(format!(
                "{name:?} is no name of a {what}: give 1 to {longest} letters, digits and underscores"
            )));
        }
    }
    Ok(())
}
