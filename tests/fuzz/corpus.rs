//! Every input that is kept holds what its target asks: samples, those that once broke something, and those
//! that reach the most code.

#![allow(clippy::unwrap_used)] // It is a test.

use std::fs;
use std::path::Path;

use hedgerow_fuzz::TARGETS;

#[test]
fn every_kept_input_holds() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    for target in TARGETS {
        for kept in ["seeds", "corpus"] {
            let mut inputs: Vec<_> = fs::read_dir(fuzz.join(kept).join(target.name))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            inputs.sort();
            assert!(!inputs.is_empty(), "{kept} of {}", target.name);
            for input in inputs {
                // Said before, since a panic does not name the file.
                println!("{}", input.display());
                (target.check)(&fs::read(&input).unwrap());
            }
        }
    }
}
