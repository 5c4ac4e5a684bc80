//! End-to-end tests on real parts. One binary, so that one control plane serves them all.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

mod frame;
mod shared;
