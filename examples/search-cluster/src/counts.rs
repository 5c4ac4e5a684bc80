//! Counts that are right also when a read is dropped in the middle.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::time::Instant;

/// Counts one read as waiting for as long as it lives, also when its caller gives up and the read is dropped.
pub(crate) struct Waiting<'a>(&'a AtomicU64);

impl<'a> Waiting<'a> {
    /// It begins to wait.
    pub(crate) fn new(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Counts the time for which a read held its slot, also when it is dropped.
pub(crate) struct Busy<'a> {
    micros: &'a AtomicU64,
    since: Instant,
}

impl<'a> Busy<'a> {
    /// It takes its slot.
    pub(crate) fn new(micros: &'a AtomicU64) -> Self {
        Self {
            micros,
            since: Instant::now(),
        }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let micros = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Relaxed);
    }
}
