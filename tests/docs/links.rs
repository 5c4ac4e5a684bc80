//! Every link leads somewhere, and every page can be found.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use hedgerow_tests::repository;

use crate::pages::{pages, prose, text};

/// Pages beside README.md and docs/ that people read.
const OTHERS: [&str; 4] = [
    "CONTRIBUTING.md",
    "charts/hedgerow/README.md",
    "examples/README.md",
    "tests/node/README.md",
];

/// The targets of the links in a text.
fn targets(text: &str) -> Vec<&str> {
    let after = text.split("](").skip(1);
    after.filter_map(|rest| Some(rest.split_once(')')?.0)).collect()
}

/// What a heading is called in a link, as GitHub does it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|one| match one {
        ' ' => Some('-'),
        '-' | '_' => Some(one),
        _ => one.is_alphanumeric().then(|| one.to_ascii_lowercase()),
    });
    kept.collect()
}

fn anchors(page: &str) -> BTreeSet<String> {
    let prose = prose(page);
    let headings = prose
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#')));
    let named = prose
        .split("<a name=\"")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
    headings.chain(named).collect()
}

/// `path` without its `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// What is wrong with the links of a page.
fn broken(path: &str, page: &str) -> Vec<String> {
    let folder = Path::new(path).parent().unwrap();
    let wrong = |target: &&str| {
        let (file, named) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() {
            PathBuf::from(path)
        } else {
            plain(&folder.join(file))
        };
        let there = repository().join(&file).exists();
        let found = named.is_empty()
            || if file == Path::new(path) {
                anchors(page).contains(named)
            } else {
                there && anchors(&text(file.to_str().unwrap())).contains(named)
            };
        !(there && found)
    };
    let prose = prose(page);
    let local = targets(&prose)
        .into_iter()
        .filter(|target| !target.starts_with("http"));
    local
        .filter(wrong)
        .map(|target| format!("{path}: {target}"))
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let all = pages().into_iter().chain(OTHERS.map(str::to_owned));
    let broken: Vec<_> = all.flat_map(|path| broken(&path, &text(&path))).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let page = "[a](docs/no-such.md) [b](docs/reasons.md#no-such) [c](#here) [d](docs/reasons.md#conditions)\n## Here\n";
    assert_eq!(
        broken("README.md", page),
        ["README.md: docs/no-such.md", "README.md: docs/reasons.md#no-such"]
    );
}

#[test]
fn every_page_is_in_the_index() {
    let index = text("docs/README.md");
    let linked: BTreeSet<_> = targets(&index).into_iter().collect();
    for page in pages() {
        if let Some(name) = page.strip_prefix("docs/").filter(|name| *name != "README.md") {
            assert!(linked.contains(name), "docs/README.md does not name {name}");
        }
    }
}
