//! `kubectl hedge history`: the last changes of what clients are told.

use hedgerow::exit::Outcome;
use hedgerow::print;
use hedgerow_api::Change;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::cli::NamedArgs;
use crate::output::{self, cell};
use crate::session::{Policy, Session, key};

/// What `-o json` prints.
#[derive(Debug, Serialize)]
struct Report {
    policy: String,
    changes: Vec<Entry>,
}

/// A change of a target.
#[derive(Debug, Serialize)]
struct Entry {
    target: String,
    #[serde(flatten)]
    change: Change,
}

/// Runs it.
pub(crate) async fn run(session: &Session, args: &NamedArgs) -> Outcome {
    let policy = session.policy(&args.name).await?;
    let report = report(&policy);
    match args.output {
        Some(format) => output::machine(format, &report),
        None if report.changes.is_empty() => {
            eprintln!(
                "no change is known of {}: the operator has not come to it yet",
                report.policy
            );
            output::ended(0)
        }
        None => print::stdout(&render(&report)),
    }
}

/// All targets' changes, newest first.
fn report(policy: &Policy) -> Report {
    let status = policy.status.clone().unwrap_or_default();
    let of_target = |target: hedgerow_api::TargetStatus| {
        let name = target.name;
        let entry = move |change| Entry {
            target: name.clone(),
            change,
        };
        target.history.into_iter().map(entry)
    };
    let mut changes: Vec<Entry> = status.targets.into_iter().flat_map(of_target).collect();
    let at = |entry: &Entry| {
        entry
            .change
            .time
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    };
    changes.sort_by_key(|entry| std::cmp::Reverse(at(entry)));
    Report {
        policy: key(policy).to_string(),
        changes,
    }
}

fn render(report: &Report) -> String {
    let mut table = output::table(&["TIME", "TARGET", "FROM", "TO", "REASON", "MESSAGE"], false);
    for entry in &report.changes {
        let or =
            |value: &Option<String>, otherwise: &str| value.clone().unwrap_or_else(|| otherwise.to_owned());
        let change = &entry.change;
        let time = change
            .time
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), |time| time.0.to_string());
        table.add_row([
            cell(&time, None),
            cell(&entry.target, None),
            cell(&or(&change.from, "-"), None),
            cell(&or(&change.to, "unknown"), None),
            cell(&or(&change.reason, "unknown"), None),
            cell(&or(&change.message, "-"), None),
        ]);
    }
    output::text(&table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{golden, policies};

    #[test]
    fn the_changes_of_all_targets_are_told_newest_first() {
        golden("history.txt", &render(&report(&policies()[0])));
    }
}
