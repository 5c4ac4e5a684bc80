//! How many requests of a source are in flight at once.

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

use crate::ReadingKind;

/// The places of one source. Latency takes all but one of them, so that however long its answers take, a saturation signal
/// never waits for them all; where there is but one place, it waits for one of them.
#[derive(Debug)]
pub(crate) struct Permits {
    all: Semaphore,
    latency: Semaphore,
}

/// One place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    _latency: Option<SemaphorePermit<'a>>,
    _all: SemaphorePermit<'a>,
}

impl Permits {
    /// So many places; at least one.
    pub(crate) fn new(concurrency: usize) -> Self {
        Self {
            all: Semaphore::new(concurrency.max(1)),
            latency: Semaphore::new(concurrency.saturating_sub(1).max(1)),
        }
    }

    /// Waits for a place for a reading of that kind.
    pub(crate) async fn acquire(&self, kind: ReadingKind) -> Result<Permit<'_>, AcquireError> {
        let latency = match kind {
            ReadingKind::Latency => Some(self.latency.acquire().await?),
            ReadingKind::Saturation => None,
        };
        Ok(Permit {
            _latency: latency,
            _all: self.all.acquire().await?,
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::join_all;

    use super::*;

    /// How many of `asking` readings of a kind get a place at once.
    async fn admitted(permits: &Permits, kind: ReadingKind, asking: usize) -> (usize, Vec<Permit<'_>>) {
        let asked = (0..asking).map(|_| async move { permits.acquire(kind).now_or_never() });
        let held: Vec<_> = join_all(asked).await.into_iter().flatten().flatten().collect();
        (held.len(), held)
    }

    #[tokio::test]
    async fn latency_leaves_one_place_to_the_signals() {
        let permits = Permits::new(4);
        let (latency, _held) = admitted(&permits, ReadingKind::Latency, 10).await;
        assert_eq!(latency, 3);
        assert_eq!(admitted(&permits, ReadingKind::Saturation, 10).await.0, 1);
    }

    #[tokio::test]
    async fn signals_may_have_every_place() {
        let permits = Permits::new(4);
        let (signals, _held) = admitted(&permits, ReadingKind::Saturation, 10).await;
        assert_eq!(signals, 4);
        assert_eq!(admitted(&permits, ReadingKind::Latency, 10).await.0, 0);
    }

    #[tokio::test]
    async fn for_a_single_place_a_signal_waits_for_one_latency_answer_and_not_for_all() {
        let permits = Permits::new(1);
        let (latency, held) = admitted(&permits, ReadingKind::Latency, 1).await;
        assert_eq!(latency, 1);
        let mut second = Box::pin(permits.acquire(ReadingKind::Latency));
        assert!((&mut second).now_or_never().is_none());
        let mut signal = Box::pin(permits.acquire(ReadingKind::Saturation));
        assert!((&mut signal).now_or_never().is_none());
        drop(held);
        assert!(
            (&mut second).now_or_never().is_none(),
            "it came before the signal"
        );
        assert!(signal.now_or_never().is_some());
    }
}
