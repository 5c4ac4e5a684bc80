//! The pages, each walked from its top to its end.

use std::collections::BTreeSet;

use crate::pages::{pages, steps, text};
use crate::reader::Reader;

/// The pages that a reader follows one after the other, in one cluster: the later ones are about what the first one brought.
const README: &[&str] = &["README.md"];
const WALKS: [&[&str]; 1] = [README];

async fn walk(pages: &[&str]) {
    let reader = Reader::new().await;
    for page in pages {
        reader.follows(page).await;
    }
}

#[tokio::test]
async fn the_readme() {
    walk(README).await;
}

#[test]
fn every_page_that_has_something_to_do_is_walked() {
    let walked: BTreeSet<_> = WALKS.concat().into_iter().collect();
    for page in pages() {
        if !steps(&text(&page)).is_empty() {
            assert!(walked.contains(page.as_str()), "nobody does what {page} says");
        }
    }
}
