//! Decisions in, client documents out. Pure functions of values.

mod native;

pub use native::{API_VERSION, Budget, Identity, Limits, NativeDocument, Validity};
