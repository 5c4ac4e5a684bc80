//! Decisions in, client documents out. Pure functions of values: no clock, no I/O, no Kubernetes.
//!
//! A [`NativeDocument`] is what Hedgerow's own clients read from a ConfigMap key. The operator makes one of a decision
//! with [`NativeDocument::new`] and writes it with [`NativeDocument::to_json`]; a client reads it back with
//! [`NativeDocument::parse`], which refuses everything that would be unsafe to follow.

mod error;
mod native;
mod rfc3339;
mod validity;
mod wire;

pub use error::DocumentError;
pub use hedgerow_tuner::Timestamp;
pub use native::{Budget, Identity, Limits, NativeDocument, Terms};
pub use validity::Validity;
pub use wire::{API_VERSION, json_schema};
