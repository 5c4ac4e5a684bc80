//! Every input that is kept holds what its target asks: those that reach the most code, and those that once broke something.

#![allow(clippy::unwrap_used)] // It is a test.

use std::fs;
use std::path::Path;

use hedgerow_fuzz::TARGETS;

#[test]
fn every_kept_input_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in TARGETS {
        let mut inputs: Vec<_> = fs::read_dir(corpus.join(target.name))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{}", target.name);
        for input in inputs {
            // Said before, since a panic does not name the file.
            println!("{}", input.display());
            (target.check)(&fs::read(&input).unwrap());
        }
    }
}
