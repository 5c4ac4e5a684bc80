//! Policies as a cluster has them, and the files that say how they are shown.

use std::path::PathBuf;

use crate::session::Policy;

/// Policies in every phase that the tables tell of.
pub(crate) fn policies() -> Vec<Policy> {
    let text = include_str!("../tests/policies.yaml");
    serde_saphyr::from_multiple(text).unwrap()
}

/// Compares with a file in `tests/golden`; `HEDGEROW_BLESS` writes it anew.
pub(crate) fn golden(name: &str, text: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, expected, "{}", file.display());
}
