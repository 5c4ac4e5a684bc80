//! Decisions in, client documents out. Pure functions of values: no clock, no I/O, no Kubernetes.
//!
//! A [`NativeDocument`] is what Hedgerow's own clients read from a ConfigMap key. The operator makes one of a decision
//! with [`NativeDocument::new`] and writes it with [`NativeDocument::to_json`]; a client reads it back with
//! [`NativeDocument::parse`], which refuses everything that would be unsafe to follow. Only a document with
//! [`Terms`] hedges; in doubt it is written, and read, as off.
//!
//! ```
//! use hedgerow_config::{Identity, Limits, NativeDocument, Timestamp, Validity};
//! use hedgerow_tuner::{Hedging, Orders, Reason};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), hedgerow_config::DocumentError> {
//! let identity = Identity {
//!     policy: "helpdesk/kb-search".to_owned(),
//!     policy_uid: "0c6f9a52-7d0e-4c38-9a55-2f6f1f0f8f11".to_owned(),
//!     target: "shard-read".to_owned(),
//! };
//! let limits = Limits { deadline: Some(Duration::from_secs(1)), max_attempts: 2, max_concurrent: 100 };
//! let hedging = Hedging { delay_ms: 512.0, min_remaining_ms: 150.0, percent: 10.0, min_per_second: 0.0 };
//! let orders = Orders { hedging: Some(hedging), reason: Reason::Tuned };
//! let issued = Timestamp::from_millis(1_796_032_800_000);
//! let validity = Validity::new(issued, Some(Duration::from_secs(3600)));
//!
//! let written = NativeDocument::new(&identity, &orders, &limits, 17, validity).to_json();
//! let read = NativeDocument::parse(written.as_bytes())?;
//! assert_eq!(read.hedging.map(|terms| terms.delay), Some(Duration::from_millis(512)));
//! assert!(read.is_expired(issued.plus(Duration::from_secs(3600))));
//! # Ok(())
//! # }
//! ```
//!
//! [`json_schema`] is the format for clients in other languages.

mod error;
#[cfg(feature = "forms")]
mod form;
mod native;
mod rfc3339;
mod validity;
mod wire;

pub use error::DocumentError;
#[cfg(feature = "forms")]
pub use form::{
    CassandraTable, DataStaxProfile, Delivery, DotnetClient, EnvoyCluster, Form, GrpcMethod, HdfsClient,
    KitexMethod, LokiClient, Part, PropertiesPrefix, RenderError, TempoClient,
};
pub use hedgerow_tuner::Timestamp;
pub use native::{Budget, Identity, Limits, NativeDocument, Terms};
pub use validity::{Validity, fraction_of};
pub use wire::{API_VERSION, json_schema};
