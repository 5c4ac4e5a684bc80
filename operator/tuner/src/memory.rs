//! What must outlive a restart.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// What must outlive a restart, for one target. Opaque but for the fields here: written with the documents, read back at
/// start, the newest per target wins. Fields that a later version adds are ignored; those that it misses are as never set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// When it was written.
    pub written: Timestamp,
    /// The revision of the document that it was written with.
    pub revision: u64,
}

impl Memory {
    /// Whether this differs from what was `written` in a way that must be stored now: a document or a state changed. A
    /// reading alone never does.
    pub fn must_be_stored(&self, written: &Self) -> bool {
        self.revision != written.revision
    }
}
