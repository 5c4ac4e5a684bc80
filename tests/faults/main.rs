//! The fault matrix: what breaks, what was there before, what was published meanwhile, and what is there after. No fault may
//! make hedging less safe, lose what is known, need a restart, or take others along. See docs/faults.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

mod api_server;
mod control_plane;
mod matrix;
mod objects;
mod observer;
mod operator;
mod prometheus;
mod refused;
mod stage;

#[allow(dead_code, reason = "the end-to-end tests use all of it")]
#[path = "../e2e/policy.rs"]
mod policy;
#[allow(dead_code, reason = "the end-to-end tests use all of it")]
#[path = "../e2e/scene.rs"]
mod scene;
#[allow(dead_code, reason = "the end-to-end tests use all of it")]
#[path = "../e2e/service.rs"]
mod service;
#[path = "../e2e/shared.rs"]
mod shared;
