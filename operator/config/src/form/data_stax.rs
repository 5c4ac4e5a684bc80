//! To be written.

use super::{Part, RenderError};

/// An execution profile of the DataStax Java driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataStaxProfile {
    /// The profile; `None` is the default one.
    pub profile: Option<String>,
}

pub(super) fn render(_parts: &[Part<DataStaxProfile>]) -> Result<String, RenderError> {
    unimplemented!()
}
