//! Clients that are not ours take on the documents that are written for them.
//!
//! Each is the real program, reads a folder that changes as the kubelet changes a mounted ConfigMap, and is judged by what the
//! servers see of its calls.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

mod attempts;
mod envoy;
mod envoy_route;
mod examples;
mod grpc_service_config;
mod mounted;
mod orders;
mod searcher;
mod shard;
mod upstream;
