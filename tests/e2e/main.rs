//! End-to-end tests on real parts. One binary, so that one control plane serves them all.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

mod cost;
mod crd;
mod examples;
mod formats;
mod frame;
mod gitops;
mod health;
mod leader;
mod metrics;
mod nudge;
mod outage;
mod ownership;
mod plan;
mod plugin;
mod poison;
mod policy;
mod quiet;
mod reading;
mod restart;
mod rights;
mod safety;
mod scene;
mod service;
mod shared;
mod status_page;
mod stop;
mod tenants;
mod traces;
mod tuning;
mod unknown;
mod upgrade;
mod watching;
