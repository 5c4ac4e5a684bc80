//! The commands that are not typed into the cluster without nodes, each with its reason.

use std::collections::BTreeSet;

use crate::pages::{Step, pages, steps, text};

/// What becomes of a command instead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// It is not typed; `by` says what runs it: a file of the repository, and what stands in it.
    Elsewhere {
        why: &'static str,
        by: (&'static str, &'static str),
    },
    /// It is typed, and gets as far as it can without a node: it fails, and says so.
    UpToTheNode { says: &'static str },
}

use Place::{Elsewhere, UpToTheNode};

const ELSEWHERE: &[(&str, Place)] = &[
    (
        "make demo",
        Elsewhere {
            why: "it plays for six minutes, with a cluster of its own",
            by: ("Makefile", "\ndemo: "),
        },
    ),
    (
        "make test",
        Elsewhere {
            why: "this test is a part of it",
            by: (".ci/run", "\nmake test\n"),
        },
    ),
    (
        "make metastable",
        Elsewhere {
            why: "the table that it prints is held against the page by a test of the package",
            by: (
                "examples/metastable/src/main.rs",
                "docs/metastable.md does not show what",
            ),
        },
    ),
    (
        "make metastable ARGS=--told",
        Elsewhere {
            why: "the table that it prints is held against the page by a test of the package",
            by: (
                "examples/metastable/src/main.rs",
                "docs/metastable.md does not show what",
            ),
        },
    ),
    (
        "make bench-rss",
        Elsewhere {
            why: "it measures a release build",
            by: ("tests/e2e/cost.rs", "fn of_a_hundred_policies"),
        },
    ),
    (
        "kubectl port-forward --namespace monitoring service/prometheus 9090",
        UpToTheNode {
            says: "pod is not running",
        },
    ),
    (
        "kubectl -n hedgerow-system port-forward deployment/hedgerow 8081",
        UpToTheNode {
            says: "pod is not running",
        },
    ),
    (
        "kubectl -n hedgerow-system port-forward deployment/hedgerow 8082",
        UpToTheNode {
            says: "pod is not running",
        },
    ),
    (
        "make fuzz",
        Elsewhere {
            why: "it fuzzes for half an hour",
            by: ("Makefile", "\nfuzz: "),
        },
    ),
    (
        "make fuzz MINUTES=60 ARGS='render policy'",
        Elsewhere {
            why: "it fuzzes for two hours",
            by: ("Makefile", "\nfuzz: "),
        },
    ),
    (
        "cargo build --release -p hedgerow -p kubectl-hedge",
        Elsewhere {
            why: "the reader finds both as they were built for all tests",
            by: ("tests/docs/reader.rs", "\"target/release/kubectl-hedge\""),
        },
    ),
];

/// What becomes of this command, when it is not simply typed.
pub(crate) fn place(command: &str) -> Option<Place> {
    let found = ELSEWHERE.iter().find(|(known, _)| *known == command);
    found.map(|(_, place)| *place)
}

#[test]
fn what_runs_elsewhere_is_there_and_is_in_a_page() {
    let all: Vec<_> = pages().iter().flat_map(|page| steps(&text(page))).collect();
    let commands: BTreeSet<_> = all
        .iter()
        .filter_map(|step| match step {
            Step::Type { command, .. } => Some(command.trim_end()),
            Step::Save { .. } => None,
        })
        .collect();
    for (command, place) in ELSEWHERE {
        assert!(commands.contains(command), "no page says {command}");
        if let Elsewhere {
            why,
            by: (file, what),
        } = place
        {
            assert!(
                text(file).contains(what),
                "{command} ({why}): {file} does not say {what}"
            );
        }
    }
}
