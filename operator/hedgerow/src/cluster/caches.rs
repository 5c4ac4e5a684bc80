//! Whether what is known of the cluster is complete, and new enough to act on.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::lease::Leadership;

/// The state of all watches.
#[derive(Clone, Debug)]
pub struct Caches {
    states: Arc<Mutex<Vec<State>>>,
    changed: Arc<watch::Sender<()>>,
}

#[derive(Debug)]
struct State {
    what: String,
    /// The term in which its last complete list was asked for; `None` before the first list.
    listed: Option<u64>,
    error: Option<String>,
}

/// The place of one watch in [`Caches`].
#[derive(Debug)]
pub(super) struct CacheSlot {
    caches: Caches,
    index: usize,
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
            .map(|state| match &state.error {
                Some(error) => format!("{}: {error}", state.what),
                None => format!("{}: not listed yet", state.what),
            })
            .collect()
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
    pub(super) fn slot(&self, what: String) -> CacheSlot {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.push(State {
            what,
            listed: None,
            error: None,
        });
        CacheSlot {
            caches: self.clone(),
            index: states.len() - 1,
        }
    }
}

impl CacheSlot {
    /// A list that was asked for in `term` is complete.
    pub(super) fn listed(&self, term: u64) {
        self.update(|state| {
            state.listed = Some(term);
            state.error = None;
        });
    }

    /// The watch failed; it will be tried again.
    pub(super) fn failed(&self, error: String) {
        self.update(|state| state.error = Some(error));
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        let mut states = self.caches.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = states.get_mut(self.index) {
            change(state);
        }
        drop(states);
        self.caches.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_TERM: Leadership = Leadership::Leading { term: 2 };

    #[test]
    fn ready_once_every_watch_has_listed() {
        let caches = Caches::default();
        let (a, b) = (caches.slot("a".into()), caches.slot("b".into()));
        a.listed(0);
        assert!(!caches.synced());
        b.failed("forbidden".into());
        assert_eq!(caches.missing(), ["b: forbidden"]);
        b.listed(0);
        assert!(caches.synced());
        assert!(caches.missing().is_empty());
    }

    #[test]
    fn a_new_leader_waits_for_lists_made_after_it_won() {
        let caches = Caches::default();
        let slot = caches.slot("policies".into());
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

    #[test]
    fn who_does_not_lead_never_acts() {
        let caches = Caches::default();
        caches.slot("policies".into()).listed(9);
        assert!(!caches.may_act(Leadership::Standby));
    }
}
