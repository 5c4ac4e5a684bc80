//! A page, as its reader takes it: what is typed, what is saved, and what is shown.

use hedgerow_tests::repository;

/// What a page has its reader do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Type a command; it may go over several lines. What the page shows below it are the `shown`.
    Type { command: String, shown: Vec<String> },
    /// Save the text of a block whose info string names a file.
    Save { file: String, text: String },
}

/// A page of the repository: its text, by its path.
pub(crate) fn text(path: &str) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// README.md and the pages of docs/.
pub(crate) fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    for entry in std::fs::read_dir(repository().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    pages.sort();
    pages
}

/// The blocks of a page, each with its info string.
pub(crate) fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(info)) => open = Some((info.trim().to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, text)), None) => *text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block has no end: {open:?}");
    blocks
}

/// The page without its blocks.
pub(crate) fn prose(page: &str) -> String {
    let mut inside = false;
    let outside = page.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    outside.map(|line| format!("{line}\n")).collect()
}

/// What the page has its reader do, in its order.
pub(crate) fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for (info, text) in blocks(page) {
        match info.split_whitespace().collect::<Vec<_>>()[..] {
            ["console"] => steps.extend(typed(&text)),
            [_, file] => steps.push(Step::Save {
                file: file.to_owned(),
                text,
            }),
            ["text" | "yaml" | "json" | "promql"] => {}
            _ => panic!("nobody knows what to do with a block of {info:?}:\n{text}"),
        }
    }
    steps
}

fn typed(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step::Type {
                command: format!("{command}\n"),
                shown: Vec::new(),
            });
            continue;
        }
        let Some(Step::Type { command, shown }) = steps.last_mut() else {
            panic!("a block shows output before any command: {line}");
        };
        if unfinished(command) {
            *command += &format!("{line}\n");
        } else {
            shown.push(line.to_owned());
        }
    }
    steps
}

/// Whether a shell would wait for more: of a document in the command, or after a backslash.
fn unfinished(command: &str) -> bool {
    let document = command.contains("<<'EOF'") && !command.ends_with("\nEOF\n");
    document || command.ends_with("\\\n")
}

#[test]
fn a_block_is_read_as_a_shell_would() {
    let page =
        "# A\n```console\n$ cat > a <<'EOF'\nb\nEOF\n$ ls \\\n  a\na\n```\n```yaml p.yaml\nx: 1\n```\n";
    let typed = |command: &str, shown: &[&str]| Step::Type {
        command: command.to_owned(),
        shown: shown.iter().map(|&line| line.to_owned()).collect(),
    };
    let saved = Step::Save {
        file: "p.yaml".to_owned(),
        text: "x: 1\n".to_owned(),
    };
    assert_eq!(
        steps(page),
        [
            typed("cat > a <<'EOF'\nb\nEOF\n", &[]),
            typed("ls \\\n  a\n", &["a"]),
            saved
        ]
    );
    assert_eq!(prose(page), "# A\n");
}
