//! To be written.

use super::{Part, RenderError};

/// A method as a Kitex client calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KitexMethod {
    /// The name of the client.
    pub client: String,
    /// The name of the server.
    pub server: String,
    /// The method.
    pub method: String,
}

pub(super) fn render(_parts: &[Part<KitexMethod>], _base: Option<&str>) -> Result<String, RenderError> {
    unimplemented!()
}
