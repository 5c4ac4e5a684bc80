//! What a race runs on: how an attempt is sent, and which answer is valid.

use std::future::Future;

use tokio::time::Instant;

use crate::race::Race;
use crate::{Attempt, Call, CallError, Check, Hedger, Invalid};

/// How the attempts of a call are sent, and which answer is valid.
pub(crate) trait Course {
    /// What an attempt is made of. It is cloned only while another attempt may follow.
    type Request: Clone;
    type Answer;
    type Error;
    type Sent: Future<Output = Result<Self::Answer, Self::Error>>;

    fn send(&mut self, attempt: &Attempt, request: Self::Request) -> Self::Sent;

    fn check(&self, answer: &Self::Answer) -> Result<(), Invalid>;
}

/// Attempts that a function sends.
struct Sending<F, C> {
    attempt: F,
    check: C,
}

impl<F, C, A, T, E> Course for Sending<F, C>
where
    F: FnMut(Attempt) -> A,
    A: Future<Output = Result<T, E>>,
    C: Check<T>,
{
    type Request = ();
    type Answer = T;
    type Error = E;
    type Sent = A;

    fn send(&mut self, attempt: &Attempt, (): ()) -> A {
        (self.attempt)(attempt.clone())
    }

    fn check(&self, answer: &T) -> Result<(), Invalid> {
        self.check.check(answer)
    }
}

impl Hedger {
    /// Calls through `attempt`, and through it again when the document says to hedge: the first success wins, and the
    /// attempts that lost are dropped at once.
    ///
    /// `replicas` says how many replicas can answer. Each attempt has another number below it; send each to another
    /// replica. When a hedge may not be sent at its time it is skipped, never queued.
    ///
    /// # Errors
    /// [`CallError::NoValidAnswer`] when every attempt sent has failed, [`CallError::DeadlineExceeded`] when the deadline
    /// of the hedger or of the document passed first.
    pub async fn call<T, E, A>(
        &self,
        replicas: usize,
        attempt: impl FnMut(Attempt) -> A,
    ) -> Result<T, CallError<E>>
    where
        A: Future<Output = Result<T, E>>,
    {
        self.call_checked(replicas, attempt, |_| Ok(())).await
    }

    /// As [`call`](Self::call), and only an answer that `check` finds valid wins: by its status, its schema, what the
    /// caller may see, the version of its data. A fast failure or a stale replica does not win.
    ///
    /// # Errors
    /// As those of [`call`](Self::call); [`CallError::NoValidAnswer`] says what each attempt returned.
    pub async fn call_checked<T, E, A>(
        &self,
        replicas: usize,
        attempt: impl FnMut(Attempt) -> A,
        check: impl Fn(&T) -> Result<(), Invalid>,
    ) -> Result<T, CallError<E>>
    where
        A: Future<Output = Result<T, E>>,
    {
        let began = Instant::now();
        let call = Call::begin(self, began);
        let answer = call.race(began, replicas, attempt, check).await;
        call.metrics().called(began.elapsed());
        answer
    }
}

impl Call {
    /// As [`Hedger::call`], within this call. Each time after the first is a retry, which [`Call::retry`] has paid for
    /// or which is paid for now.
    ///
    /// # Errors
    /// Those of [`Hedger::call`], and [`CallError::Refused`] when it may not be sent again.
    pub async fn hedge<T, E, A>(
        &self,
        replicas: usize,
        attempt: impl FnMut(Attempt) -> A,
    ) -> Result<T, CallError<E>>
    where
        A: Future<Output = Result<T, E>>,
    {
        self.hedge_checked(replicas, attempt, |_| Ok(())).await
    }

    /// As [`Hedger::call_checked`], within this call.
    ///
    /// # Errors
    /// Those of [`Hedger::call_checked`], and [`CallError::Refused`] when it may not be sent again.
    pub async fn hedge_checked<T, E, A>(
        &self,
        replicas: usize,
        attempt: impl FnMut(Attempt) -> A,
        check: impl Fn(&T) -> Result<(), Invalid>,
    ) -> Result<T, CallError<E>>
    where
        A: Future<Output = Result<T, E>>,
    {
        self.race(Instant::now(), replicas, attempt, check).await
    }

    /// The same, with the primary sent `now`: each look at the clock costs something.
    async fn race<T, E, A>(
        &self,
        now: Instant,
        replicas: usize,
        attempt: impl FnMut(Attempt) -> A,
        check: impl Check<T>,
    ) -> Result<T, CallError<E>>
    where
        A: Future<Output = Result<T, E>>,
    {
        let course = Sending { attempt, check };
        Race::new(self.clone(), replicas, course, (), now).await
    }
}
