//! What must be shown, beside what was.

use comfy_table::{Cell, Color, Table};
use serde::Serialize;

/// One line of the closing table.
#[derive(Clone, Debug, Serialize)]
pub struct Expectation {
    /// The phase or case that it belongs to.
    pub phase: &'static str,
    /// What is measured, with its unit.
    pub what: &'static str,
    /// What theory or the design says, as people read it.
    pub expected: String,
    /// The range that counts as shown, both ends included.
    pub accepted: (f64, f64),
    /// What was measured; `None` when it never came.
    pub measured: Option<f64>,
    /// How many decimals to show.
    pub decimals: usize,
}

impl Expectation {
    /// Whether it was shown.
    pub fn holds(&self) -> bool {
        let (low, high) = self.accepted;
        self.measured.is_some_and(|value| (low..=high).contains(&value))
    }

    /// The measured value as people read it.
    pub fn shown(&self) -> String {
        self.measured.map_or_else(
            || "never".to_owned(),
            |value| format!("{value:.*}", self.decimals),
        )
    }
}

/// A table of expectations, with a verdict on each.
pub fn table(expectations: &[Expectation]) -> Table {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::UTF8_FULL_CONDENSED)
        .set_header(["Phase", "What", "Expected", "Accepted", "Measured", ""]);
    for e in expectations {
        let (verdict, colour) = if e.holds() {
            ("ok", Color::Green)
        } else {
            ("NOT AS EXPECTED", Color::Red)
        };
        let (low, high) = e.accepted;
        table.add_row([
            Cell::new(e.phase),
            Cell::new(e.what),
            Cell::new(&e.expected),
            Cell::new(format!("{low:.0$} to {high:.0$}", e.decimals)),
            Cell::new(e.shown()),
            Cell::new(verdict).fg(colour),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(measured: Option<f64>) -> Expectation {
        Expectation {
            phase: "tuned",
            what: "misses, %",
            expected: "0.80".into(),
            accepted: (0.0, 2.0),
            measured,
            decimals: 2,
        }
    }

    #[test]
    fn a_value_that_never_came_does_not_hold() {
        assert!(!measured(None).holds());
        assert_eq!(measured(None).shown(), "never");
    }

    #[test]
    fn a_value_holds_within_its_range_and_not_beyond() {
        assert!(measured(Some(2.0)).holds());
        assert!(!measured(Some(2.01)).holds());
        assert!(!measured(Some(f64::NAN)).holds());
        assert_eq!(measured(Some(0.804)).shown(), "0.80");
    }
}
