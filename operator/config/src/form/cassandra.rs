//! To be written.

use super::{Part, RenderError};

/// A table of Cassandra, of which `speculative_retry` is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CassandraTable {
    /// The keyspace.
    pub keyspace: String,
    /// The table.
    pub table: String,
}

pub(super) fn render(_parts: &[Part<CassandraTable>]) -> Result<String, RenderError> {
    unimplemented!()
}
