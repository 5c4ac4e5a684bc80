//! The table.

use std::fmt::Write as _;

use crate::figures::Figures;
use crate::timeline::STRETCHES;
use crate::way::Way;

/// In Markdown: of each stretch the median and the 99th percentile, in ms.
pub(crate) fn markdown(rows: &[(Way, Figures)]) -> String {
    let stretches = STRETCHES.map(|(name, _)| name).join(" | ");
    let mut text = format!(
        "| p50 · p99, ms | {stretches} | back after s | attempts/call |\n|{}\n",
        " --- |".repeat(7)
    );
    for (way, figures) in rows {
        let cells: Vec<_> = figures
            .stretches
            .iter()
            .map(|[p50, p99]| format!("{:.0} · {:.0}", 1000.0 * p50, 1000.0 * p99))
            .collect();
        let back = figures
            .back_after
            .map_or_else(|| "not in 180".to_owned(), |after| format!("{after:.0}"));
        let _ = writeln!(
            text,
            "| {} | {} | {back} | {:.3} |",
            way.label(),
            cells.join(" | "),
            figures.attempts_per_call
        );
    }
    text
}
