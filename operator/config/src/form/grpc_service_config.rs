//! To be written.

use super::{Part, RenderError};

/// A method of a gRPC service, or all methods of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcMethod {
    /// The full name of the service, such as `search.Shard`.
    pub service: String,
    /// The method; `None` is every method that has no entry of its own.
    pub method: Option<String>,
}

pub(super) fn render(_parts: &[Part<GrpcMethod>], _base: Option<&str>) -> Result<String, RenderError> {
    unimplemented!()
}
