//! How long the losers of a race live on.
//!
//! All replicas are in one process, so it sees both attempts of a call: whatever the front end's way of hedging is, a
//! loser's life after the valid answer is measured here, where it costs something.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A call, as the servers see it: the query's number and the shard.
type Key = (u64, usize);

/// The calls that have attempts in flight, and what became of losers so far.
#[derive(Debug, Default)]
pub(crate) struct Races {
    open: Mutex<HashMap<Key, Race>>,
    losers: AtomicU64,
    survived_micros: AtomicU64,
}

#[derive(Debug, Default)]
struct Race {
    in_flight: u32,
    answered: Option<Instant>,
}

/// One attempt, in flight until it is dropped.
#[derive(Debug)]
pub(crate) struct Runner {
    races: Arc<Races>,
    key: Key,
    won: bool,
}

impl Races {
    /// An attempt of the call begins.
    pub(crate) fn enter(self: &Arc<Self>, query: u64, shard: usize) -> Runner {
        let key = (query, shard);
        self.lock().entry(key).or_default().in_flight += 1;
        Runner {
            races: Arc::clone(self),
            key,
            won: false,
        }
    }

    /// Attempts that ended after another one of their call had answered.
    pub(crate) fn losers(&self) -> u64 {
        self.losers.load(Relaxed)
    }

    /// How long they lived on, in all.
    pub(crate) fn survived(&self) -> Duration {
        Duration::from_micros(self.survived_micros.load(Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Race>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runner {
    /// It gives a valid answer: the first of a call to do so wins.
    pub(crate) fn answers(mut self) {
        let races = Arc::clone(&self.races);
        if let Some(race) = races.lock().get_mut(&self.key)
            && race.answered.is_none()
        {
            race.answered = Some(Instant::now());
            self.won = true;
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let mut open = self.races.lock();
        let Some(race) = open.get_mut(&self.key) else {
            return;
        };
        if let Some(answered) = race.answered.filter(|_| !self.won) {
            let survived = answered.elapsed().as_micros();
            self.races.losers.fetch_add(1, Relaxed);
            self.races
                .survived_micros
                .fetch_add(u64::try_from(survived).unwrap_or(u64::MAX), Relaxed);
        }
        race.in_flight -= 1;
        if race.in_flight == 0 {
            open.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn a_loser_lives_on_from_the_answer_to_its_own_end() {
        let races = Arc::new(Races::default());
        let (primary, hedge) = (races.enter(7, 0), races.enter(7, 0));
        advance(Duration::from_millis(100)).await;
        hedge.answers();
        advance(Duration::from_millis(30)).await;
        drop(primary);
        assert_eq!((races.losers(), races.survived()), (1, Duration::from_millis(30)));
        assert!(races.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_no_loser_without_an_answer_and_none_of_another_call() {
        let races = Arc::new(Races::default());
        let (cut, other) = (races.enter(7, 0), races.enter(7, 1));
        other.answers();
        advance(Duration::from_millis(30)).await;
        drop(cut);
        assert_eq!(races.losers(), 0);
        assert!(races.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_ended_before_the_answer_has_not_lived_on() {
        let races = Arc::new(Races::default());
        let (failed, hedge) = (races.enter(7, 0), races.enter(7, 0));
        drop(failed);
        advance(Duration::from_millis(30)).await;
        hedge.answers();
        assert_eq!(races.losers(), 0);
    }
}
