//! To be written.

use super::{Part, RenderError};

/// A Loki that reads from object storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LokiClient {
    /// Hedges per second, at most; `None` leaves it to the renderer.
    pub max_per_second: Option<u32>,
}

pub(super) fn render(_parts: &[Part<LokiClient>]) -> Result<String, RenderError> {
    unimplemented!()
}
