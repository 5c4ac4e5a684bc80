//! Files that are committed and compared.

use std::path::Path;

/// Compares with a committed file, or writes it when `HEDGEROW_BLESS` is set.
pub(crate) fn assert_committed(path: &str, content: &str, mend: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        std::fs::write(&path, content).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == content,
        "{} differs. To mend it: {mend}\nwanted:\n{content}",
        path.display()
    );
}
