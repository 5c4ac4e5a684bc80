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
            target.reason,
        ]);
    }
    table
}

fn details(target: &Target) -> String {
    let mut text = format!("{} {}\n", target.policy, target.target);
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "  {label:<12}{value}");
    };
    line("decision", format!("{}: {}", target.reason, target.message));
    line("delay", delay(target));
    line("latency", latency(target));
    for signal in &target.saturation {
        let value = match (signal.value, signal.off_above, &signal.reason) {
            (Some(value), Some(off_above), _) => {
                format!("{}, off above {}", words::number(value), words::number(off_above))
            }
            (Some(value), None, _) => if value > 0.0 { "firing" } else { "not firing" }.to_owned(),
            (None, ..) => unknown(signal.reason, signal.message.as_deref()),
        };
        let saturated = if signal.saturated { " (saturated)" } else { "" };
        line("saturation", format!("{}: {value}{saturated}", signal.name));
    }
    line("effect", effect(target));
    if let Some(doubt) = &target.low_confidence {
        line("confidence", format!("low: {doubt}"));
    }
    for document in &target.documents {
        line(
            "document",
            format!(
                "ConfigMap {}, key {}, format {}",
                document.config_map, document.key, document.format
            ),
        );
        for content in document.content.lines() {
            line("", content.to_owned());
        }
    }
    text
}

fn delay(target: &Target) -> String {
    let recommended = or_dash(target.recommended_ms.map(words::millis));
    let limited = target
        .limited_by
        .map_or_else(String::new, |limit| format!(", limited by {limit}"));
    format!(
        "{}; the percentile asks for {recommended}{limited}",
        or_dash(target.delay_ms.map(words::millis))
    )
}

fn latency(target: &Target) -> String {
    let latency = &target.latency;
    let figures = format!(
        "p50 {}, p95 {}, p99 {} from {} samples in {}",
        or_dash(latency.p50_ms.map(words::millis)),
        or_dash(latency.p95_ms.map(words::millis)),
        or_dash(latency.p99_ms.map(words::millis)),
        or_dash(latency.samples.map(words::number)),
        or_dash(latency.window.clone()),
    );
    match latency.reason {
        Some(_) => unknown(latency.reason, latency.message.as_deref()),
        None => figures,
    }
}

fn effect(target: &Target) -> String {
    let effect = &target.effect;
    match (effect.miss_share_unhedged, effect.miss_share_hedged) {
        (None, None) => format!(
            "hedges {} of calls",
            or_dash(effect.hedge_share.map(words::share))
        ),
        (unhedged, hedged) => format!(
            "hedges {} of calls; {} of queries miss the deadline, {} with hedging (independent attempts assumed)",
            or_dash(effect.hedge_share.map(words::share)),
            or_dash(unhedged.map(words::share)),
            or_dash(hedged.map(words::share)),
        ),
    }
}

fn unknown(reason: Option<&str>, message: Option<&str>) -> String {
    format!("unknown, {}: {}", reason.unwrap_or("-"), message.unwrap_or("-"))
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
