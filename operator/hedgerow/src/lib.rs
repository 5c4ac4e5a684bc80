//! The operator and its command line.

pub mod cluster;
