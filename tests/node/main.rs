//! Tests with real pods on a real kubelet. They need root, and the images of `make node-images`: so plain `cargo test`
//! leaves them out, and `make test` ends with `make test-node` where the machine allows it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

mod client;
mod follow;
mod life;
#[allow(dead_code, reason = "the end-to-end tests use the rest")]
#[path = "../e2e/policy.rs"]
mod policy;
#[allow(dead_code, reason = "the end-to-end tests use the rest")]
#[path = "../e2e/service.rs"]
mod service;
mod stage;

use hedgerow_tests::{Image, Node};

/// A node with these images; `None`, said loudly, where this machine does not let us.
async fn node(images: &[Image]) -> Option<Node> {
    if let Some(why) = Node::refusal().unwrap() {
        eprintln!("\n*** SKIPPED, NOTHING WAS TESTED: {why}\n");
        return None;
    }
    Some(Node::start(images).await.unwrap())
}
