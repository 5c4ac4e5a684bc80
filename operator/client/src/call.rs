//! One call, hedged.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hedgerow_config::Terms;
use thiserror::Error;
use tokio::time::{Instant, sleep_until};

use crate::Hedger;
use crate::document::{Followed, Permit, now};
use crate::metrics::Reason;

/// One physical request of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// 0 for the primary, then 1, 2, ... for hedges; a hedge's is always below the number of replicas that the call was
    /// given. (The primary is sent in any case.)
    pub number: usize,
}

impl Attempt {
    /// Whether it is a hedge: an extra attempt, beside one that has not answered yet.
    pub fn is_hedge(self) -> bool {
        self.number > 0
    }
}

/// Why a call gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CallError<E> {
    /// No attempt answered before the deadline.
    #[error("no answer before the deadline")]
    DeadlineExceeded,
    /// Every attempt failed; this is what the last one said.
    #[error(transparent)]
    Failed(E),
}

impl Hedger {
    /// Calls through `attempt`, and through it again when the document says to hedge: the first success wins, and the
    /// attempts that lost are dropped at once.
    ///
    /// `replicas` says how many replicas can answer. Each attempt has another number below it; send each to another
    /// replica. An attempt that fails is not repeated: hedging helps against slowness, retries are another matter. When
    /// a hedge may not be sent at its time it is skipped, never queued.
    ///
    /// # Errors
    /// [`CallError::Failed`] when every attempt sent has failed, [`CallError::DeadlineExceeded`] when the deadline of
    /// the hedger or of the document passed first.
    pub async fn call<T, E, F, A>(&self, replicas: usize, attempt: F) -> Result<T, CallError<E>>
    where
        F: FnMut(Attempt) -> A,
        A: Future<Output = Result<T, E>>,
    {
        let began = Instant::now();
        let metrics = &self.followed.metrics;
        metrics.calls.inc();
        let document = self.followed.current(now());
        let deadline = match (
            self.deadline,
            document.as_ref().and_then(|document| document.deadline),
        ) {
            (Some(own), Some(told)) => Some(own.min(told)),
            (own, told) => own.or(told),
        };
        let deadline = deadline.and_then(|deadline| began.checked_add(deadline));
        let hedging = document.as_ref().and_then(|document| {
            let attempts = usize::from(document.max_attempts);
            document.hedging.map(|terms| Hedging {
                followed: &self.followed,
                terms,
                attempts,
                replicas,
                deadline,
            })
        });
        if hedging.is_some() {
            self.followed.earn();
        }
        let answer = tokio::select! {
            biased;
            answer = race(&self.followed, hedging, began, attempt) => answer.map_err(CallError::Failed),
            () = until(deadline) => Err(CallError::DeadlineExceeded),
        };
        metrics.called(began.elapsed());
        answer
    }
}

/// The rules for the hedges of one call.
struct Hedging<'a> {
    followed: &'a Arc<Followed>,
    terms: Terms,
    attempts: usize,
    replicas: usize,
    deadline: Option<Instant>,
}

impl Hedging<'_> {
    /// Whether a hedge may be sent now, as attempt `number`.
    fn allow(&self, number: usize) -> Result<Permit, Reason> {
        if self
            .deadline
            .is_some_and(|at| at.saturating_duration_since(Instant::now()) < self.terms.min_remaining)
        {
            Err(Reason::Deadline)
        } else if number >= self.replicas {
            Err(Reason::Replicas)
        } else {
            self.followed.spend(now())
        }
    }
}

/// Runs the primary and, each `delay` after the last, its hedges, until the first success or the last failure.
async fn race<T, E, F, A>(
    followed: &Followed,
    hedging: Option<Hedging<'_>>,
    began: Instant,
    mut attempt: F,
) -> Result<T, E>
where
    F: FnMut(Attempt) -> A,
    A: Future<Output = Result<T, E>>,
{
    let metrics = &followed.metrics;
    metrics.attempts.inc();
    let mut primary = pin!(attempt(Attempt { number: 0 }));
    let Some(hedging) = hedging else {
        return primary.await;
    };

    let delay = hedging.terms.delay;
    let mut chances = hedging.attempts.saturating_sub(1);
    let mut next_chance = pin!(sleep_until(later(began, delay)));
    let mut sent = 1;
    let mut hedges = FuturesUnordered::new();
    let mut primary_failed = false;
    loop {
        // Answers first: one that is there makes a hedge needless.
        let (answer, is_hedge) = tokio::select! {
            biased;
            answer = &mut primary, if !primary_failed => (answer, false),
            Some(answer) = hedges.next() => (answer, true),
            () = &mut next_chance, if chances > 0 => {
                chances -= 1;
                let chance = next_chance.deadline();
                next_chance.as_mut().reset(later(chance, delay));
                match hedging.allow(sent) {
                    Ok(permit) => {
                        metrics.attempts.inc();
                        metrics.hedges.inc();
                        let hedge = attempt(Attempt { number: sent });
                        sent += 1;
                        hedges.push(async move {
                            let _permit = permit;
                            hedge.await
                        });
                    }
                    Err(reason) => drop(metrics.blocked(reason).inc()),
                }
                continue;
            }
        };
        match answer {
            Ok(answer) => {
                if is_hedge {
                    metrics.wins.inc();
                }
                return Ok(answer);
            }
            Err(error) => {
                primary_failed |= !is_hedge;
                if primary_failed && hedges.is_empty() {
                    return Err(error);
                }
            }
        }
    }
}

/// `delay` after `from`; a delay beyond what a clock can say is never reached by any call.
fn later(from: Instant, delay: Duration) -> Instant {
    from.checked_add(delay)
        .unwrap_or_else(|| from + Duration::from_secs(86_400 * 365))
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
