//! How things are printed.

use std::io::IsTerminal;
use std::process::ExitCode;

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, Color, ContentArrangement, Table};
use hedgerow::exit::{Failure, Outcome};
use hedgerow::print;
use serde::Serialize;

use crate::cli::Format;

/// Prints for a program.
pub(crate) fn machine(format: Format, told: &impl Serialize) -> Outcome {
    let text = match format {
        Format::Json => serde_json::to_string_pretty(told)
            .map(|json| json + "\n")
            .map_err(Failure::failed)?,
        Format::Yaml => serde_saphyr::to_string(told).map_err(Failure::failed)?,
    };
    print::stdout(&text)
}

/// Ends with this code.
pub(crate) fn ended(code: u8) -> Outcome {
    Ok(ExitCode::from(code))
}

/// Whether the output is coloured: on a terminal, unless `NO_COLOR` is set to anything.
pub(crate) fn is_coloured() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !refused
}

/// A table without lines, for people and for `awk`.
pub(crate) fn table(header: &[&str], coloured: bool) -> Table {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    if coloured {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}

/// A table as text: no spaces around lines.
pub(crate) fn text(table: &Table) -> String {
    let trimmed = |line: String| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned() + "\n";
    table.lines().map(trimmed).collect()
}

/// A cell in a colour.
pub(crate) fn cell(text: &str, color: Option<Color>) -> Cell {
    let cell = Cell::new(text);
    match color {
        Some(color) => cell.fg(color),
        None => cell,
    }
}
