//! The documents as they are written.

use crate::committed::assert_committed;
use crate::{OFF, forms, on, ramping, rendered};

#[test]
fn the_documents_read_as_the_golden_files() {
    for (state, orders) in [("on", on()), ("off", OFF), ("ramping", ramping())] {
        for (name, form) in forms(&orders) {
            let (format, ending) = name.split_once('.').unwrap();
            assert_committed(
                &format!("tests/golden/{format}/{state}.{ending}"),
                &rendered(&form),
                "HEDGEROW_BLESS=1 cargo test -p hedgerow-config",
            );
        }
    }
}

#[test]
fn a_document_that_a_person_carries_on_stays_off_while_the_budget_ramps() {
    for ((name, ramping), (_, off)) in forms(&ramping()).into_iter().zip(forms(&OFF)) {
        if name != "properties.properties" {
            assert_eq!(rendered(&ramping), rendered(&off), "{name}");
        }
        assert_eq!(ramping.ramps(), rendered(&ramping) != rendered(&off), "{name}");
    }
}

#[test]
fn the_same_orders_give_the_same_text() {
    for ((_, once), (_, again)) in forms(&on()).into_iter().zip(forms(&on())) {
        assert_eq!(rendered(&once), rendered(&again));
    }
}
