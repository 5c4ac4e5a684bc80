//! To be written.

use super::{Part, RenderError};

/// The routes of Envoy that lead to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvoyCluster {
    /// The name of the cluster.
    pub cluster: String,
}

pub(super) fn render(_parts: &[Part<EnvoyCluster>], _base: Option<&str>) -> Result<String, RenderError> {
    unimplemented!()
}
