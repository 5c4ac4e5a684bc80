//! One logical call: its deadline, and the attempts that it may still send.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use hedgerow_config::Terms;
use tokio::time::{Instant, timeout_at};

use crate::document::{Followed, Permit, now};
use crate::ending::Endings;
use crate::hedger::OnFailure;
use crate::metrics::TargetMetrics;
use crate::{Blocked, DeadlineExceeded, Hedger};

/// One logical call, whatever is sent for it. Clones are the same call.
///
/// It holds what all attempts of the call share: one deadline, one count of attempts (`maxAttempts` of the document,
/// the first one included) and one way to the budget. Hedges and retries draw on it alike, wherever they stand to each
/// other, so that the product of the two cannot happen.
///
/// [`Hedger::scope`] begins one.
#[derive(Clone, Debug)]
pub struct Call(Arc<State>);

#[derive(Debug)]
struct State {
    followed: Arc<Followed>,
    on_failure: OnFailure,
    deadline: Option<Instant>,
    /// Of the document under which the call began; `None` while hedging is off.
    terms: Option<Terms>,
    max_attempts: u32,
    /// Attempts that were paid for, the first one included.
    paid: AtomicU32,
    /// Primaries that were paid for and not sent yet.
    primaries: AtomicU32,
    next_id: AtomicU32,
    endings: Endings,
}

impl Call {
    /// Begins a call that `began` now.
    pub(crate) fn begin(hedger: &Hedger, began: Instant) -> Self {
        let followed = Arc::clone(&hedger.followed);
        followed.metrics.calls.inc();
        let document = followed.current(now());
        let document = document.as_deref();
        let told = document.and_then(|document| document.deadline);
        let allowed = [hedger.deadline, told].into_iter().flatten().min();
        let terms = document.and_then(|document| document.hedging);
        if terms.is_some() {
            followed.earn(began);
        }
        Self(Arc::new(State {
            on_failure: hedger.on_failure,
            deadline: allowed.and_then(|allowed| began.checked_add(allowed)),
            terms,
            max_attempts: document.map_or(1, |document| document.max_attempts.into()),
            paid: AtomicU32::new(1),
            primaries: AtomicU32::new(1),
            next_id: AtomicU32::new(0),
            endings: Endings::default(),
            followed,
        }))
    }

    /// When the call must have ended; `None` without a deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// How much of the deadline is left; `None` without a deadline.
    pub fn remaining(&self) -> Option<Duration> {
        let remaining = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        self.0.deadline.map(remaining)
    }

    /// Attempts so far, the first one and those that are paid for included.
    pub fn attempts(&self) -> u32 {
        self.0.paid.load(Relaxed)
    }

    /// Whether the other is a clone of this.
    #[cfg(feature = "tower")]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Pays for sending the call again as a whole: for a retry *around* [`hedge`](Self::hedge), which then sends its
    /// primary for it. See [`Attempt::retry`](crate::Attempt::retry) for those inside.
    ///
    /// # Errors
    /// When it may not be sent again. It is counted.
    pub fn retry(&self) -> Result<(), Blocked> {
        self.retry_after(Duration::ZERO)
    }

    /// The same for a retry that is sent after a `pause`.
    ///
    /// # Errors
    /// When it may not be sent again, because too little of the deadline would be left then, for example. It is counted.
    pub fn retry_after(&self, pause: Duration) -> Result<(), Blocked> {
        self.pay_for_retry(pause)?;
        self.0.primaries.fetch_add(1, Relaxed);
        Ok(())
    }

    pub(crate) fn pay_for_retry(&self, pause: Duration) -> Result<(), Blocked> {
        let metrics = self.metrics();
        match self.pay(pause, |followed| followed.spend(now())) {
            Ok(()) => drop(metrics.retries.inc()),
            Err(blocked) => {
                metrics.retries_blocked(blocked).inc();
                return Err(blocked);
            }
        }
        Ok(())
    }

    pub(crate) fn pay_for_hedge(&self) -> Result<Permit, Blocked> {
        self.pay(Duration::ZERO, |followed| followed.spend_with_permit(now()))
    }

    /// The right to send a primary: the first is free, each further one was paid for or is now.
    pub(crate) fn take_primary(&self) -> Result<(), Blocked> {
        let one_less = |primaries: u32| primaries.checked_sub(1);
        match self.0.primaries.fetch_update(Relaxed, Relaxed, one_less) {
            Ok(_) => Ok(()),
            Err(_) => self.pay_for_retry(Duration::ZERO),
        }
    }

    fn pay<P>(
        &self,
        pause: Duration,
        spend: impl FnOnce(&Arc<Followed>) -> Result<P, Blocked>,
    ) -> Result<P, Blocked> {
        let state = &*self.0;
        let terms = state.terms.ok_or(Blocked::Off)?;
        let remaining = self.remaining().map(|remaining| remaining.saturating_sub(pause));
        if remaining.is_some_and(|remaining| remaining.is_zero() || remaining < terms.min_remaining) {
            return Err(Blocked::Deadline);
        }
        let one_more = |paid: u32| (paid < state.max_attempts).then(|| paid + 1);
        state
            .paid
            .fetch_update(Relaxed, Relaxed, one_more)
            .map_err(|_| Blocked::Attempts)?;
        // An attempt that is counted for a moment and then refused can only hold back another one.
        spend(&state.followed).inspect_err(|_| {
            state.paid.fetch_sub(1, Relaxed);
        })
    }

    pub(crate) fn terms(&self) -> Option<&Terms> {
        self.0.terms.as_ref()
    }

    /// Attempts that it may still send, as far as their count goes.
    pub(crate) fn attempts_left(&self) -> u32 {
        self.max_attempts().saturating_sub(self.attempts())
    }

    /// Attempts that it may send in all.
    pub(crate) fn max_attempts(&self) -> u32 {
        self.0.max_attempts
    }

    pub(crate) fn next_id(&self) -> u32 {
        self.0.next_id.fetch_add(1, Relaxed)
    }

    pub(crate) fn on_failure(&self) -> OnFailure {
        self.0.on_failure
    }

    pub(crate) fn endings(&self) -> &Endings {
        &self.0.endings
    }

    pub(crate) fn metrics(&self) -> &TargetMetrics {
        &self.0.followed.metrics
    }

    pub(crate) fn target(&self) -> &str {
        &self.0.followed.target
    }

    /// Ends `body` at the deadline.
    pub(crate) async fn within<T, E: From<DeadlineExceeded>>(
        &self,
        body: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        match self.deadline() {
            Some(deadline) => timeout_at(deadline, body)
                .await
                .unwrap_or_else(|_| Err(DeadlineExceeded.into())),
            None => body.await,
        }
    }
}

impl Hedger {
    /// One logical call made of several parts: retries around [`Call::hedge`], say. `body` is ended at the deadline.
    ///
    /// ```
    /// # use hedgerow_client::{CallError, Hedger};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let (hedger, _feed) = Hedger::builder("shard-read").follow_feed();
    /// # let read = |_: usize| async { Err::<(), _>("refused") };
    /// let answer = hedger
    ///     .scope(async |call| {
    ///         loop {
    ///             match call.hedge(2, |attempt| read(attempt.number)).await {
    ///                 // The whole again, as long as attempts and budget last.
    ///                 Err(CallError::NoValidAnswer { .. }) if call.retry().is_ok() => {}
    ///                 answer => break answer,
    ///             }
    ///         }
    ///     })
    ///     .await;
    /// # assert_eq!(answer.unwrap_err().returned().len(), 1);
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `body`, and [`DeadlineExceeded`] when the deadline of the hedger or of the document passed first.
    pub async fn scope<T, E: From<DeadlineExceeded>>(
        &self,
        body: impl AsyncFnOnce(Call) -> Result<T, E>,
    ) -> Result<T, E> {
        let began = Instant::now();
        let call = Call::begin(self, began);
        let answer = call.within(body(call.clone())).await;
        call.metrics().called(began.elapsed());
        answer
    }
}
