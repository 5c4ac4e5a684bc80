//! To be written.

use super::{Part, RenderError};

/// A named HTTP client of .NET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotnetClient {
    /// Its name, under `HttpClients`.
    pub client: String,
}

pub(super) fn render(_parts: &[Part<DotnetClient>], _base: Option<&str>) -> Result<String, RenderError> {
    unimplemented!()
}
