//! Where a run keeps its data and logs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, anyhow};

use crate::repository;

/// Held for as long as the process lives: says to later runs that its folder is in use.
struct Run {
    folder: PathBuf,
    _lock: File,
}

static RUN: OnceLock<Result<Run, String>> = OnceLock::new();

/// A new folder for `name`, in `target/e2e/run-PID/`.
///
/// A run's folder stays for people to look into until the next run begins, which removes the folders of runs that have ended.
///
/// # Errors
/// When it cannot be created.
pub fn scratch(name: &str) -> Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let run = RUN
        .get_or_init(|| begin_run().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|error| anyhow!("{error}"))?;
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = run.folder.join(format!("{count:03}-{name}"));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

fn begin_run() -> Result<Run> {
    let runs = target().join("e2e");
    fs::create_dir_all(&runs).with_context(|| format!("cannot create {}", runs.display()))?;
    remove_ended(&runs)?;
    let folder = runs.join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let lock = File::create(lock_file(&folder))?;
    lock.lock()?;
    Ok(Run { folder, _lock: lock })
}

/// Where Cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

fn lock_file(run: &Path) -> PathBuf {
    run.with_extension("lock")
}

/// Removes the folders whose lock nobody holds.
fn remove_ended(runs: &Path) -> Result<()> {
    for entry in fs::read_dir(runs)? {
        let folder = entry?.path();
        if !folder.is_dir() {
            continue;
        }
        let lock = lock_file(&folder);
        if File::create(&lock)?.try_lock().is_ok() {
            // Another run may be removing the same one: what is gone is gone.
            let _ = fs::remove_dir_all(&folder);
            let _ = fs::remove_file(&lock);
        }
    }
    Ok(())
}
