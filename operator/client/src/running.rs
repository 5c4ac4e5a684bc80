//! One attempt while it runs.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;
use tracing::Instrument;
use tracing::instrument::Instrumented;

use crate::Attempt;
use crate::ending::InFlight;

tokio::task_local! {
    /// The attempt whose future is polled.
    static CURRENT: Attempt;
}

impl Attempt {
    /// The attempt in whose future this is asked: the innermost one, where a replica's service hedges calls of its own.
    /// `None` outside of any, and in a task that was spawned by one.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }
}

pin_project! {
    /// One attempt, to its end: what it returned, and what was known of it meanwhile.
    pub(crate) struct Running<A> {
        // First, so that an attempt that is cancelled gives nothing back before its future is gone.
        #[pin]
        sent: TaskLocalFuture<Attempt, Instrumented<A>>,
        in_flight: Option<InFlight>,
    }
}

impl<A: Future> Running<A> {
    pub(crate) fn new(sent: A, in_flight: InFlight) -> Self {
        let sent = sent.instrument(in_flight.span.clone());
        Self {
            sent: CURRENT.scope(in_flight.attempt.clone(), sent),
            in_flight: Some(in_flight),
        }
    }
}

impl<A: Future> Future for Running<A> {
    type Output = (InFlight, A::Output);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.sent.poll(context));
        match this.in_flight.take() {
            Some(in_flight) => Poll::Ready((in_flight, answer)),
            None => Poll::Pending,
        }
    }
}
