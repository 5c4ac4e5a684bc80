//! What waits to be nudged: for the same pods the newest alone, in the order in which they were first asked for.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Nudge;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    nudges: Mutex<VecDeque<Nudge>>,
    woken: Notify,
}

impl Waiting {
    /// A nudge for the same ConfigMap and the same pods takes the place of the one before.
    pub(super) fn push(&self, nudge: Nudge) {
        let mut nudges = self.nudges();
        let same = |known: &&mut Nudge| known.config_map == nudge.config_map && known.pods == nudge.pods;
        match nudges.iter_mut().find(same) {
            Some(known) => *known = nudge,
            None => nudges.push_back(nudge),
        }
        drop(nudges);
        self.woken.notify_one();
    }

    /// Waits for the next one. Safe to cancel.
    pub(super) async fn pop(&self) -> Nudge {
        loop {
            let next = self.nudges().pop_front();
            if let Some(nudge) = next {
                // There may be more: wake another worker, which wakes the next.
                self.woken.notify_one();
                return nudge;
            }
            self.woken.notified().await;
        }
    }

    pub(super) fn clear(&self) {
        self.nudges().clear();
    }

    fn nudges(&self) -> MutexGuard<'_, VecDeque<Nudge>> {
        self.nudges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::{NamespacedName, PolicyKey};

    fn nudge(config_map: &str, version: &str, app: &str) -> Nudge {
        Nudge {
            policy: PolicyKey::new("helpdesk", "kb"),
            config_map: NamespacedName::new("helpdesk", config_map),
            version: version.to_owned(),
            pods: [("app".to_owned(), app.to_owned())].into(),
        }
    }

    #[tokio::test]
    async fn the_newest_for_the_same_pods_takes_the_place_of_those_before() {
        let waiting = Waiting::default();
        for nudge in [
            nudge("kb", "1", "front"),
            nudge("other", "1", "front"),
            nudge("kb", "1", "batch"),
            nudge("kb", "2", "front"),
        ] {
            waiting.push(nudge);
        }
        assert_eq!(waiting.pop().await, nudge("kb", "2", "front"));
        assert_eq!(waiting.pop().await, nudge("other", "1", "front"));
        assert_eq!(waiting.pop().await, nudge("kb", "1", "batch"));
        assert!(waiting.nudges().is_empty());
    }

    #[tokio::test]
    async fn every_waiting_worker_gets_one() {
        let waiting = Arc::new(Waiting::default());
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let waiting = Arc::clone(&waiting);
                tokio::spawn(async move { waiting.pop().await.config_map.name })
            })
            .collect();
        tokio::task::yield_now().await;
        for name in ["a", "b", "c"] {
            waiting.push(nudge(name, "1", "front"));
        }
        let mut names = Vec::new();
        for worker in workers {
            names.push(worker.await.unwrap());
        }
        names.sort();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[tokio::test]
    async fn nothing_waits_after_the_lease_is_lost() {
        let waiting = Waiting::default();
        waiting.push(nudge("kb", "1", "front"));
        waiting.clear();
        assert!(waiting.nudges().is_empty());
    }
}
