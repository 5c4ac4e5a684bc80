//! promtool.

use std::path::Path;
use std::process::Command;

use hedgerow_tests::{Part, part, repository};

/// Runs it in the repository, and fails with what it says when it finds something.
pub(crate) fn promtool(arguments: &[&str]) {
    let output = Command::new(part(Part::Promtool).unwrap())
        .current_dir(repository())
        .args(arguments)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "promtool {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&said)
    );
}

/// A file of the repository.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}
