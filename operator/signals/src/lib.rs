//! Prometheus in, typed readings out.
//!
//! A [`Source`] reads many targets at once: it plans as few queries as it can, sends them with a deadline, a body cap and
//! a limit on concurrency, takes the answers apart, and classifies everything that can go wrong. PromQL is built here and
//! nowhere else, from structured fields, with escaping.

mod alerts;
mod answer;
mod authorities;
mod backoff;
#[doc(hidden)]
pub mod bench;
mod classify;
mod clauses;
mod clock;
mod counts;
mod credentials;
mod culprits;
mod failure;
mod freshness;
mod group;
mod halving;
mod http;
mod intervals;
mod latency;
mod layout;
mod measure;
mod native;
mod observed;
mod permits;
mod plan;
mod presence;
mod promql;
mod query;
mod question;
mod round;
mod settings;
mod shown;
mod signal;
mod source;
mod stats;

/// The target of spans: what is traced, and not what is logged. Nothing is made of them unless somebody takes traces.
pub const TRACES: &str = "traces";

pub use query::{
    Counter, CountsQuery, LatencyQuery, Operator, Outcomes, ReadingKind, Requirement, Selector, SignalKind,
    SignalQuery, TargetQuery, Unit, Witness,
};
pub use settings::{Authentication, SourceSettings};
pub use shown::Shown;
pub use source::{Source, SourceError, TargetReadings};
pub use stats::SourceStats;
