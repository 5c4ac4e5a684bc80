//! To be written.

use super::{Part, RenderError};

/// A Tempo that reads from object storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TempoClient {
    /// Hedges per second, at most; `None` leaves it to the renderer.
    pub max_per_second: Option<u32>,
}

pub(super) fn render(_parts: &[Part<TempoClient>]) -> Result<String, RenderError> {
    unimplemented!()
}
