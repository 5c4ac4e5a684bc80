//! What must hold for any input. Each target is a function of bytes that panics when something does not hold; libFuzzer looks
//! for bytes that make it (`tests/fuzz/run`), and the tests try all that it found before (`tests/fuzz/corpus`).
//!
//! Inputs are text where they can be: what is kept reads well, and a seed is a sample with a line before it.

#![allow(clippy::expect_used, clippy::panic)] // To panic is how a target says what does not hold.

mod answer;
mod buckets;
mod document;
mod policy;
mod render;

/// Something that takes any input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Panics when something does not hold for these bytes.
    pub check: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "answer",
        check: answer::check,
    },
    Target {
        name: "buckets",
        check: buckets::check,
    },
    Target {
        name: "document",
        check: document::check,
    },
    Target {
        name: "policy",
        check: policy::check,
    },
    Target {
        name: "render",
        check: render::check,
    },
];
