//! What the terminal shows while it runs: on standard error, so that a table or JSON can be piped on.

use indicatif::ProgressBar;

/// Headings that stay, and one live line under them. Where there is no terminal, only what stays.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self(hedgerow_stage::spinner())
    }

    /// Something to remember.
    pub(crate) fn say(&self, text: &str) {
        if self.0.is_hidden() {
            eprintln!("{text}");
        } else {
            self.0.println(text);
        }
    }

    /// What is so right now.
    pub(crate) fn now(&self, text: &str) {
        self.0.set_message(text.to_owned());
    }

    /// Nothing is going on any more.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}
