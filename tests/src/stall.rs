//! How long the machine stood still.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(50);
/// Later than this a thread that only sleeps wakes up on no machine that gets on.
const LATE: Duration = Duration::from_millis(200);

/// Adds up the time in which this process was not run though it had something to do, since the machine was paused or is far too
/// busy. What is promised in seconds is promised of a machine that runs.
#[derive(Clone, Debug)]
pub struct Stalls {
    milliseconds: Arc<AtomicU64>,
}

impl Stalls {
    /// Looks from now on, until this value and its clones are dropped.
    pub fn watch() -> Self {
        let milliseconds = Arc::new(AtomicU64::new(0));
        let told = Arc::downgrade(&milliseconds);
        thread::spawn(move || {
            let mut last = Instant::now();
            while let Some(told) = told.upgrade() {
                thread::sleep(TICK);
                let late = last.elapsed().saturating_sub(TICK);
                last = Instant::now();
                if late > LATE {
                    let late = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                    told.fetch_add(late, Ordering::Relaxed);
                }
            }
        });
        Self { milliseconds }
    }

    /// All of it so far.
    pub fn total(&self) -> Duration {
        Duration::from_millis(self.milliseconds.load(Ordering::Relaxed))
    }
}
