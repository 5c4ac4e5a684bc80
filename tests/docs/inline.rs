//! Commands inside of sentences: their programs, targets and sub-commands exist.

use std::process::Command;

use hedgerow_tests::{Build, Part, hedgerow, kubectl_hedge, part};

use crate::pages::{pages, prose, text};

/// What stands between single backticks, on one line.
fn spans(prose: &str) -> Vec<String> {
    let flat = prose.replace('\n', " ");
    flat.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether the program has this sub-command: its help of it is not the help of all.
fn knows(program: &std::path::Path, words: &[&str]) -> bool {
    let output = Command::new(program).args(words).arg("--help").output().unwrap();
    output.status.success()
}

/// Says what is wrong with a command, if anything is.
fn wrong(span: &str) -> Option<String> {
    let words: Vec<_> = span.split_whitespace().collect();
    let known = match words[..] {
        ["make", target, ..] => text("Makefile").contains(&format!("\n{target}:")),
        ["kubectl", "hedge", command, ..] if !command.starts_with('-') => {
            knows(&kubectl_hedge().unwrap(), &[command])
        }
        ["kubectl", "hedge", ..] => true,
        ["kubectl", command, ..] => knows(&part(Part::Kubectl).unwrap(), &[command]),
        ["helm", command, ..] => knows(&part(Part::Helm4).unwrap(), &[command]),
        ["hedgerow", command, ..] => knows(&hedgerow(Build::Debug).unwrap(), &[command]),
        _ => true,
    };
    (!known).then(|| span.to_owned())
}

#[test]
fn commands_in_sentences_exist() {
    let spans = pages().into_iter().flat_map(|page| spans(&prose(&text(&page))));
    let wrong: Vec<_> = spans.filter_map(|span| wrong(&span)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    for span in [
        "make no-such",
        "kubectl hedge no-such",
        "kubectl no-such x",
        "helm no-such",
        "hedgerow no-such",
    ] {
        assert!(wrong(span).is_some(), "{span}");
    }
    for span in [
        "make demo KEEP=1",
        "kubectl get hp",
        "hedgerow plan -f policy.yaml",
        "kubectl hedge status",
    ] {
        assert!(wrong(span).is_none(), "{span}");
    }
}

#[test]
fn commands_are_in_blocks_that_are_typed() {
    for page in pages() {
        for line in prose(&text(&page)).lines() {
            let bare = line.strip_prefix("    ").map(str::trim_start).unwrap_or_default();
            let command = ["kubectl ", "helm ", "make ", "hedgerow ", "curl ", "cargo "]
                .iter()
                .any(|program| bare.starts_with(program));
            assert!(
                !command,
                "{page}: nobody types this; put it into a block of console: {line}"
            );
        }
    }
}
