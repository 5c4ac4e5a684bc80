//! What the terminal shows.

use std::path::Path;
use std::time::Duration;

use comfy_table::{Cell, Color, Table};
use indicatif::{ProgressBar, ProgressStyle};

use crate::expect::Expectation;
use crate::record::Sample;
use crate::stage::Stage;

/// The terminal: headings that stay, and one live line under them. Where there is no terminal, only what stays.
#[derive(Debug)]
pub(crate) struct Show {
    live: ProgressBar,
}

impl Show {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let live = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {elapsed_precise} {msg}") {
            live.set_style(style);
        }
        live.enable_steady_tick(Duration::from_millis(200));
        Self { live }
    }

    /// A phase begins.
    pub(crate) fn phase(&self, title: &str, what: &str) {
        self.say(&format!("\n{title}\n  {what}"));
    }

    /// Something to remember.
    pub(crate) fn say(&self, text: &str) {
        if self.live.is_hidden() {
            println!("{text}");
        } else {
            self.live.println(text);
        }
    }

    /// What is so right now.
    pub(crate) fn now(&self, earlier: &Sample, now: &Sample) {
        let percent =
            |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |s| format!("{:.1} %", 100.0 * s));
        let delay = now
            .document
            .delay_ms
            .map_or_else(|| "off".to_owned(), |d| format!("{d:.0} ms"));
        self.live.set_message(format!(
            "delay {delay} (true p95 {:.0} ms)   budget {:.1} %   misses {}   extra reads {}   queue {:.0}",
            now.true_p95_ms,
            now.document.percent,
            percent(now.miss_share_since(earlier)),
            percent(now.hedge_share_since(earlier)),
            now.queue_depth.unwrap_or(f64::NAN),
        ));
    }

    /// What was expected and measured.
    pub(crate) fn table(&self, expectations: &[Expectation], report: &Path) {
        self.live.finish_and_clear();
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
        println!("\n{table}\nReport: {}", report.display());
    }

    /// How to reach what is left running.
    pub(crate) fn kept(&self, stage: &Stage) {
        println!("\nEverything is left running; Ctrl-C ends it.");
        for (what, how) in stage.ways_in() {
            println!("  {what:<14} {how}");
        }
    }
}
