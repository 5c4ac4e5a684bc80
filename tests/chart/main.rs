//! The chart, by the real Helm in both its versions, and on a real API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

mod admission;
mod configuration;
mod generated;
mod golden;
mod install;
mod operator;
mod plain;
mod refused;
mod shared;
mod table;
