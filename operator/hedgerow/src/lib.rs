//! The operator and its command line.
//!
//! Data flows one way. A sampler per source reads Prometheus and decides for each target; a target whose decision differs
//! from what is published is handed to reconcile, which writes documents and then status. `plan` does the same once, from
//! files, and touches no cluster.

pub mod causes;
pub mod chain;
pub mod check;
pub mod cli;
pub mod cluster;
pub mod compile;
mod documents;
pub mod exit;
mod explain;
#[cfg(test)]
mod fixtures;
mod forms;
pub mod heartbeat;
pub mod index;
pub mod loopback;
pub mod metrics;
mod notes;
pub mod page;
pub mod plan;
pub mod print;
pub mod reconcile;
pub mod run;
pub mod sampler;
mod schedule;
pub mod server;
pub mod settings;
pub mod status;
pub mod telemetry;
mod words;
