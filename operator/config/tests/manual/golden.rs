//! The documents as they are written.

use std::path::Path;

use crate::{OFF, forms, on, ramping, rendered};

#[test]
fn the_documents_read_as_the_golden_files() {
    for (state, orders) in [("on", on()), ("off", OFF), ("ramping", ramping())] {
        for (name, form) in forms(&orders) {
            assert_committed(&format!("{state}/{name}"), &rendered(&form));
        }
    }
}

/// Compares with a committed file, or writes it when `HEDGEROW_BLESS` is set.
fn assert_committed(name: &str, content: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == content,
        "{} differs. To mend it: HEDGEROW_BLESS=1 cargo test -p hedgerow-config\nwanted:\n{content}",
        path.display()
    );
}

#[test]
fn a_document_that_a_person_carries_on_stays_off_while_the_budget_ramps() {
    for ((name, ramping), (_, off)) in forms(&ramping()).into_iter().zip(forms(&OFF)) {
        if name != "properties.properties" {
            assert_eq!(rendered(&ramping), rendered(&off), "{name}");
        }
    }
}

#[test]
fn the_same_orders_give_the_same_text() {
    for ((_, once), (_, again)) in forms(&on()).into_iter().zip(forms(&on())) {
        assert_eq!(rendered(&once), rendered(&again));
    }
}
