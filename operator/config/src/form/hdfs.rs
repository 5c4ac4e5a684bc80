//! To be written.

use super::{Part, RenderError};

/// A client of HDFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HdfsClient {
    /// Threads for hedged reads; `None` leaves it to the renderer.
    pub threads: Option<u32>,
}

pub(super) fn render(_parts: &[Part<HdfsClient>]) -> Result<String, RenderError> {
    unimplemented!()
}
