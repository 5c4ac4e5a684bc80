//! What README.md and docs/ say can be done: every command is typed into a cluster, and every link leads somewhere.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

mod elsewhere;
mod inline;
mod links;
mod nodes;
mod output;
mod pages;
mod reader;
#[path = "../e2e/service.rs"]
#[allow(dead_code, reason = "its load is not moved here")]
mod service;
mod walks;
