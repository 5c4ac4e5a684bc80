//! Whether this process may still write.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Refuses writes when the last renewal of the lease is too old.
///
/// Being told that one leads is not enough: the process may have been suspended, or the API server may have stalled,
/// since. So every write asks the clock first. It is `CLOCK_BOOTTIME`, which also runs while the machine sleeps.
///
/// A renewal counts from when it was *sent*: the server may have stored it that early, and others count from then.
#[derive(Clone, Debug)]
pub struct Fence {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Up to when writes may begin, in milliseconds of the clock.
    open_until: AtomicI64,
}

/// A write was refused, because this process does not lead (any longer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not leading: the lease was not renewed in time")]
pub struct NotLeading;

/// A moment of the clock that runs through suspend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(i64);

impl BootTime {
    /// Now.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        Self(
            now.tv_sec
                .saturating_mul(1000)
                .saturating_add(now.tv_nsec / 1_000_000),
        )
    }

    /// How long ago `earlier` was; zero when it was not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    fn plus(self, later: Duration) -> Self {
        let later = i64::try_from(later.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(later))
    }
}

impl Fence {
    /// A fence that refuses everything until the lease is won.
    pub fn closed() -> Self {
        Self::until(i64::MIN)
    }

    /// A fence that lets everything pass: for one replica without a lease.
    pub fn open() -> Self {
        Self::until(i64::MAX)
    }

    fn until(open_until: i64) -> Self {
        Self {
            inner: Arc::new(Inner {
                open_until: AtomicI64::new(open_until),
            }),
        }
    }

    /// Lets writes pass for `validity` from `sent`, when the last successful renewal was sent.
    pub(super) fn renewed(&self, sent: BootTime, validity: Duration) {
        self.inner
            .open_until
            .store(sent.plus(validity).0, Ordering::Release);
    }

    /// Refuses writes from now on.
    pub(super) fn close(&self) {
        self.inner.open_until.store(i64::MIN, Ordering::Release);
    }

    /// Whether a write may begin now.
    ///
    /// # Errors
    ///
    /// [`NotLeading`] when the lease was never won, was lost, or was not renewed in time.
    pub fn check(&self) -> Result<(), NotLeading> {
        self.check_at(BootTime::now())
    }

    fn check_at(&self, now: BootTime) -> Result<(), NotLeading> {
        if now.0 < self.inner.open_until.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err(NotLeading)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALIDITY: Duration = Duration::from_secs(10);

    #[test]
    fn nothing_passes_before_the_lease_is_won() {
        assert_eq!(Fence::closed().check(), Err(NotLeading));
    }

    #[test]
    fn without_a_lease_everything_passes() {
        assert_eq!(Fence::open().check(), Ok(()));
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_sent() {
        let fence = Fence::closed();
        let sent = BootTime(1_000);
        fence.renewed(sent, VALIDITY);
        assert_eq!(fence.check_at(BootTime(10_999)), Ok(()));
        assert_eq!(fence.check_at(BootTime(11_000)), Err(NotLeading));
    }

    #[test]
    fn a_stall_longer_than_the_validity_refuses_writes_without_anyone_telling() {
        let fence = Fence::closed();
        let now = BootTime::now();
        fence.renewed(BootTime(now.0 - 10_001), VALIDITY);
        assert_eq!(fence.check(), Err(NotLeading));
    }

    #[test]
    fn a_released_lease_refuses_writes_at_once() {
        let fence = Fence::closed();
        fence.renewed(BootTime::now(), VALIDITY);
        assert_eq!(fence.check(), Ok(()));
        fence.close();
        assert_eq!(fence.check(), Err(NotLeading));
    }
}
