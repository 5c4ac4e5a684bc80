//! `kubectl hedge status`: what is decided of each target, in a table.

use comfy_table::Color;
use hedgerow::exit::Outcome;
use hedgerow::print;
use hedgerow_api::{ConditionReason, TargetState, TargetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::age::age;
use crate::cli::{Format, StatusArgs, TableFormat};
use crate::leader;
use crate::output::{self, cell, is_coloured};
use crate::session::{Policy, Session, key};

/// What is said where nothing is known. Never a number.
const UNKNOWN: &str = "unknown";
/// What is said where there is nothing to know: the delay of a target that is not hedged.
const NONE: &str = "-";

/// What `-o json` prints.
#[derive(Debug, Serialize)]
struct Report {
    targets: Vec<Row>,
}

/// One target. What is not known is `null`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    namespace: String,
    policy: String,
    target: String,
    hedging: Option<Hedging>,
    delay: Option<String>,
    recommended: Option<String>,
    limited_by: Option<String>,
    budget: Option<String>,
    hedge_share: Option<String>,
    win_share: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    since: Option<Time>,
}

/// Whether a target is hedged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Hedging {
    Yes,
    Ramping,
    No,
}

impl Hedging {
    /// `None` for a state that this version does not know.
    fn of(state: &str) -> Option<Self> {
        match TargetState::ALL.iter().find(|known| known.as_str() == state)? {
            TargetState::Hedging => Some(Self::Yes),
            TargetState::Ramping => Some(Self::Ramping),
            TargetState::NotHedging => Some(Self::No),
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Ramping => "ramping",
            Self::No => "no",
        }
    }

    const fn color(self) -> Color {
        match self {
            Self::Yes => Color::Green,
            Self::Ramping => Color::Yellow,
            Self::No => Color::Red,
        }
    }
}

/// Runs it.
pub(crate) async fn run(session: &Session, args: &StatusArgs) -> Outcome {
    let policies = match &args.name {
        Some(name) => vec![session.policy(name).await?],
        None => {
            let within = (!args.all_namespaces).then_some(session.namespace.as_str());
            session.policies(within).await?
        }
    };
    for policy in &policies {
        if let Some(behind) = behind(policy) {
            eprintln!("note: {behind}");
        }
    }
    if let Some(silent) = leader::silence(session).await {
        eprintln!("note: what is shown may be from before: {silent}");
    }
    let report = Report {
        targets: policies.iter().flat_map(rows).collect(),
    };
    match args.output {
        Some(TableFormat::Json) => output::machine(Format::Json, &report),
        Some(TableFormat::Yaml) => output::machine(Format::Yaml, &report),
        _ if report.targets.is_empty() => {
            let place = if args.all_namespaces {
                "in the cluster".to_owned()
            } else {
                format!("in namespace {}", session.namespace)
            };
            eprintln!("there are no policies {place}");
            output::ended(0)
        }
        format => {
            let look = Look {
                all: args.all_namespaces,
                wide: format == Some(TableFormat::Wide),
                coloured: is_coloured(),
                now: Timestamp::now(),
            };
            print::stdout(&render(&report.targets, &look))
        }
    }
}

/// That the operator has not come to what was written last, where that is so.
pub(crate) fn behind(policy: &Policy) -> Option<String> {
    let generation = policy.metadata.generation?;
    let observed = policy
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    let observed = observed.filter(|&observed| observed < generation)?;
    Some(format!(
        "{}: what is shown is of generation {observed}; the operator has not come to {generation}, which was written last",
        key(policy)
    ))
}

/// The rows of a policy: its targets as its spec names them, then what the status tells of others.
fn rows(policy: &Policy) -> Vec<Row> {
    let status = policy.status.clone().unwrap_or_default();
    let written = policy.spec["targets"].as_array().into_iter().flatten();
    let written: Vec<&str> = written.filter_map(|target| target["name"].as_str()).collect();
    let told = |name: &str| status.targets.iter().find(|target| target.name == name);
    let others = status.targets.iter().map(|target| target.name.as_str());
    let others = others.filter(|name| !written.contains(name));
    let names = written.iter().copied().chain(others);
    // What concerns the policy as a whole, where nothing is said of the target.
    let overall = status.summary.as_ref().and_then(|summary| summary.reason.clone());
    let overall = overall.unwrap_or_else(|| ConditionReason::Pending.as_str().to_owned());
    names
        .map(|name| row(policy, name, told(name).cloned().unwrap_or_default(), &overall))
        .collect()
}

fn row(policy: &Policy, target: &str, told: TargetStatus, overall: &str) -> Row {
    let policy = key(policy);
    let delay = told.delay.unwrap_or_default();
    let effect = told.effect.unwrap_or_default();
    Row {
        namespace: policy.namespace,
        policy: policy.name,
        target: target.to_owned(),
        hedging: told.state.as_deref().and_then(Hedging::of),
        delay: delay.applied,
        recommended: delay.recommended,
        limited_by: delay.limited_by,
        budget: told.budget.unwrap_or_default().percent,
        hedge_share: effect.hedge_share,
        win_share: effect.win_share,
        reason: Some(told.reason.unwrap_or_else(|| overall.to_owned())),
        message: told.message,
        since: told.history.into_iter().next().and_then(|change| change.time),
    }
}

/// How the table looks.
struct Look {
    all: bool,
    wide: bool,
    coloured: bool,
    now: Timestamp,
}

fn render(rows: &[Row], look: &Look) -> String {
    let mut header = vec![
        "POLICY", "TARGET", "HEDGING", "DELAY", "BUDGET", "HEDGED", "WINS", "REASON", "SINCE",
    ];
    if look.all {
        header.insert(0, "NAMESPACE");
    }
    if look.wide {
        header.extend(["ASKED", "LIMIT", "MESSAGE"]);
    }
    let mut table = output::table(&header, look.coloured);
    for row in rows {
        let is_off = row.hedging == Some(Hedging::No);
        let or =
            |value: &Option<String>, otherwise: &str| value.clone().unwrap_or_else(|| otherwise.to_owned());
        // A target that is off has no delay; of one that is on, or of which nothing is known, it is not known.
        let where_on = |value: &Option<String>| or(value, if is_off { NONE } else { UNKNOWN });
        let hedging = row.hedging.map_or(UNKNOWN, Hedging::as_str);
        let mut cells = vec![
            cell(&row.policy, None),
            cell(&row.target, None),
            cell(hedging, row.hedging.map(Hedging::color)),
            cell(&where_on(&row.delay), None),
            cell(&where_on(&row.budget), None),
            cell(&where_on(&row.hedge_share), None),
            cell(&where_on(&row.win_share), None),
            cell(&or(&row.reason, UNKNOWN), None),
            cell(
                &row.since
                    .as_ref()
                    .map_or_else(|| UNKNOWN.to_owned(), |since| age(since, look.now)),
                None,
            ),
        ];
        if look.all {
            cells.insert(0, cell(&row.namespace, None));
        }
        if look.wide {
            cells.push(cell(&or(&row.recommended, UNKNOWN), None));
            cells.push(cell(&or(&row.limited_by, NONE), None));
            cells.push(cell(&or(&row.message, NONE), None));
        }
        table.add_row(cells);
    }
    output::text(&table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{golden, policies};

    fn look(all: bool, wide: bool) -> Look {
        Look {
            all,
            wide,
            coloured: false,
            now: "2026-11-30T16:00:00Z".parse().unwrap(),
        }
    }

    fn all_rows() -> Vec<Row> {
        policies().iter().flat_map(rows).collect()
    }

    #[test]
    fn the_table_says_what_is_known_and_what_is_not() {
        golden("status.txt", &render(&all_rows(), &look(false, false)));
        golden("status-wide.txt", &render(&all_rows(), &look(true, true)));
    }

    #[test]
    fn for_programs_what_is_not_known_is_null() {
        let report = Report { targets: all_rows() };
        golden(
            "status.json",
            &(serde_json::to_string_pretty(&report).unwrap() + "\n"),
        );
    }

    #[test]
    fn colours_are_there_when_asked_for_alone() {
        let coloured = Look {
            coloured: true,
            ..look(false, false)
        };
        assert!(render(&all_rows(), &coloured).contains("\u{1b}["));
        assert!(!render(&all_rows(), &look(false, false)).contains('\u{1b}'));
    }

    #[test]
    fn a_status_of_an_older_generation_is_said_to_be_one() {
        let mut policy = policies().remove(0);
        assert_eq!(behind(&policy), None);
        policy.metadata.generation = Some(4);
        assert!(behind(&policy).unwrap().contains("has not come to 4"));
    }
}
