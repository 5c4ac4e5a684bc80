//! libFuzzer on one target: `FUZZ_TARGET=answer fuzz CORPUS`. `tests/fuzz/run` builds and starts it.
#![no_main]

use std::sync::LazyLock;

use hedgerow_fuzz::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let known = TARGETS.iter().find(|target| target.name == name);
    known.unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("FUZZ_TARGET={name} is not known: there are {}", names.join(", "));
        std::process::exit(2)
    })
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.check)(input));
