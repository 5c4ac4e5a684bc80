//! The operator and its command line.
//!
//! Data flows one way. A sampler per source reads Prometheus and decides for each target; a target whose decision differs
//! from what is published is handed to reconcile, which writes documents and then status. `plan` does the same once, from
//! files, and touches no cluster.

pub mod cli;
pub mod cluster;
pub mod compile;
pub mod exit;
pub mod plan;
pub mod print;
pub mod run;
pub mod settings;
pub mod telemetry;
mod words;
