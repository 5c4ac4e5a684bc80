//! The pages, each walked from its top to its end.

use std::collections::BTreeSet;

use futures::future::join_all;

use crate::pages::{pages, steps, text};
use crate::reader::Reader;

/// The pages that a reader follows one after the other, in one cluster: the later ones are about what the first one brought.
const README: &[&str] = &["README.md"];
const INSTALL: &[&str] = &["docs/install.md"];
const QUICK_START: &[&str] = &[
    "docs/quick-start.md",
    "docs/faq.md",
    "docs/fuzzing.md",
    "docs/gitops.md",
    "docs/kubectl-hedge.md",
    "docs/metastable.md",
    "docs/metrics.md",
    "docs/runbooks.md",
    "docs/sizing.md",
    "docs/status-page.md",
];
const WALKS: [&[&str]; 3] = [README, INSTALL, QUICK_START];

/// In a page, where its reader is taken to begin with a cluster in which nothing is installed.
const ANEW: &str = "<!-- on another cluster -->\n";

async fn walk(pages: &[&str]) {
    // What begins on another cluster needs nothing of what was done before: each part goes its way at the same time.
    let mut parts = vec![Vec::new()];
    for page in pages {
        for (number, part) in text(page).split(ANEW).enumerate() {
            if number > 0 {
                parts.push(Vec::new());
            }
            let last = parts.last_mut().expect("there is one from the start");
            last.push((*page, part.to_owned()));
        }
    }
    join_all(parts.into_iter().map(follow)).await;
}

/// Follows pages, or parts of them, one after the other in a new cluster.
async fn follow(steps: Vec<(&str, String)>) {
    let reader = Reader::new().await;
    for (page, text) in steps {
        reader.follows(page, &text).await;
    }
}

#[tokio::test]
async fn the_readme() {
    walk(README).await;
}

#[tokio::test]
async fn to_install_by_helm_and_without_it() {
    walk(INSTALL).await;
}

#[tokio::test]
async fn the_quick_start_and_what_comes_after_it() {
    walk(QUICK_START).await;
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
