//! `.ci/release --check`: what may be released.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hedgerow_tests::{repository, scratch};

const FILES: [&str; 4] = [
    ".ci/release",
    "Cargo.toml",
    "charts/hedgerow/Chart.yaml",
    "CHANGELOG.md",
];

/// A tree that may be released: this one, of version 7.8.9, with a section in the changelog and what that release stored.
fn tree() -> PathBuf {
    let tree = scratch("release").unwrap();
    for file in FILES {
        let to = tree.join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(repository().join(file), to).unwrap();
    }
    let cargo = fs::read_to_string(tree.join("Cargo.toml")).unwrap();
    let now = cargo.lines().find(|line| line.starts_with("version = ")).unwrap();
    let now = now.split('"').nth(1).unwrap();
    let version = |key: &str, quote: &str| format!("{key}{quote}{now}{quote}\n");
    edit(
        &tree,
        "Cargo.toml",
        &version("version = ", "\""),
        "version = \"7.8.9\"\n",
    );
    edit(
        &tree,
        "charts/hedgerow/Chart.yaml",
        &version("\nversion: ", ""),
        "\nversion: 7.8.9\n",
    );
    edit(
        &tree,
        "charts/hedgerow/Chart.yaml",
        &version("\nappVersion: ", ""),
        "\nappVersion: 7.8.9\n",
    );
    edit(
        &tree,
        "CHANGELOG.md",
        "## [Unreleased]\n",
        "## [Unreleased]\n\n## [7.8.9] - 2030-01-01\n",
    );
    fs::create_dir_all(tree.join("tests/releases/7.8")).unwrap();
    for file in ["crd.yaml", "objects.json"] {
        fs::write(tree.join("tests/releases/7.8").join(file), "{}").unwrap();
    }
    tree
}

fn edit(tree: &Path, file: &str, before: &str, after: &str) {
    let path = tree.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(before), "{before:?} is not in {file}");
    fs::write(path, text.replacen(before, after, 1)).unwrap();
}

/// What it says against a tree; nothing when that may be released.
fn refusal(tree: &Path) -> Option<String> {
    let output = Command::new(tree.join(".ci/release"))
        .arg("--check")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    match output.status.code() {
        Some(0) => None,
        Some(1) => Some(said),
        code => panic!("it ended with {code:?}: {said}"),
    }
}

fn is_refused(tree: &Path, why: &str) {
    let said = refusal(tree).expect("it is refused");
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_tree_of_one_version_with_its_changes_told_is_released() {
    assert_eq!(refusal(&tree()), None);
}

#[test]
fn a_chart_of_another_version_is_refused() {
    for key in ["version", "appVersion"] {
        let tree = tree();
        edit(
            &tree,
            "charts/hedgerow/Chart.yaml",
            &format!("\n{key}: 7.8.9\n"),
            &format!("\n{key}: 7.8.8\n"),
        );
        is_refused(&tree, &format!("{key} is 7.8.8, that of Cargo.toml is 7.8.9"));
    }
}

#[test]
fn a_version_that_the_changelog_does_not_tell_of_is_refused() {
    let tree = tree();
    edit(&tree, "CHANGELOG.md", "## [7.8.9]", "## [7.8.90]");
    is_refused(&tree, "CHANGELOG.md has nothing under '## [7.8.9]'");
    edit(&tree, "CHANGELOG.md", "## [7.8.90]", "## [7.8.9]\n\n## [7.8.90]");
    is_refused(&tree, "CHANGELOG.md has nothing under '## [7.8.9]'");
}

#[test]
fn a_version_that_later_ones_cannot_be_tested_against_is_refused() {
    let tree = tree();
    fs::remove_file(tree.join("tests/releases/7.8/objects.json")).unwrap();
    is_refused(&tree, "make record-release");
}

#[test]
fn changes_that_are_not_committed_are_refused() {
    let tree = tree();
    let git = |arguments: &[&str]| {
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        let status = Command::new("git")
            .args(who)
            .args(arguments)
            .current_dir(&tree)
            .status();
        assert!(status.unwrap().success(), "git {arguments:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "All"]);
    assert_eq!(refusal(&tree), None);
    edit(&tree, "CHANGELOG.md", "## [7.8.9]", "## [7.8.9] ");
    is_refused(&tree, "not committed");
}
