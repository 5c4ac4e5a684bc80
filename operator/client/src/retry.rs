//! Retries that draw on the call's attempts and on the budget.

use std::fmt::{self, Debug, Formatter};
use std::time::Duration;

use tokio::time::{Sleep, sleep};
use tower::retry::Policy;

use crate::Hedgeable;

/// A policy for Tower's `Retry` that draws on what the hedges of the call draw on: one count of attempts, the document's
/// `maxAttempts`, and one budget. So a retry layer around the hedge, one inside of it, or both cannot multiply it.
///
/// A layer *around* the hedge finds the call in the request, where [`CallLayer`](crate::CallLayer) puts it; one *inside*
/// finds the [`Attempt::current`](crate::Attempt::current). Without either nothing is retried, and while hedging is off
/// there is no budget: nothing is sent twice then.
#[derive(Clone)]
pub struct RetryPolicy<F> {
    wanted: F,
    pause: Duration,
}

impl<F> RetryPolicy<F> {
    /// Retries what `wanted` wants to be retried: `Fn(&Result<Response, Error>) -> bool`.
    pub fn new(wanted: F) -> Self {
        Self {
            wanted,
            pause: Duration::ZERO,
        }
    }

    /// Pauses before each retry. One that would come too late for the deadline is refused at once.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }
}

impl<F> Debug for RetryPolicy<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryPolicy")
            .field("pause", &self.pause)
            .finish_non_exhaustive()
    }
}

impl<F, Request, T, E> Policy<Request, T, E> for RetryPolicy<F>
where
    F: Fn(&Result<T, E>) -> bool,
    Request: Hedgeable,
{
    type Future = Sleep;

    fn retry(&mut self, request: &mut Request, result: &mut Result<T, E>) -> Option<Sleep> {
        if !(self.wanted)(result) {
            return None;
        }
        let paid = match (request.attempt(), request.call()) {
            (Some(attempt), _) => attempt.retry_after(self.pause),
            (None, Some(call)) => call.retry_after(self.pause),
            (None, None) => return None,
        };
        paid.ok().map(|()| sleep(self.pause))
    }

    fn clone_request(&mut self, request: &Request) -> Option<Request> {
        Some(request.clone())
    }
}
