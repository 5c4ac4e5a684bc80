//! The documentation says what the code says.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail as a test may")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use hedgerow_api::preset::{KnownValue, LATENCY, LatencyPreset, SIGNALS, SignalPreset};
use hedgerow_api::{ConditionReason, ConditionType, Measures};
use hedgerow_tuner::{DiagnosisReason, LimitedBy, Reason, UnknownReason};

fn page(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(page(name)).unwrap()
}

/// The names in the first column of the table under a heading; each row has all its cells.
fn rows_under(heading: &str) -> BTreeSet<String> {
    let text = text("reasons.md");
    let (_, rest) = text.split_once(&format!("## {heading}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert!(
            cells.len() == 3 && cells.iter().all(|cell| !cell.trim().is_empty()),
            "{row}"
        );
        cells[0].trim().trim_matches('`').to_owned()
    })
    .collect()
}

fn names<T>(all: &[T], name: impl Fn(&T) -> &'static str) -> BTreeSet<String> {
    all.iter().map(|one| name(one).to_owned()).collect()
}

#[test]
fn every_reason_has_its_row_and_no_row_is_of_another_time() {
    let decided = rows_under("Why hedging is as it is");
    assert_eq!(decided, names(Reason::ALL, |reason| reason.as_str()));
    let unknown = rows_under("Why a reading is not a number");
    assert_eq!(unknown, names(UnknownReason::ALL, |reason| reason.as_str()));
    let diagnosed = rows_under("What makes hedging pay less than it could");
    assert_eq!(diagnosed, names(DiagnosisReason::ALL, |reason| reason.as_str()));
    let limited = rows_under("What keeps the delay from the one that the percentile asks for");
    assert_eq!(limited, names(LimitedBy::ALL, |limit| limit.as_str()));
    let others = rows_under("Other reasons of conditions");
    assert_eq!(others, names(ConditionReason::ALL, |reason| reason.as_str()));
    let conditions = rows_under("Conditions");
    assert_eq!(
        conditions,
        names(ConditionType::ALL, |condition| condition.as_str())
    );
}

#[test]
fn presets_are_told_as_they_are() {
    let told = presets_page();
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        std::fs::write(page("presets.md"), &told).unwrap();
    }
    assert!(
        text("presets.md") == told,
        "docs/presets.md is not what the presets say; mend it with\n    \
         HEDGEROW_BLESS=1 cargo test -p hedgerow --test docs"
    );
}

fn presets_page() -> String {
    let mut page = String::from(
        "# Presets\n\n<!-- Written by the tests from operator/api/src/preset: edit the presets, not this page. -->\n\n\
         A preset is a metric that needs only be named. It fixes the metric, its unit, what it measures and its outcomes, and pins\n\
         labels; `matchLabels` says which of its series are meant. `hedgerow plan` says when a metric that you named by hand has one.\n\n\
         ## Latency\n\n`latency: { preset: GrpcClient, matchLabels: { grpc_method: search.Shard/Read } }`\n\n",
    );
    table(
        &mut page,
        &["preset", "metric", "measures", "of"],
        LATENCY.iter().map(latency_row),
    );
    for preset in LATENCY {
        traps(&mut page, preset.name, latency_facts(preset), preset.traps);
    }
    page.push_str("\n## Saturation\n\n`signals: [{ name: cpu, preset: CpuThrottling, matchLabels: { container: kb } }]`\n\n");
    table(
        &mut page,
        &["preset", "compared with the line", "line", "of"],
        SIGNALS.iter().map(signal_row),
    );
    for preset in SIGNALS {
        traps(&mut page, preset.name, pinned(preset.labels), preset.traps);
    }
    page
}

fn table(page: &mut String, header: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let header: Vec<String> = header.iter().map(|&cell| cell.to_owned()).collect();
    page.push_str(&line(&header));
    page.push_str(&line(&vec!["---".to_owned(); header.len()]));
    for row in rows {
        page.push_str(&line(&row));
    }
}

fn latency_row(preset: &LatencyPreset) -> Vec<String> {
    let measures = match preset.measures {
        Measures::LogicalCall => "LogicalCall",
        Measures::Attempt => "Attempt",
        Measures::Server => "Server",
    };
    vec![
        format!("`{}`", preset.name),
        format!("`{}` ({:?})", preset.metric, preset.unit),
        measures.to_owned(),
        preset.about.to_owned(),
    ]
}

fn signal_row(preset: &SignalPreset) -> Vec<String> {
    let compared = match preset.value {
        KnownValue::Gauge(metric) => format!("`{metric}`"),
        KnownValue::Share { of, per } => format!("`{of}` per `{per}`"),
    };
    let name = format!("`{}`", preset.name);
    vec![
        name,
        compared,
        preset.off_above.to_owned(),
        preset.about.to_owned(),
    ]
}

fn latency_facts(preset: &LatencyPreset) -> Vec<String> {
    let mut facts = pinned(preset.labels);
    if preset.at_server {
        facts.push("Measured at the server's end: it needs `delay.add` or `hedging`.".to_owned());
    }
    if let Some(outcomes) = &preset.outcomes {
        let list = |values: &[&str]| {
            values
                .iter()
                .map(|value| format!("`{value}`"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let cut_short = match outcomes.cancelled {
            [] => String::new(),
            cancelled => format!("cut short: {}; ", list(cancelled)),
        };
        facts.push(format!(
            "By `{}`, {cut_short}not counted: {}.",
            outcomes.label,
            list(outcomes.ignored)
        ));
    }
    if let Some(timeouts) = preset.timeouts {
        facts.push(format!("Timeouts: `{timeouts}`."));
    }
    if let Some(hedging) = &preset.hedging {
        facts.push(format!(
            "Counters of hedges, unless `hedging` says others: `{}`, `{}`, `{}`, `{}`.",
            hedging.calls, hedging.hedges, hedging.blocked, hedging.wins
        ));
    }
    facts
}

fn pinned(labels: &[(&str, &str)]) -> Vec<String> {
    let pinned = labels
        .iter()
        .map(|(label, value)| format!("Pinned: `{label}=\"{value}\"`."));
    pinned.collect()
}

fn traps(page: &mut String, name: &str, facts: Vec<String>, traps: &[&str]) {
    writeln!(page, "\n**{name}**\n").unwrap();
    for line in facts.iter().map(String::as_str).chain(traps.iter().copied()) {
        writeln!(page, "- {line}").unwrap();
    }
}
