//! Tables for people, on a terminal and in documents.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table};

use crate::figures::Figures;
use crate::play::{Played, Row, Stretch};
use crate::way::Way;

const COLUMNS: [&str; 11] = [
    "way",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "complete %",
    "late %",
    "attempts/call",
    "wins %",
    "losers live on ms",
    "server ms/call",
    "deepest queue",
];

/// What writes the text between the markers of a document.
type Section = fn(&[Played]) -> String;

/// The document with what matters most, and the one with everything.
const DOCUMENTS: [(&str, Section); 2] = [("README.md", summary), ("docs/measured.md", markdown)];

/// What stands around a generated table in a document.
const BEGIN: &str = "<!-- measured by `make measure` -->\n";
const END: &str = "<!-- end -->\n";

/// A case for a terminal.
pub(crate) fn terminal(played: &Played) -> String {
    let mut text = String::new();
    for stretch in &played.stretches {
        let mut table = Table::new();
        table
            .load_style(comfy_table::presets::UTF8_FULL_CONDENSED)
            .set_header(COLUMNS);
        for row in &stretch.ways {
            table.add_row(cells(row));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let queries = stretch.ways.first().map_or(0, |row| row.figures.queries);
        let _ = writeln!(text, "\n{}: {queries} queries\n{table}", title(played, stretch));
    }
    let said: Vec<_> = played.said.iter().map(String::as_str).collect();
    let _ = writeln!(text, "The operator said: {}", said.join(", "));
    text
}

/// Puts the tables into the documents of a clone.
///
/// # Errors
/// When a document cannot be read or written, or has no marks.
pub(crate) fn write(clone: &Path, cases: &[Played]) -> Result<()> {
    for (document, table) in DOCUMENTS {
        let file = clone.join(document);
        let before = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let after = put(&before, &table(cases)).with_context(|| file.display().to_string())?;
        fs::write(&file, after).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// What matters most, as a table in Markdown: a line for each case, and of each way three figures.
fn summary(cases: &[Played]) -> String {
    let ways = Way::ALL.map(Way::label).join(" | ");
    let mut text = format!("| | {ways} |\n|{}\n", " --- |".repeat(Way::ALL.len() + 1));
    for (played, stretch) in stretches(cases) {
        let of = |way| stretch.ways.iter().find(|row| row.way == way);
        let ways = Way::ALL.map(|way| of(way).map_or_else(|| "-".to_owned(), brief));
        let _ = writeln!(text, "| {} | {} |", title(played, stretch), ways.join(" | "));
    }
    text
}

/// Incomplete queries in %, p99 in ms and attempts per shard call.
fn brief(row: &Row) -> String {
    let Figures {
        complete_percent,
        p99_ms,
        attempts_per_call,
        ..
    } = row.figures;
    [
        number(complete_percent.map(|complete| 100.0 - complete), 1),
        number(p99_ms, 0),
        number(attempts_per_call, 3),
    ]
    .join(" · ")
}

/// Everything, as a table in Markdown.
pub(crate) fn markdown(cases: &[Played]) -> String {
    let mut text = format!(
        "| | {} |\n|{}\n",
        COLUMNS.join(" | "),
        " --- |".repeat(COLUMNS.len() + 1)
    );
    for (played, stretch) in stretches(cases) {
        for (place, row) in stretch.ways.iter().enumerate() {
            let name = if place == 0 {
                title(played, stretch)
            } else {
                String::new()
            };
            let _ = writeln!(text, "| {name} | {} |", cells(row).join(" | "));
        }
    }
    text
}

fn stretches(cases: &[Played]) -> impl Iterator<Item = (&Played, &Stretch)> {
    cases
        .iter()
        .flat_map(|played| played.stretches.iter().map(move |stretch| (played, stretch)))
}

/// Puts a table between the marks of a document.
///
/// # Errors
/// When the marks are not there.
fn put(document: &str, table: &str) -> Result<String> {
    let missing = || format!("the document has no lines {BEGIN:?} and {END:?}");
    let (before, rest) = document.split_once(BEGIN).with_context(missing)?;
    let (_, after) = rest.split_once(END).with_context(missing)?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

fn title(played: &Played, stretch: &Stretch) -> String {
    match stretch.title {
        "during" => played.scenario.name().to_owned(),
        _ => format!("{}, 30 s after", played.scenario.name()),
    }
}

fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let Figures {
        p50_ms,
        p99_ms,
        p999_ms,
        complete_percent,
        late_percent,
        attempts_per_call,
        win_percent,
        loser_survival_ms,
        busy_ms_per_call,
        deepest_queue,
        ..
    } = row.figures;
    [
        row.way.label().to_owned(),
        number(p50_ms, 0),
        number(p99_ms, 0),
        number(p999_ms, 0),
        number(complete_percent, 1),
        number(late_percent, 1),
        number(attempts_per_call, 3),
        number(win_percent, 0),
        number(loser_survival_ms, 1),
        number(busy_ms_per_call, 1),
        number(deepest_queue, 0),
    ]
}

/// What there is none of is no 0.
fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::play::Spent;
    use crate::scenario::Scenario;
    use crate::way::Way;

    #[test]
    fn a_table_replaces_what_stands_between_the_marks_and_nothing_else() {
        let document = format!("before\n{BEGIN}old\n{END}after\n");
        let put_once = put(&document, "| new |").unwrap();
        assert_eq!(put_once, format!("before\n{BEGIN}\n| new |\n{END}after\n"));
        assert_eq!(put(&put_once, "| new |").unwrap(), put_once);
        assert!(put("no marks", "| new |").is_err());
    }

    fn case(figures: Figures) -> Played {
        Played {
            scenario: Scenario::SlowReplica,
            stretches: vec![Stretch {
                title: "during",
                ways: vec![Row {
                    way: Way::Unhedged,
                    figures,
                }],
            }],
            said: ["Tuned".to_owned()].into(),
            hedging: true,
            ineffective: BTreeMap::new(),
            spent: Spent::of(&[]),
        }
    }

    #[test]
    fn a_row_shows_figures_and_a_dash_where_there_is_none() {
        let played = case(Figures {
            p50_ms: Some(431.6),
            attempts_per_call: Some(1.0),
            ..Figures::new(&[], &[])
        });
        let text = markdown(std::slice::from_ref(&played));
        assert!(
            text.ends_with("| slow-replica | unhedged | 432 | - | - | - | - | 1.000 | - | - | - | - |\n"),
            "{text}"
        );
        assert!(terminal(&played).contains("The operator said: Tuned"));
    }

    #[test]
    fn the_summary_shows_what_is_incomplete_the_latency_and_the_attempts_of_each_way() {
        let played = case(Figures {
            complete_percent: Some(74.3),
            p99_ms: Some(1016.8),
            attempts_per_call: Some(1.0),
            ..Figures::new(&[], &[])
        });
        let text = summary(&[played]);
        assert!(
            text.ends_with("| slow-replica | 25.7 · 1017 · 1.000 | - | - | - |\n"),
            "{text}"
        );
    }

    #[test]
    fn the_summary_of_the_readme_tells_of_the_same_run_as_the_whole_table() {
        let whole = rows(include_str!("../../../docs/measured.md"));
        let summary = rows(include_str!("../../../README.md"));
        let number = |text: &str| text.parse::<f64>().unwrap();
        let mut lines = whole.chunks(Way::ALL.len());
        for summary in &summary {
            let ways = lines.next().unwrap();
            assert_eq!(summary[0], ways[0][0]);
            for (brief, way) in summary[1..].iter().zip(ways) {
                let [incomplete, p99, attempts] = brief.split(" · ").collect::<Vec<_>>()[..] else {
                    panic!("{brief}");
                };
                assert_eq!((p99, attempts), (way[3], way[7]), "{way:?}");
                // Both were rounded.
                assert!(
                    (number(incomplete) + number(way[5]) - 100.0).abs() < 0.11,
                    "{way:?}"
                );
            }
        }
        assert!(!summary.is_empty() && lines.next().is_none());
    }

    /// The cells of the table between the marks, without its head.
    fn rows(document: &'static str) -> Vec<Vec<&'static str>> {
        let (_, rest) = document.split_once(BEGIN).unwrap();
        let (table, _) = rest.split_once(END).unwrap();
        let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect();
        table.trim().lines().skip(2).map(cells).collect()
    }
}
