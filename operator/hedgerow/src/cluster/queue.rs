//! The one queue of writes.
//!
//! A policy stands in it at most once for its documents and once for the rest, so it is as long as there are policies,
//! however often they change. What is popped is worked on by one worker at a time per policy; a failure backs off these
//! documents, or this rest, alone.

mod bucket;
mod core;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

pub(super) use self::bucket::Bucket;
use self::core::{Core, Next};
use super::name::PolicyKey;

/// What is written first. Earlier lanes go before later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Documents that move in the safe direction: off, smaller budgets.
    Safe,
    /// Other documents.
    Document,
    /// Renewals, status, events.
    Rest,
}

impl Lane {
    /// Every lane, the first one first.
    pub const ALL: [Self; 3] = [Self::Safe, Self::Document, Self::Rest];

    /// Its name as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Document => "document",
            Self::Rest => "rest",
        }
    }
}

/// One policy to write for. Hand it to [`WriteQueue::finish`] when done: until then nobody else gets this policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a policy that is not finished is never popped again"]
pub struct Work {
    /// Whose documents or status.
    pub policy: PolicyKey,
    /// Which of them: all documents (`Safe` and `Document`), or the rest.
    pub lane: Lane,
}

/// How a piece of work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should; its back-off is forgotten.
    Done,
    /// To be tried again, after 0.5 s, doubling with each failure of the same part of this policy up to 60 s, with jitter.
    Retry,
}

/// So many policies of one namespace are worked on at once, so that a namespace where every write waits for its timeout (a
/// webhook that hangs, say) leaves writers to the others.
pub(crate) const PER_NAMESPACE: usize = 4;

/// What somebody who pops is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Every lane.
    All,
    /// [`Lane::Safe`] alone, so that there is somebody for it whatever the others wait for.
    Safe,
}

impl Writes {
    fn last_lane(self) -> Lane {
        match self {
            Self::All => Lane::Rest,
            Self::Safe => Lane::Safe,
        }
    }
}

/// How many pieces of work are popped. [`Lane::Safe`] does not wait for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteRate {
    /// A second, in the long run; above 0.
    pub per_second: f64,
    /// At once, after a pause; at least 1.
    pub burst: f64,
}

impl Default for WriteRate {
    fn default() -> Self {
        Self {
            per_second: 20.0,
            burst: 40.0,
        }
    }
}

/// The one queue of writes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WriteQueue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    core: Mutex<Core>,
    /// Who waits, apart by what they are there for: who cannot use a call must not swallow it.
    for_all: Notify,
    for_safe: Notify,
}

impl Inner {
    fn woken(&self, writes: Writes) -> &Notify {
        match writes {
            Writes::All => &self.for_all,
            Writes::Safe => &self.for_safe,
        }
    }

    /// Wakes one of each, who wakes the next of its kind when there was something.
    fn wake(&self) {
        self.for_all.notify_one();
        self.for_safe.notify_one();
    }
}

impl WriteQueue {
    /// An empty queue. The rate counts in the order of lanes: whenever there is room for one more write, the first
    /// lane that has something gets it; [`Lane::Safe`] never waits for room.
    pub fn new(rate: WriteRate) -> Self {
        Self {
            inner: Arc::new(Inner {
                core: Mutex::new(Core::new(rate, Instant::now().into_std())),
                for_all: Notify::new(),
                for_safe: Notify::new(),
            }),
        }
    }

    /// Asks for a write. A policy that already waits in a later document lane moves up; one that backs off after an
    /// error is tried at once when the safe direction calls.
    pub fn push(&self, policy: PolicyKey, lane: Lane) {
        self.core().push(policy, lane);
        self.inner.wake();
    }

    /// Waits for the next piece of work. Safe to cancel. Several workers may wait.
    pub async fn pop(&self, writes: Writes) -> Work {
        let woken = self.inner.woken(writes);
        loop {
            let next = self.core().pop(writes, Instant::now().into_std());
            match next {
                Next::Work(work) => {
                    // There may be more: wake another worker, which wakes the next.
                    self.inner.wake();
                    return work;
                }
                Next::At(due) => tokio::select! {
                    () = woken.notified() => {}
                    () = sleep_until(Instant::from_std(due)) => {}
                },
                Next::Idle => woken.notified().await,
            }
        }
    }

    /// Ends a piece of work.
    pub fn finish(&self, work: &Work, outcome: Outcome) {
        let jitter = rand::rng().random_range(0.75..1.25);
        self.core()
            .finish(work, outcome, jitter, Instant::now().into_std());
        self.inner.wake();
    }

    /// Forgets what waits, for a process that no longer leads; what is being worked on goes on until it is finished.
    pub fn clear(&self) {
        self.core().clear();
    }

    /// How many pieces of work wait in a lane, those that back off included.
    pub fn waiting(&self, lane: Lane) -> usize {
        self.core().waiting(lane)
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.inner.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn policy(name: &str) -> PolicyKey {
        PolicyKey::new("helpdesk", name)
    }

    #[tokio::test(start_paused = true)]
    async fn pop_waits_for_a_push() {
        let queue = WriteQueue::new(WriteRate::default());
        let worker = tokio::spawn({
            let queue = queue.clone();
            async move { queue.pop(Writes::All).await }
        });
        tokio::task::yield_now().await;
        queue.push(policy("a"), Lane::Rest);
        assert_eq!(worker.await.unwrap().policy, policy("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn every_waiting_worker_gets_work_of_one_burst() {
        let queue = WriteQueue::new(WriteRate::default());
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.pop(Writes::All).await })
            })
            .collect();
        tokio::task::yield_now().await;
        for name in ["a", "b", "c"] {
            queue.push(policy(name), Lane::Document);
        }
        let mut names = Vec::new();
        for worker in workers {
            names.push(worker.await.unwrap().policy.name);
        }
        names.sort();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_there_for_the_safe_lane_is_woken_for_it_and_takes_no_call_from_the_others() {
        let queue = WriteQueue::new(WriteRate::default());
        let writer = |writes| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.pop(writes).await.policy })
        };
        let (safe, all) = (writer(Writes::Safe), writer(Writes::All));
        tokio::task::yield_now().await;
        queue.push(policy("a"), Lane::Document);
        assert_eq!(all.await.unwrap(), policy("a"));
        queue.push(policy("off"), Lane::Safe);
        assert_eq!(safe.await.unwrap(), policy("off"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_comes_back_after_its_back_off() {
        let queue = WriteQueue::new(WriteRate::default());
        queue.push(policy("a"), Lane::Document);
        let work = queue.pop(Writes::All).await;
        let begun = Instant::now();
        queue.finish(&work, Outcome::Retry);
        assert_eq!(queue.pop(Writes::All).await, work);
        let waited = begun.elapsed();
        assert!(
            waited >= Duration::from_millis(375) && waited <= Duration::from_millis(626),
            "{waited:?}"
        );
    }
}
