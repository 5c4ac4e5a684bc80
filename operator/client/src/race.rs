//! The race of a call's attempts.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hedgerow_config::Terms;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::course::Course;
use crate::document::Permit;
use crate::ending::InFlight;
use crate::hedger::OnFailure;
use crate::running::Running;
use crate::{Attempt, Blocked, Call, CallError, Kind, Problem, Returned};

type Outcome<C> = Result<<C as Course>::Answer, CallError<<C as Course>::Error>>;

pin_project! {
    /// The race of a call's attempts, to the first valid answer.
    ///
    /// A future with a name, and nothing in boxes: most calls need no hedge, and it shall cost those next to nothing.
    pub(crate) struct Race<C: Course> {
        course: C,
        // What further attempts are made of; `None` once there can be none.
        request: Option<C::Request>,
        refused: Option<Blocked>,
        #[pin]
        primary: Option<Running<C::Sent>>,
        // Made with the first hedge.
        others: Option<FuturesUnordered<Running<C::Sent>>>,
        #[pin]
        timer: Option<Sleep>,
        standing: Standing<C::Error>,
    }
}

impl<C: Course> Race<C> {
    /// A race within `call`, whose primary is sent `now` if the call may send one.
    pub(crate) fn new(call: Call, replicas: usize, course: C, request: C::Request, now: Instant) -> Self {
        if let Err(blocked) = call.take_primary() {
            return Self::refused(call, course, blocked);
        }
        let mut race = Self::without_attempts(Standing::new(call, replicas), course, Some(request));
        race.primary = race
            .standing
            .send(&mut race.course, &mut race.request, Kind::Primary, None, now);
        race.standing.schedule(now);
        race.timer = race.standing.alarm().map(sleep_until);
        race
    }

    /// One that is over before it began.
    pub(crate) fn refused(call: Call, course: C, blocked: Blocked) -> Self {
        Self {
            refused: Some(blocked),
            ..Self::without_attempts(Standing::new(call, 0), course, None)
        }
    }

    fn without_attempts(standing: Standing<C::Error>, course: C, request: Option<C::Request>) -> Self {
        Self {
            course,
            request,
            refused: None,
            primary: None,
            others: None,
            timer: None,
            standing,
        }
    }

    #[cfg(feature = "tower")]
    pub(crate) fn call(&self) -> &Call {
        &self.standing.call
    }

    fn poll_end(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<C>> {
        if let Some(blocked) = self.as_mut().project().refused.take() {
            return Poll::Ready(Err(CallError::Refused(blocked)));
        }
        loop {
            // Answers first: one that is there makes a hedge needless.
            while let Poll::Ready((in_flight, answer)) = self.as_mut().poll_answer(context) {
                if let Some(outcome) = self.as_mut().judge(in_flight, answer) {
                    return Poll::Ready(outcome);
                }
            }
            match self.as_mut().project().timer.as_pin_mut() {
                Some(timer) => ready!(timer.poll(context)),
                None => return Poll::Pending,
            }
            if self.standing.is_over() {
                let returned = self.project().standing.take_returned();
                return Poll::Ready(Err(CallError::DeadlineExceeded { returned }));
            }
            self.as_mut().hedge();
        }
    }

    /// What one of the attempts in flight returned.
    fn poll_answer(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<<Running<C::Sent> as Future>::Output> {
        let mut this = self.project();
        if let Some(primary) = this.primary.as_mut().as_pin_mut()
            && let Poll::Ready(returned) = primary.poll(context)
        {
            this.primary.set(None);
            return Poll::Ready(returned);
        }
        match this.others.as_mut().map(|others| others.poll_next_unpin(context)) {
            Some(Poll::Ready(Some(returned))) => Poll::Ready(returned),
            _ => Poll::Pending,
        }
    }

    /// The end of the race, if this answer is.
    fn judge(
        self: Pin<&mut Self>,
        in_flight: InFlight,
        answer: Result<C::Answer, C::Error>,
    ) -> Option<Outcome<C>> {
        let this = self.project();
        let problem = match answer.map(|answer| (this.course.check(&answer), answer)) {
            Ok((Ok(()), answer)) => {
                if in_flight.attempt.is_hedge() {
                    this.standing.call.metrics().wins.inc();
                }
                in_flight.returned("won");
                return Some(Ok(answer));
            }
            Ok((Err(invalid), _)) => Problem::Invalid(invalid),
            Err(error) => Problem::Failed(error),
        };
        this.standing.lost(in_flight, problem);
        let in_flight = this.others.as_ref().is_some_and(|others| !others.is_empty());
        if in_flight || this.primary.is_some() {
            return None;
        }
        if this.standing.replaces() {
            let now = Instant::now();
            let retry = this
                .standing
                .send(this.course, this.request, Kind::Retry, None, now);
            if let Some(retry) = retry {
                this.others.get_or_insert_default().push(retry);
                return None;
            }
        }
        let returned = this.standing.take_returned();
        Some(Err(CallError::NoValidAnswer { returned }))
    }

    /// The time of a hedge has come: sends it, or skips it.
    fn hedge(self: Pin<&mut Self>) {
        let mut this = self.project();
        match this.standing.chance() {
            Ok(permit) => {
                let now = Instant::now();
                let hedge = this
                    .standing
                    .send(this.course, this.request, Kind::Hedge, Some(permit), now);
                if let Some(hedge) = hedge {
                    this.others.get_or_insert_default().push(hedge);
                    this.standing.call.metrics().hedges.inc();
                }
            }
            Err(blocked) => drop(this.standing.call.metrics().blocked(blocked).inc()),
        }
        match this.standing.alarm() {
            Some(at) => {
                if let Some(timer) = this.timer.as_pin_mut() {
                    timer.reset(at);
                }
            }
            None => this.timer.set(None),
        }
    }
}

impl<C: Course> Future for Race<C> {
    type Output = Outcome<C>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<C>> {
        let outcome = ready!(self.as_mut().poll_end(context));
        // Who lost goes at once, however long somebody keeps this future.
        let mut this = self.project();
        this.primary.set(None);
        *this.others = None;
        this.timer.set(None);
        Poll::Ready(outcome)
    }
}

/// What is known of a race while it runs.
struct Standing<E> {
    call: Call,
    replicas: usize,
    sent: usize,
    /// When the next hedge is due; `None` when there is none any more.
    next_chance: Option<Instant>,
    /// Hedges whose time may still come.
    chances: u32,
    returned: Vec<Returned<E>>,
}

impl<E> Standing<E> {
    fn new(call: Call, replicas: usize) -> Self {
        Self {
            replicas,
            sent: 0,
            next_chance: None,
            chances: call.attempts_left(),
            returned: Vec::new(),
            call,
        }
    }

    /// Sends the next attempt. The last one that there can be takes the request with it.
    fn send<C: Course<Error = E>>(
        &mut self,
        course: &mut C,
        request: &mut Option<C::Request>,
        kind: Kind,
        permit: Option<Permit>,
        now: Instant,
    ) -> Option<Running<C::Sent>> {
        let number = self.sent;
        let is_last = self.call.terms().is_none() || self.most() <= number + 1;
        let made_of = if is_last { request.take() } else { request.clone() }?;
        self.sent += 1;
        self.call.metrics().attempts.inc();
        let attempt = Attempt::new(self.call.clone(), self.call.next_id(), number, kind);
        let sent = course.send(&attempt, made_of);
        Some(Running::new(sent, InFlight::new(attempt, permit, now)))
    }

    /// Attempts that there can be at most, whatever is paid for.
    fn most(&self) -> usize {
        let attempts = usize::try_from(self.call.max_attempts()).unwrap_or(usize::MAX);
        self.replicas.min(attempts)
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

    fn lost(&mut self, in_flight: InFlight, problem: Problem<E>) {
        let outcome = match problem {
            Problem::Invalid(_) => "invalid",
            Problem::Failed(_) => "failed",
        };
        self.returned.push(Returned {
            number: in_flight.attempt.number,
            kind: in_flight.attempt.kind,
            after: in_flight.began.elapsed(),
            problem,
        });
        in_flight.returned(outcome);
    }

    fn take_returned(&mut self) -> Vec<Returned<E>> {
        std::mem::take(&mut self.returned)
    }
}

/// `delay` after `from`; a delay beyond what a clock can say is never reached by any call.
fn later(from: Instant, delay: Duration) -> Instant {
    from.checked_add(delay)
        .unwrap_or_else(|| from + Duration::from_secs(86_400 * 365))
}
