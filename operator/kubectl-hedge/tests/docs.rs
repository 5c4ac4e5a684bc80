//! `docs/kubectl-hedge.md` shows the commands and their output as they are.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail as a test may")]

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use kubectl_hedge::cli::Cli;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What stands between the markers `<!-- help NAME -->` and `<!-- output FILE -->` and the next `<!-- end -->`.
fn shown(marker: &str) -> String {
    let (kind, what) = marker.split_once(' ').unwrap();
    let text = match kind {
        "help" => {
            let mut root = Cli::command().term_width(110);
            root.build();
            let command = root.find_subcommand_mut(what).unwrap();
            command.render_help().to_string()
        }
        _ => fs::read_to_string(here("tests/golden").join(what)).unwrap(),
    };
    let lines: String = text
        .trim_end()
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect();
    format!("```text\n{lines}```\n")
}

fn rendered(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("<!-- ") {
        let (marker, after) = after.split_once(" -->\n").unwrap();
        let (_, after) = after.split_once("<!-- end -->\n").unwrap();
        out += &format!("{before}<!-- {marker} -->\n{}<!-- end -->\n", shown(marker));
        rest = after;
    }
    out + rest
}

#[test]
fn the_page_shows_commands_and_output_as_they_are() {
    let file = here("../../docs/kubectl-hedge.md");
    let page = fs::read_to_string(&file).unwrap();
    let expected = rendered(&page);
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        fs::write(&file, &expected).unwrap();
    }
    assert!(
        fs::read_to_string(&file).unwrap() == expected,
        "docs/kubectl-hedge.md is not what kubectl hedge says; mend it with\n    HEDGEROW_BLESS=1 cargo test -p kubectl-hedge"
    );
}

#[test]
fn the_page_has_every_command() {
    let page = fs::read_to_string(here("../../docs/kubectl-hedge.md")).unwrap();
    for command in Cli::command().get_subcommands() {
        let marker = format!("<!-- help {} -->", command.get_name());
        assert!(page.contains(&marker), "{marker}");
    }
}
