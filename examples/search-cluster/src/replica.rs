//! One replica of one shard.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::counts::{Busy, Waiting};
use crate::disturb::{Behaviour, Disturbance, Disturbed};
use crate::latency;
use crate::races::Races;

/// How fast a replica works off its bulk jobs.
const BULK_JOB: Duration = Duration::from_millis(125);
/// The version of the data that a replica serves, unless it is stale.
pub(crate) const CURRENT_VERSION: u64 = 2;

/// One replica: a queue of reads, and one of bulk jobs that yield to them.
#[derive(Debug)]
pub(crate) struct Replica {
    /// The shard it holds, and which of that shard's replicas it is.
    pub shard: usize,
    /// See `shard`.
    pub replica: usize,
    seed: u64,
    slots: Semaphore,
    races: Arc<Races>,
    disturbed: Disturbed,
    waiting: AtomicU64,
    bulk: AtomicU64,
    reads: AtomicU64,
    hedges: AtomicU64,
    busy_micros: AtomicU64,
}

/// What replicas have in common.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    /// Reads that one replica serves at a time; more of them wait in its queue.
    pub slots: usize,
    /// Two runs with one seed serve the same query in the same time.
    pub seed: u64,
    /// The races that their reads are in.
    pub races: Arc<Races>,
}

/// What a read asks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Read {
    /// The number of the query that it is for; unknown for one sent by hand.
    pub query: Option<u64>,
    /// Whether it is a hedge.
    pub hedge: bool,
}

/// What a read answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The section, of this version.
    Section(u64),
    /// It does not serve now.
    Unavailable,
}

impl Replica {
    /// An idle replica.
    pub(crate) fn new(shard: usize, replica: usize, common: &Common) -> Self {
        Self {
            shard,
            replica,
            seed: common.seed,
            slots: Semaphore::new(common.slots),
            races: Arc::clone(&common.races),
            disturbed: Disturbed::default(),
            waiting: AtomicU64::new(0),
            bulk: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            hedges: AtomicU64::new(0),
            busy_micros: AtomicU64::new(0),
        }
    }

    /// Reads. When the returned future is dropped the read ends at once, unless the replica runs on.
    pub(crate) async fn read(self: Arc<Self>, read: Read) -> Answer {
        if !self.disturbed.now().runs_on {
            return self.serve(read).await;
        }
        // A dropped handle leaves its task running.
        tokio::spawn(async move { self.serve(read).await })
            .await
            .unwrap_or(Answer::Unavailable)
    }

    /// Waits for a slot, then as long as the disk takes.
    async fn serve(&self, read: Read) -> Answer {
        self.reads.fetch_add(1, Relaxed);
        if read.hedge {
            self.hedges.fetch_add(1, Relaxed);
        }
        let runner = read.query.map(|query| self.races.enter(query, self.shard));
        if self.disturbed.now().failing {
            return Answer::Unavailable;
        }
        let waiting = Waiting::new(&self.waiting);
        let slot = self.slots.acquire().await;
        drop(waiting);
        let busy = Busy::new(&self.busy_micros);
        let behaviour = self.disturbed.goes_on().await;
        sleep(self.time(read.query, &behaviour)).await;
        drop(busy);
        drop(slot);
        if behaviour.stale {
            return Answer::Section(CURRENT_VERSION - 1);
        }
        if let Some(runner) = runner {
            runner.answers();
        }
        Answer::Section(CURRENT_VERSION)
    }

    /// How long a read takes: for a numbered query the same in every run with this seed, whoever asks and when.
    fn time(&self, query: Option<u64>, behaviour: &Behaviour) -> Duration {
        let factor = behaviour.latency * if behaviour.stale { 0.1 } else { 1.0 };
        let Some(query) = query else {
            return latency::draw(&mut rand::rng(), factor);
        };
        let mut hasher = DefaultHasher::new();
        (self.seed, self.shard, self.replica, query).hash(&mut hasher);
        latency::draw(&mut StdRng::seed_from_u64(hasher.finish()), factor)
    }

    /// Changes how it behaves; bulk jobs (a reindexing) are queued: they do not slow reads down, but show that the
    /// replica has no capacity to spare.
    pub(crate) fn disturb(&self, wanted: &Disturbance) {
        self.disturbed.change(wanted);
        self.bulk
            .fetch_add(wanted.bulk.unwrap_or(0).min(100_000), Relaxed);
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

    /// Its series: name, kind and value.
    pub(crate) fn series(&self) -> [(&'static str, &'static str, f64); 4] {
        let busy = Duration::from_micros(self.busy_micros.load(Relaxed));
        [
            ("shard_queue_depth", "gauge", self.queue_depth() as f64),
            ("shard_reads_total", "counter", self.reads.load(Relaxed) as f64),
            (
                "shard_hedged_reads_total",
                "counter",
                self.hedges.load(Relaxed) as f64,
            ),
            ("shard_busy_seconds_total", "counter", busy.as_secs_f64()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    const SLOTS: usize = 3;

    fn replica() -> Arc<Replica> {
        let common = Common {
            slots: SLOTS,
            seed: 1,
            races: Arc::default(),
        };
        Arc::new(Replica::new(0, 0, &common))
    }

    fn usual() -> Behaviour {
        Disturbed::default().now()
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_whose_caller_gives_up_leaves_the_queue() {
        let replica = replica();
        let busy: Vec<_> = (0..SLOTS).map(|_| replica.slots.try_acquire().unwrap()).collect();
        let read = tokio::time::timeout(Duration::from_secs(1), Arc::clone(&replica).read(Read::default()));
        let (ended, ()) = tokio::join!(read, async {
            sleep(Duration::from_millis(500)).await;
            assert_eq!(replica.queue_depth(), 1);
        });
        assert!(ended.is_err());
        assert_eq!(replica.queue_depth(), 0);
        drop(busy);
    }

    /// The read given up after 1 ms, and how long the replica was busy with it in all.
    async fn busy_after_giving_up(runs_on: bool) -> Duration {
        let replica = replica();
        replica.disturb(&Disturbance {
            runs_on: Some(runs_on),
            ..Disturbance::default()
        });
        let read = Read {
            query: Some(5),
            hedge: false,
        };
        let given_up = tokio::time::timeout(Duration::from_millis(1), Arc::clone(&replica).read(read)).await;
        assert!(given_up.is_err());
        sleep(Duration::from_secs(10)).await;
        Duration::from_micros(replica.busy_micros.load(Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_runs_on_does_all_of_the_work_for_nobody() {
        let whole = replica().time(Some(5), &usual());
        assert!(busy_after_giving_up(false).await < Duration::from_millis(5));
        assert!(busy_after_giving_up(true).await >= whole);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stale_replica_answers_early_with_the_old_version_and_a_failing_one_at_once() {
        let replica = replica();
        let read = async |wanted: Disturbance| {
            replica.disturb(&wanted);
            let began = Instant::now();
            let answer = Arc::clone(&replica)
                .read(Read {
                    query: Some(5),
                    hedge: false,
                })
                .await;
            (answer, began.elapsed())
        };
        let (answer, fresh) = read(Disturbance::default()).await;
        assert_eq!(answer, Answer::Section(2));
        let (answer, stale) = read(Disturbance {
            stale: Some(true),
            ..Disturbance::default()
        })
        .await;
        assert_eq!(answer, Answer::Section(1));
        assert!(stale < fresh / 5, "{stale:?} {fresh:?}");
        let (answer, failed) = read(Disturbance {
            failing: Some(true),
            ..Disturbance::default()
        })
        .await;
        assert_eq!((answer, failed), (Answer::Unavailable, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_stands_still_reads_when_it_goes_on() {
        let replica = replica();
        let stalled = |stalled| Disturbance {
            stalled: Some(stalled),
            ..Disturbance::default()
        };
        replica.disturb(&stalled(true));
        let (whole, began) = (replica.time(Some(5), &usual()), Instant::now());
        let read = Read {
            query: Some(5),
            hedge: false,
        };
        let stall = Duration::from_millis(250);
        let (answer, ()) = tokio::join!(Arc::clone(&replica).read(read), async {
            sleep(stall).await;
            replica.disturb(&stalled(false));
        });
        assert_eq!(answer, Answer::Section(CURRENT_VERSION));
        // The clock of timers goes by milliseconds.
        assert!(
            began.elapsed() >= stall + whole && began.elapsed() < stall + whole + Duration::from_millis(3)
        );
    }

    #[test]
    fn a_query_takes_the_same_time_in_every_run_of_a_seed_and_another_at_another_replica() {
        let of = |seed, number| {
            let common = Common {
                slots: 1,
                seed,
                races: Arc::default(),
            };
            Replica::new(0, number, &common).time(Some(5), &usual())
        };
        assert_eq!(of(1, 0), of(1, 0));
        assert_ne!(of(1, 0), of(1, 1));
        assert_ne!(of(1, 0), of(2, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn bulk_jobs_are_worked_off_at_eight_a_second() {
        let replica = replica();
        replica.disturb(&Disturbance {
            bulk: Some(120),
            ..Disturbance::default()
        });
        let _ = tokio::time::timeout(Duration::from_millis(10_050), replica.work_off_bulk()).await;
        assert_eq!(replica.queue_depth(), 40);
        let _ = tokio::time::timeout(Duration::from_secs(60), replica.work_off_bulk()).await;
        assert_eq!(replica.queue_depth(), 0);
    }
}
