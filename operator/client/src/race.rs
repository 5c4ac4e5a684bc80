//! The race of a call's attempts.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hedgerow_config::Terms;
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::Instrument;

use crate::document::Permit;
use crate::ending::InFlight;
use crate::hedger::OnFailure;
use crate::{Attempt, Blocked, Call, CallError, Hedger, Invalid, Kind, Problem, Returned};

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
    pub(crate) async fn race<T, E, A>(
        &self,
        now: Instant,
        replicas: usize,
        mut attempt: impl FnMut(Attempt) -> A,
        check: impl Fn(&T) -> Result<(), Invalid>,
    ) -> Result<T, CallError<E>>
    where
        A: Future<Output = Result<T, E>>,
    {
        self.take_primary().map_err(CallError::Refused)?;
        let mut race = Race::new(self, replicas, now);
        let mut send = |number, kind, permit, now| {
            let sent = Attempt::new(self.clone(), self.next_id(), number, kind);
            run(attempt(sent.clone()), InFlight::new(sent, permit, now))
        };
        self.metrics().attempts.inc();
        let mut primary = pin!(send(0, Kind::Primary, None, now));
        // Made with the first hedge: most calls need none, and it shall cost those nothing.
        let mut others = None::<FuturesUnordered<_>>;
        let mut primary_returned = false;
        let mut timer = pin!(race.alarm().map(sleep_until));
        loop {
            // Answers first: one that is there makes a hedge needless.
            let (in_flight, answer) = tokio::select! {
                biased;
                returned = &mut primary, if !primary_returned => {
                    primary_returned = true;
                    returned
                },
                Some(returned) = next(&mut others) => returned,
                () = ring(timer.as_mut()) => {
                    if race.is_over() {
                        return Err(CallError::DeadlineExceeded { returned: race.returned });
                    }
                    match race.chance() {
                        Ok(permit) => {
                            let hedge = send(race.next_number(), Kind::Hedge, Some(permit), Instant::now());
                            others.get_or_insert_default().push(hedge);
                            self.metrics().attempts.inc();
                            self.metrics().hedges.inc();
                        }
                        Err(blocked) => drop(self.metrics().blocked(blocked).inc()),
                    }
                    match race.alarm() {
                        Some(at) => if let Some(timer) = timer.as_mut().as_pin_mut() { timer.reset(at) },
                        None => timer.set(None),
                    }
                    continue;
                }
            };
            let problem = match answer.map(|answer| (check(&answer), answer)) {
                Ok((Ok(()), answer)) => {
                    if in_flight.attempt.is_hedge() {
                        self.metrics().wins.inc();
                    }
                    in_flight.returned("won");
                    return Ok(answer);
                }
                Ok((Err(invalid), _)) => Problem::Invalid(invalid),
                Err(error) => Problem::Failed(error),
            };
            race.lost(in_flight, problem);
            let is_last = primary_returned && others.as_ref().is_none_or(FuturesUnordered::is_empty);
            if is_last && race.replaces() {
                self.metrics().attempts.inc();
                others.get_or_insert_default().push(send(
                    race.next_number(),
                    Kind::Retry,
                    None,
                    Instant::now(),
                ));
            } else if is_last {
                return Err(CallError::NoValidAnswer {
                    returned: race.returned,
                });
            }
        }
    }
}

/// What is known of a race while it runs.
struct Race<'a, E> {
    call: &'a Call,
    replicas: usize,
    sent: usize,
    /// When the next hedge is due; `None` when there is none any more.
    next_chance: Option<Instant>,
    /// Hedges whose time may still come.
    chances: u32,
    returned: Vec<Returned<E>>,
}

impl<'a, E> Race<'a, E> {
    fn new(call: &'a Call, replicas: usize, now: Instant) -> Self {
        let chances = call.attempts_left();
        let mut race = Self {
            call,
            replicas,
            sent: 1,
            next_chance: None,
            chances,
            returned: Vec::new(),
        };
        race.schedule(now);
        race
    }

    /// The next hedge is due a delay from now, not from when the last one was due: after a stall of the process there
    /// shall be no volley of those that were missed.
    fn schedule(&mut self, now: Instant) {
        let delay = |terms: &Terms| later(now, terms.delay);
        self.next_chance = (self.chances > 0 && self.call.attempts_left() > 0)
            .then(|| self.call.terms().map(delay))
            .flatten();
    }

    /// When to look up next.
    fn alarm(&self) -> Option<Instant> {
        [self.next_chance, self.call.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn is_over(&self) -> bool {
        self.call
            .deadline()
            .is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Uses up the hedge that is due, sent or not: one that may not be sent is skipped, never queued.
    fn chance(&mut self) -> Result<Permit, Blocked> {
        self.chances = self.chances.saturating_sub(1);
        let permit = if self.sent < self.replicas {
            self.call.pay_for_hedge()
        } else {
            Err(Blocked::Replicas)
        };
        self.schedule(Instant::now());
        permit
    }

    /// Whether an attempt is sent in the place of the last one, which gave no valid answer. Then it is paid for.
    fn replaces(&self) -> bool {
        self.call.on_failure() == OnFailure::Retry
            && self.sent < self.replicas
            && self.call.pay_for_retry(Duration::ZERO).is_ok()
    }

    fn next_number(&mut self) -> usize {
        self.sent += 1;
        self.sent - 1
    }

    fn lost(&mut self, in_flight: InFlight, problem: Problem<E>) {
        self.returned.push(Returned {
            number: in_flight.attempt.number,
            kind: in_flight.attempt.kind,
            after: in_flight.began.elapsed(),
            problem,
        });
        in_flight.returned(match self.returned.last().map(|returned| &returned.problem) {
            Some(Problem::Invalid(_)) => "invalid",
            _ => "failed",
        });
    }
}

/// One attempt, to its end.
async fn run<A: Future>(attempt: A, in_flight: InFlight) -> (InFlight, A::Output) {
    let answer = attempt.instrument(in_flight.span.clone()).await;
    (in_flight, answer)
}

/// The next of the others to return; `None` while none is in flight.
async fn next<A: Future>(others: &mut Option<FuturesUnordered<A>>) -> Option<A::Output> {
    others.as_mut()?.next().await
}

/// Waits for the timer; without one for ever.
async fn ring(timer: Pin<&mut Option<Sleep>>) {
    match timer.as_pin_mut() {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

/// `delay` after `from`; a delay beyond what a clock can say is never reached by any call.
fn later(from: Instant, delay: Duration) -> Instant {
    from.checked_add(delay)
        .unwrap_or_else(|| from + Duration::from_secs(86_400 * 365))
}
