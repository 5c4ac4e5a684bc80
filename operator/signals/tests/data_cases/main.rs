//! How real data breaks a naive reader, case by case, on real servers and real samples.
//!
//! What is expected was worked out by hand from the samples, or comes from the server's own functions.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

#[path = "../support/mod.rs"]
mod support;

mod arithmetic;
mod hedging;
mod http;
mod native;
mod quantiles;
mod selection;
mod stage;
