//! Whether the loops move: liveness.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A loop that has not moved for this long is stuck. Well above what one round of a sampler may take, and one request of a
/// writer.
const STUCK: Duration = Duration::from_secs(180);

tokio::task_local! {
    static OWN: Heartbeat;
}

/// The loop that this is called in moves, if it has a pulse: see [`Heartbeat::accompany`].
pub(crate) fn beat() {
    // Others than loops do the same things, and have no pulse.
    let _ = OWN.try_with(Heartbeat::beat);
}

/// When each loop moved last. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Heartbeats {
    beats: Arc<Mutex<BTreeMap<String, Instant>>>,
}

/// The pulse of one loop. A loop that ends as it should takes it away.
#[derive(Debug)]
pub struct Heartbeat {
    name: String,
    all: Heartbeats,
}

impl Heartbeats {
    /// The pulse of a loop.
    pub fn of(&self, name: impl Into<String>) -> Heartbeat {
        let heartbeat = Heartbeat {
            name: name.into(),
            all: self.clone(),
        };
        heartbeat.beat();
        heartbeat
    }

    /// The loops that are stuck.
    pub fn stuck(&self) -> Vec<String> {
        self.stuck_at(Instant::now())
    }

    fn stuck_at(&self, now: Instant) -> Vec<String> {
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let stuck = |beat: &Instant| now.saturating_duration_since(*beat) > STUCK;
        beats
            .iter()
            .filter(|(_, beat)| stuck(beat))
            .map(|(name, _)| name.clone())
            .collect()
    }
}

impl Heartbeat {
    /// The loop moves.
    pub fn beat(&self) {
        let mut beats = self.all.beats.lock().unwrap_or_else(PoisonError::into_inner);
        beats.insert(self.name.clone(), Instant::now());
    }

    /// Runs a loop that `beat`s wherever it is, however deep, so that one who waits within the bounds of what it does is
    /// not taken for stuck.
    pub async fn accompany<T>(self, its_loop: impl Future<Output = T>) -> T {
        OWN.scope(self, its_loop).await
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        let mut beats = self.all.beats.lock().unwrap_or_else(PoisonError::into_inner);
        beats.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_does_not_move_is_named() {
        let all = Heartbeats::default();
        let _idle = all.of("sampler default");
        let later = Instant::now() + STUCK + Duration::from_secs(1);
        assert!(all.stuck().is_empty());
        assert_eq!(all.stuck_at(later), ["sampler default"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_moves_as_long_as_what_it_does_ends() {
        let all = Heartbeats::default();
        let work = async {
            for _ in 0..10 {
                tokio::time::sleep(STUCK / 2).await;
                beat();
                assert!(all.stuck().is_empty());
            }
            tokio::time::sleep(STUCK + Duration::from_secs(1)).await;
            all.stuck()
        };
        assert_eq!(all.of("writer 0").accompany(work).await, ["writer 0"]);
        assert!(all.stuck().is_empty());
    }

    #[test]
    fn a_loop_that_ended_is_not_stuck() {
        let all = Heartbeats::default();
        drop(all.of("worker"));
        assert!(all.stuck_at(Instant::now() + STUCK * 2).is_empty());
    }
}
