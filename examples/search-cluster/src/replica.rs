//! One replica of one shard.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::latency;

/// Reads that one replica serves at a time; more of them wait in its queue.
const SLOTS: usize = 128;
/// How fast a replica works off its bulk jobs.
const BULK_JOB: Duration = Duration::from_millis(125);

/// One replica: a queue of reads, and one of bulk jobs that yield to them.
#[derive(Debug)]
pub(crate) struct Replica {
    /// The shard it holds, and which of that shard's replicas it is.
    pub shard: usize,
    /// See `shard`.
    pub replica: usize,
    slots: Semaphore,
    waiting: AtomicU64,
    bulk: AtomicU64,
    reads: AtomicU64,
    hedges: AtomicU64,
}

/// Counts one read as waiting for as long as it lives, also when its caller gives up and the read is dropped.
struct Waiting<'a>(&'a AtomicU64);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Replica {
    /// An idle replica.
    pub(crate) fn new(shard: usize, replica: usize) -> Self {
        Self {
            shard,
            replica,
            slots: Semaphore::new(SLOTS),
            waiting: AtomicU64::new(0),
            bulk: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            hedges: AtomicU64::new(0),
        }
    }

    /// Reads: waits for a slot, then as long as the disk takes, `factor` times the usual.
    pub(crate) async fn read(&self, hedge: bool, factor: f64) {
        self.reads.fetch_add(1, Relaxed);
        if hedge {
            self.hedges.fetch_add(1, Relaxed);
        }
        let waiting = Waiting::new(&self.waiting);
        let slot = self.slots.acquire().await;
        drop(waiting);
        let time = latency::draw(&mut rand::rng(), factor);
        sleep(time).await;
        drop(slot);
    }

    /// Queues bulk jobs (a reindexing): they do not slow reads down, but show that the replica has no capacity to spare.
    pub(crate) fn queue_bulk(&self, jobs: u64) {
        self.bulk.fetch_add(jobs, Relaxed);
    }

    /// Works off bulk jobs, for ever.
    pub(crate) async fn work_off_bulk(&self) {
        loop {
            sleep(BULK_JOB).await;
            // Only this task takes jobs away, so that there is still one when there was one.
            if self.bulk.load(Relaxed) > 0 {
                self.bulk.fetch_sub(1, Relaxed);
            }
        }
    }

    /// What waits: reads and bulk jobs.
    pub(crate) fn queue_depth(&self) -> u64 {
        self.waiting.load(Relaxed) + self.bulk.load(Relaxed)
    }

    /// Its series, by metric name.
    pub(crate) fn series(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([
            ("shard_queue_depth", self.queue_depth()),
            ("shard_reads_total", self.reads.load(Relaxed)),
            ("shard_hedged_reads_total", self.hedges.load(Relaxed)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_read_whose_caller_gives_up_leaves_the_queue() {
        let replica = Replica::new(0, 0);
        let busy: Vec<_> = (0..SLOTS).map(|_| replica.slots.try_acquire().unwrap()).collect();
        let read = tokio::time::timeout(Duration::from_secs(1), replica.read(false, 1.0));
        let (ended, ()) = tokio::join!(read, async {
            sleep(Duration::from_millis(500)).await;
            assert_eq!(replica.queue_depth(), 1);
        });
        assert!(ended.is_err());
        assert_eq!(replica.queue_depth(), 0);
        drop(busy);
    }

    #[tokio::test(start_paused = true)]
    async fn bulk_jobs_are_worked_off_at_eight_a_second() {
        let replica = Replica::new(0, 0);
        replica.queue_bulk(120);
        let _ = tokio::time::timeout(Duration::from_millis(10_050), replica.work_off_bulk()).await;
        assert_eq!(replica.queue_depth(), 40);
        let _ = tokio::time::timeout(Duration::from_secs(60), replica.work_off_bulk()).await;
        assert_eq!(replica.queue_depth(), 0);
    }
}
