//! What the terminal shows.

use std::path::Path;

use hedgerow_stage::Expectation;
use indicatif::ProgressBar;

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
        Self {
            live: hedgerow_stage::spinner(),
        }
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
        let table = hedgerow_stage::table(expectations);
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
