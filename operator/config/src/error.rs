//! Why a document cannot be followed.

use thiserror::Error;

use crate::API_VERSION;

/// Why a document cannot be followed. A client that meets one of these does not hedge.
#[derive(Debug, Error)]
pub enum DocumentError {
    /// Not JSON, a field of the wrong type, or a required field that is missing.
    #[error("not a Hedgerow document: {0}")]
    Malformed(#[from] serde_json::Error),
    /// JSON of another kind.
    #[error("apiVersion is {0:?}; a Hedgerow document says {API_VERSION:?}")]
    ForeignVersion(String),
    /// Written by a newer operator, in a format whose meaning this version cannot know.
    #[error("apiVersion is {0:?}, newer than {API_VERSION:?}: update the client")]
    NewerVersion(String),
    /// Longer than any document is.
    #[error("it has {0} bytes, more than any Hedgerow document")]
    TooLong(usize),
    /// An enabled document that gives a reason to be off.
    #[error("it is enabled, and its reason is {0:?}")]
    EnabledAndOff(String),
    /// An enabled document without a field that hedging needs.
    #[error("{0} is missing, and an enabled document needs it")]
    MissingWhenEnabled(&'static str),
    /// A number outside its range.
    #[error("{field} is {value}, but must be {range}")]
    OutOfRange {
        /// The field, as written in the document.
        field: &'static str,
        /// What it says.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
}
