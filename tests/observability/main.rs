//! The alerts and the dashboard that the chart ships, held against promtool and `docs/metrics.md`. It needs no control plane.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

mod alerts;
mod dashboard;
mod expression;
mod promtool;
