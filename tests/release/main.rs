//! What a release is made of: the archive of its image, and what has to be so before it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

mod check;
mod image;
