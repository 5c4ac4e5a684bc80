//! Headless Chromium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::scratch;
use crate::scratch::target;

/// Longer than a page takes on a machine that is busy with other tests.
const SHOWN_WITHIN: Duration = Duration::from_secs(120);

/// A browser.
#[derive(Clone, Debug)]
pub struct Browser {
    program: PathBuf,
}

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// In pixels. Headless Chromium has no window narrower than 500.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Whether its reader likes dark pages.
    pub dark: bool,
}

impl Browser {
    /// The Chromium of this machine: what `CHROMIUM` names, or one on `PATH`. `None`, said aloud, where there is none.
    pub fn find() -> Option<Self> {
        let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
        let on_path = || {
            let folders = std::env::var_os("PATH")?;
            let names = [
                "chromium",
                "chromium-browser",
                "google-chrome",
                "google-chrome-stable",
            ];
            let programs =
                std::env::split_paths(&folders).flat_map(|folder| names.map(|name| folder.join(name)));
            programs.into_iter().find(|program| program.is_file())
        };
        let found = named.or_else(on_path).map(|program| Self { program });
        if found.is_none() {
            eprintln!(
                "SKIPPED: there is no Chromium to look at a page with; install one, or name it in CHROMIUM"
            );
        }
        found
    }

    /// A picture of the page at `url`, kept in `target/screenshots` until the next one of that name. Fails when the page
    /// asked for something that it may not have.
    ///
    /// # Errors
    /// When the browser does not start, or complains.
    pub fn picture(&self, name: &str, url: &str, look: Look) -> Result<PathBuf> {
        let folder = target().join("screenshots");
        fs::create_dir_all(&folder)?;
        let picture = fs::canonicalize(folder)?.join(format!("{name}.png"));
        let Look { width, height, dark } = look;
        let arguments = [
            format!("--screenshot={}", picture.display()),
            format!("--window-size={width},{height}"),
            // 0 is dark.
            format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)),
            "--hide-scrollbars".to_owned(),
            // Else a busy machine takes a picture of half a page.
            "--run-all-compositor-stages-before-draw".to_owned(),
        ];
        self.run(&arguments, url)?;
        Ok(picture)
    }

    /// What the page at `url` holds once it is shown, as HTML.
    ///
    /// # Errors
    /// When the browser does not start, or complains.
    pub fn content(&self, url: &str) -> Result<String> {
        let output = self.run(&["--dump-dom".to_owned()], url)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn run(&self, arguments: &[String], url: &str) -> Result<Output> {
        let profile = scratch("browser")?;
        let child = Command::new("timeout")
            .arg(SHOWN_WITHIN.as_secs().to_string())
            .arg(&self.program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--no-proxy-server",
                "--enable-logging=stderr",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(arguments)
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let output = child
            .and_then(std::process::Child::wait_with_output)
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "the browser ended with {}: {said}",
            output.status
        );
        let complaints: Vec<&str> = said.lines().filter(|line| line.contains(":CONSOLE")).collect();
        ensure!(
            complaints.is_empty(),
            "the page made the browser complain: {complaints:?}"
        );
        Ok(output)
    }
}

/// The URL of a file.
pub fn file_url(file: &Path) -> String {
    format!("file://{}", file.display())
}
