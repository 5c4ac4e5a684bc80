//! What waits to be done, in turns: a portion for one policy, then one for the next. So a policy with many pods cannot keep
//! another's waiting, however much there is to do. Of one policy its outputs take turns likewise.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::errand::{Errand, Job};
use super::{Nudge, PolicyKey};

#[derive(Debug, Default)]
pub(super) struct Waiting {
    line: Mutex<VecDeque<Turn>>,
    woken: Notify,
}

/// What a policy has to be done, in the order in which it comes to it. It is never empty.
#[derive(Debug)]
struct Turn {
    policy: PolicyKey,
    errands: VecDeque<Errand>,
}

impl Waiting {
    /// A nudge for the same ConfigMap and the same pods takes the place of the one before, and begins anew.
    pub(super) fn push(&self, nudge: Nudge) {
        self.add(Errand::Nudge(Job::new(nudge)), |known, new| *known = new);
    }

    /// Whether the policy's pods may be nudged is to be asked; once, however often this is called meanwhile.
    pub(super) fn push_question(&self, policy: &PolicyKey) {
        self.add(Errand::MayNudge(policy.clone()), |_, _| {});
    }

    /// The rest of a job. It goes to the end of the line, unless a newer one for the same pods waits already.
    pub(super) fn put_back(&self, job: Job) {
        self.add(Errand::Nudge(job), |_, _| {});
    }

    fn add(&self, errand: Errand, when_known: impl FnOnce(&mut Errand, Errand)) {
        let mut line = self.line();
        let policy = errand.policy().clone();
        match line.iter_mut().find(|turn| turn.policy == policy) {
            Some(turn) => match turn.errands.iter_mut().find(|known| known.is_like(&errand)) {
                Some(known) => when_known(known, errand),
                None => turn.errands.push_back(errand),
            },
            None => line.push_back(Turn {
                policy,
                errands: [errand].into(),
            }),
        }
        drop(line);
        self.woken.notify_one();
    }

    /// Waits for the next one. Safe to cancel.
    pub(super) async fn pop(&self) -> Errand {
        loop {
            let next = self.next();
            if let Some(errand) = next {
                // There may be more: wake another worker, which wakes the next.
                self.woken.notify_one();
                return errand;
            }
            self.woken.notified().await;
        }
    }

    fn next(&self) -> Option<Errand> {
        let mut line = self.line();
        let mut turn = line.pop_front()?;
        let errand = turn.errands.pop_front();
        if !turn.errands.is_empty() {
            line.push_back(turn);
        }
        errand
    }

    pub(super) fn clear(&self) {
        self.line().clear();
    }

    fn line(&self) -> MutexGuard<'_, VecDeque<Turn>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::NamespacedName;

    fn nudge_of(policy: &str, config_map: &str, version: &str, app: &str) -> Nudge {
        Nudge {
            policy: PolicyKey::new("helpdesk", policy),
            config_map: NamespacedName::new("helpdesk", config_map),
            version: version.to_owned(),
            pods: [("app".to_owned(), app.to_owned())].into(),
        }
    }

    fn nudge(config_map: &str, version: &str, app: &str) -> Nudge {
        nudge_of("kb", config_map, version, app)
    }

    async fn popped(waiting: &Waiting) -> Job {
        match waiting.pop().await {
            Errand::Nudge(job) => job,
            Errand::MayNudge(policy) => panic!("a question of {policy}"),
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
        assert_eq!(popped(&waiting).await.nudge, nudge("kb", "2", "front"));
        assert_eq!(popped(&waiting).await.nudge, nudge("other", "1", "front"));
        assert_eq!(popped(&waiting).await.nudge, nudge("kb", "1", "batch"));
        assert!(waiting.line().is_empty());
    }

    #[tokio::test]
    async fn policies_take_turns_and_so_do_the_outputs_of_one() {
        let waiting = Waiting::default();
        for config_map in ["a", "b", "c"] {
            waiting.push(nudge_of("big", config_map, "1", "front"));
        }
        waiting.push(nudge_of("small", "s", "1", "front"));
        let mut order = Vec::new();
        for _ in 0..6 {
            let job = popped(&waiting).await;
            order.push(job.nudge.config_map.name.clone());
            waiting.put_back(job);
        }
        assert_eq!(order, ["a", "s", "b", "s", "c", "s"]);
    }

    #[tokio::test]
    async fn the_rest_of_a_job_goes_when_a_newer_one_waits() {
        let waiting = Waiting::default();
        waiting.push(nudge("kb", "1", "front"));
        let job = popped(&waiting).await;
        waiting.push(nudge("kb", "2", "front"));
        waiting.put_back(job);
        assert_eq!(popped(&waiting).await.nudge.version, "2");
        assert!(waiting.line().is_empty());
    }

    #[tokio::test]
    async fn a_question_is_asked_once() {
        let waiting = Waiting::default();
        let policy = PolicyKey::new("helpdesk", "kb");
        waiting.push_question(&policy);
        waiting.push_question(&policy);
        assert!(matches!(waiting.pop().await, Errand::MayNudge(asked) if asked == policy));
        assert!(waiting.line().is_empty());
    }

    #[tokio::test]
    async fn every_waiting_worker_gets_one() {
        let waiting = Arc::new(Waiting::default());
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let waiting = Arc::clone(&waiting);
                tokio::spawn(async move { popped(&waiting).await.nudge.config_map.name })
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
        assert!(waiting.line().is_empty());
    }
}
