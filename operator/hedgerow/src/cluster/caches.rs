//! Whether what is known of the cluster is complete, and new enough to act on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hedgerow_tuner::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::lease::Leadership;
use crate::words;

/// A watch that does not work for this long is told. Connections break all the time, and are there again in a moment.
const WORTH_TELLING: Duration = Duration::from_secs(60);

/// The state of all watches.
#[derive(Clone, Debug)]
pub struct Caches {
    states: Arc<Mutex<Vec<State>>>,
    changed: Arc<watch::Sender<()>>,
}

/// What is watched, and how that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// For people: the kind.
    pub what: &'static str,
    /// Where; empty for all of the cluster.
    pub namespace: String,
    /// When the API server last answered as it should; `None` before the first time.
    pub worked_at: Option<Timestamp>,
    /// Why it does not work at the moment.
    pub error: Option<String>,
}

#[derive(Debug)]
struct State {
    watched: Watched,
    /// The term in which its last complete list was asked for; `None` before the first list.
    listed: Option<u64>,
    /// Since when it does not work.
    failing_since: Option<Instant>,
    told: bool,
}

/// Something that people should be told of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It has not worked for a while.
    Fails,
    /// It was told that it does not work, and it does again.
    Works,
}

/// The place of one watch in [`Caches`].
#[derive(Debug)]
pub(crate) struct CacheSlot {
    caches: Caches,
    index: usize,
}

impl Watched {
    /// Its name for people.
    pub fn name(&self) -> String {
        if self.namespace.is_empty() {
            self.what.to_owned()
        } else {
            format!("{} in {}", self.what, self.namespace)
        }
    }
}

impl Default for Caches {
    fn default() -> Self {
        Self {
            states: Arc::default(),
            changed: Arc::new(watch::Sender::new(())),
        }
    }
}

impl Caches {
    /// What is not complete yet, and why, for people; empty when every watch has listed all there is.
    pub fn missing(&self) -> Vec<String> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = states.iter().filter(|state| state.listed.is_none());
        missing
            .map(|state| match &state.watched.error {
                Some(error) => format!("{}: {error}", state.watched.name()),
                None => format!("{}: not listed yet", state.watched.name()),
            })
            .collect()
    }

    /// Every watch.
    pub fn watched(&self) -> Vec<Watched> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.iter().map(|state| state.watched.clone()).collect()
    }

    /// Whether every watch has listed all there is: the operator is ready.
    pub fn synced(&self) -> bool {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.iter().all(|state| state.listed.is_some())
    }

    /// Whether this process leads, and every cache reached a list that was asked for after it won the lease.
    pub(super) fn may_act(&self, leadership: Leadership) -> bool {
        let Leadership::Leading { term } = leadership else {
            return false;
        };
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states
            .iter()
            .all(|state| state.listed.is_some_and(|listed| listed >= term))
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Adds a watch, which counts as incomplete until it has listed.
    pub(crate) fn slot(&self, what: &'static str, namespace: Option<&str>) -> CacheSlot {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.push(State {
            watched: Watched {
                what,
                namespace: namespace.unwrap_or_default().to_owned(),
                worked_at: None,
                error: None,
            },
            listed: None,
            failing_since: None,
            told: false,
        });
        CacheSlot {
            caches: self.clone(),
            index: states.len() - 1,
        }
    }
}

impl CacheSlot {
    /// A list that was asked for in `term` is complete.
    pub(super) fn listed(&self, term: u64) -> Option<News> {
        let news = self.update(|state| {
            state.listed = Some(term);
            state.works()
        });
        self.caches.changed.send_replace(());
        news
    }

    /// The API server answered as it should.
    pub(crate) fn works(&self) -> Option<News> {
        self.update(State::works)
    }

    /// The watch failed; it will be tried again.
    pub(crate) fn failed(&self, error: String) -> Option<News> {
        self.update(|state| state.failed(error))
    }

    /// Nothing is answered until a person mends it: it counts as incomplete until it is listed again.
    pub(super) fn denied(&self, error: String) -> Option<News> {
        let news = self.update(|state| {
            state.listed = None;
            state.failed(error)
        });
        self.caches.changed.send_replace(());
        news
    }

    fn update(&self, change: impl FnOnce(&mut State) -> Option<News>) -> Option<News> {
        let mut states = self.caches.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.get_mut(self.index).and_then(change)
    }
}

impl State {
    fn works(&mut self) -> Option<News> {
        self.watched.worked_at = Some(words::now());
        self.watched.error = None;
        self.failing_since = None;
        std::mem::take(&mut self.told).then_some(News::Works)
    }

    fn failed(&mut self, error: String) -> Option<News> {
        self.watched.error = Some(error);
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if self.told || since.elapsed() < WORTH_TELLING {
            return None;
        }
        self.told = true;
        Some(News::Fails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_TERM: Leadership = Leadership::Leading { term: 2 };

    #[test]
    fn ready_once_every_watch_has_listed() {
        let caches = Caches::default();
        let (a, b) = (caches.slot("a", None), caches.slot("b", Some("shop")));
        a.listed(0);
        assert!(!caches.synced());
        b.failed("forbidden".into());
        assert_eq!(caches.missing(), ["b in shop: forbidden"]);
        b.listed(0);
        assert!(caches.synced());
        assert!(caches.missing().is_empty());
    }

    #[test]
    fn a_new_leader_waits_for_lists_made_after_it_won() {
        let caches = Caches::default();
        let slot = caches.slot("policies", None);
        slot.listed(0);
        assert!(!caches.may_act(SECOND_TERM));
        slot.listed(1);
        assert!(
            !caches.may_act(SECOND_TERM),
            "a list of an earlier term is too old"
        );
        slot.listed(2);
        assert!(caches.may_act(SECOND_TERM));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_does_not_work_for_a_while_is_told_once_and_so_is_its_return() {
        let caches = Caches::default();
        let slot = caches.slot("stops", None);
        let failed = || slot.failed("forbidden".into());
        assert_eq!((slot.listed(1), failed(), slot.works()), (None, None, None));

        assert_eq!(failed(), None);
        tokio::time::advance(WORTH_TELLING).await;
        assert_eq!((failed(), failed()), (Some(News::Fails), None));
        assert_eq!((slot.works(), slot.works()), (Some(News::Works), None));
    }

    #[test]
    fn how_a_watch_goes_is_known() {
        let caches = Caches::default();
        let slot = caches.slot("stops", Some("shop"));
        assert_eq!(caches.watched()[0].worked_at, None);
        slot.works();
        slot.failed("forbidden".into());
        let watched = caches.watched().remove(0);
        assert!(watched.worked_at.is_some());
        assert_eq!(watched.error.as_deref(), Some("forbidden"));
        slot.works();
        assert_eq!(caches.watched()[0].error, None);
    }

    #[test]
    fn who_does_not_lead_never_acts() {
        let caches = Caches::default();
        caches.slot("policies", None).listed(9);
        assert!(!caches.may_act(Leadership::Standby));
    }
}
