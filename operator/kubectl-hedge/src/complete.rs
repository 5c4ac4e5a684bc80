//! What kubectl asks of `kubectl_complete-hedge`: the words that can follow those typed.
//!
//! kubectl runs the program of that name with all words, the last of which is the one being typed, and reads a line for
//! each proposal and at the end a directive.

use clap::{Command, CommandFactory};

use crate::cli::{Cli, Place};
use crate::session::{Session, key};

/// Nothing but what is proposed: no names of files.
const NO_FILES: &str = ":4";
/// Names of files, as the shell has them.
const FILES: &str = ":0";

/// What is printed for these words.
pub async fn complete(words: &[String]) -> String {
    let (typed, before) = words
        .split_last()
        .map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
    let mut root = Cli::command();
    root.build();
    let chosen = before.iter().find_map(|word| root.find_subcommand(word));
    if before
        .last()
        .is_some_and(|word| ["-f", "--filename", "--config", "--kubeconfig"].contains(&word.as_str()))
    {
        return format!("{FILES}\n");
    }
    let proposals = match chosen {
        _ if typed.starts_with('-') => flags(chosen.unwrap_or(&root)),
        None => subcommands(&root),
        Some(command) if takes_policy(command) => policies(before).await,
        Some(_) => Vec::new(),
    };
    let fitting = proposals.iter().filter(|proposal| proposal.starts_with(typed));
    let lines: String = fitting.map(|proposal| format!("{proposal}\n")).collect();
    format!("{lines}{NO_FILES}\n")
}

fn subcommands(root: &Command) -> Vec<String> {
    let visible = root.get_subcommands().filter(|command| !command.is_hide_set());
    let told = |command: &Command| {
        let about = command
            .get_about()
            .map_or_else(String::new, |about| format!("\t{about}"));
        format!("{}{about}", command.get_name())
    };
    visible.map(told).collect()
}

fn flags(command: &Command) -> Vec<String> {
    let named = command.get_arguments().filter_map(|argument| argument.get_long());
    named.map(|long| format!("--{long}")).collect()
}

fn takes_policy(command: &Command) -> bool {
    command
        .get_positionals()
        .any(|argument| argument.get_id() == "name")
}

/// The policies of the namespace; none where they cannot be had.
async fn policies(words: &[String]) -> Vec<String> {
    let value = |names: [&str; 2]| {
        let at = words.iter().position(|word| names.contains(&word.as_str()))?;
        words.get(at + 1).cloned()
    };
    let place = Place {
        namespace: value(["-n", "--namespace"]),
        context: value(["--context", ""]),
        kubeconfig: value(["--kubeconfig", ""]).map(Into::into),
        operator_namespace: None,
        lease: String::new(),
    };
    let Ok(session) = Session::open(&place).await else {
        return Vec::new();
    };
    let found = session
        .policies(Some(&session.namespace))
        .await
        .unwrap_or_default();
    found.iter().map(|policy| key(policy).name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn proposed(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        complete(&words).await
    }

    #[tokio::test]
    async fn commands_and_flags_are_proposed() {
        assert_eq!(
            proposed(&["hist"]).await,
            "history\tShow the last changes of what clients are told\n:4\n"
        );
        assert!(proposed(&[""]).await.contains("doctor\t"));
        assert_eq!(proposed(&["off", "--rea"]).await, "--reason\n:4\n");
        assert_eq!(proposed(&["status", "--all-n"]).await, "--all-namespaces\n:4\n");
    }

    #[tokio::test]
    async fn files_are_left_to_the_shell() {
        assert_eq!(proposed(&["plan", "-f", "pol"]).await, ":0\n");
    }
}
