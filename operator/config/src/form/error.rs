//! Why a document cannot be rendered.

use thiserror::Error;

/// Why a document cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RenderError {
    /// The base is missing, cannot be read, or does not have what the document wants to change: only a person can mend it.
    #[error("{at}: {problem}")]
    Base {
        /// The place in the base, such as `resources[0].virtual_hosts[1]`.
        at: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The system cannot be told these orders, or would refuse them. No target that is off is refused so: what is published
    /// must then be off, for the document that stands says orders of before.
    #[error("{target}: {problem}")]
    Orders {
        /// The target.
        target: String,
        /// What cannot be said, and what to do.
        problem: String,
    },
}
