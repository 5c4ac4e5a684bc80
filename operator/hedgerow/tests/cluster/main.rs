//! The cluster module against a real kube-apiserver and etcd. One binary, so that one control plane serves all of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

mod end_of_life;
mod formats;
mod lease;
mod nudge;
mod ownership;
mod publish;
mod reconcile;
mod refusals;
mod scene;
mod tell;
mod watch;
