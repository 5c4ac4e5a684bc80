//! What changed, each thing once however often it did.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// A set of changed things that one task takes from.
///
/// A channel would grow in an edit storm, or lose something when it is full. A set can do neither: it holds each thing
/// once, so it is as large as what there is.
#[derive(Debug)]
pub struct Changes<K> {
    inner: Arc<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    changed: Mutex<BTreeSet<K>>,
    wake: Notify,
}

impl<K> Clone for Changes<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K: Ord> Default for Changes<K> {
    fn default() -> Self {
        Self {
            inner: Arc::new(Inner {
                changed: Mutex::default(),
                wake: Notify::new(),
            }),
        }
    }
}

impl<K: Ord> Changes<K> {
    /// Notes that `keys` changed.
    pub fn mark(&self, keys: impl IntoIterator<Item = K>) {
        let mut changed = self.inner.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.extend(keys);
        if !changed.is_empty() {
            self.inner.wake.notify_one();
        }
    }

    /// Waits for a change, and takes all that there are. Safe to cancel: nothing is lost.
    pub async fn take(&self) -> BTreeSet<K> {
        loop {
            let taken = {
                let mut changed = self.inner.changed.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *changed)
            };
            if !taken.is_empty() {
                return taken;
            }
            self.inner.wake.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_changes_twice_is_taken_once() {
        let changes = Changes::default();
        changes.mark(["b", "a"]);
        changes.mark(["a"]);
        assert_eq!(changes.take().await, BTreeSet::from(["a", "b"]));
    }

    #[tokio::test]
    async fn taking_waits_for_a_change() {
        let changes = Changes::default();
        let taker = tokio::spawn({
            let changes = changes.clone();
            async move { changes.take().await }
        });
        tokio::task::yield_now().await;
        changes.mark([7]);
        assert_eq!(taker.await.unwrap(), BTreeSet::from([7]));
    }
}
