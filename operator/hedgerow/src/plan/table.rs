//! The report for people.

use std::fmt::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};

use super::report::{Report, Target};
use crate::words;

/// The report as text: one table of all targets, then each target with what it rests on.
pub(super) fn render(report: &Report) -> String {
    let mut text = format!("{}\n", summary(report).trim_fmt());
    for target in &report.targets {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{}", details(target));
    }
    text
}

fn summary(report: &Report) -> Table {
    let mut table = table(&["POLICY", "TARGET", "HEDGING", "DELAY", "BUDGET", "REASON"]);
    for target in &report.targets {
        table.add_row([
            target.policy.as_str(),
            &target.target,
            if target.enabled { "yes" } else { "no" },
            &or_dash(target.delay_ms.map(words::millis)),
            &or_dash(target.budget_percent.map(words::percent)),
            &target.reason,
        ]);
    }
    table
}

fn details(target: &Target) -> String {
    let mut text = format!("{} {}\n", target.policy, target.target);
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<12}{value}");
    };
    for step in &target.chain {
        line(&step.about, &step.text);
    }
    line("effect", &effect(target));
    for note in &target.notes {
        line("note", note);
    }
    for document in &target.documents {
        line(
            "document",
            &format!(
                "ConfigMap {}, key {}, format {}",
                document.config_map, document.key, document.format
            ),
        );
        if let Some(message) = &document.message {
            line("", &format!("problem: {message}"));
        }
        for content in document.content.iter().flat_map(|content| content.lines()) {
            line("", content);
        }
    }
    text
}

fn effect(target: &Target) -> String {
    let effect = &target.effect;
    match (effect.miss_share_unhedged, effect.miss_share_hedged) {
        (None, None) => format!(
            "hedges {} of calls",
            or_dash(effect.hedge_share.map(words::share))
        ),
        (unhedged, hedged) => format!(
            "hedges {} of calls; {} of queries miss the deadline{}, {} with hedging{} (independent attempts assumed)",
            or_dash(effect.hedge_share.map(words::share)),
            or_dash(unhedged.map(words::share)),
            known(effect.unhedged_basis.as_deref()),
            or_dash(hedged.map(words::share)),
            known(effect.hedged_basis.as_deref()),
        ),
    }
}

/// How a share is known: ` as measured`.
fn known(basis: Option<&str>) -> String {
    basis.map_or_else(String::new, |basis| format!(" as {}", basis.to_lowercase()))
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table
}
