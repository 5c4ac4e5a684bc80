//! To be written.

use super::{Part, RenderError};

/// What stands before each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertiesPrefix {
    /// The prefix; `None` is none.
    pub prefix: Option<String>,
}

pub(super) fn render(_parts: &[Part<PropertiesPrefix>]) -> Result<String, RenderError> {
    unimplemented!()
}
