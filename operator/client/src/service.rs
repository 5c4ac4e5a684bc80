//! Hedging as a Tower service.

use std::fmt::{self, Debug, Formatter};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use http::HeaderName;
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::util::Oneshot;
use tower::{Layer, Service, ServiceExt};

use crate::course::Course;
use crate::race::Race;
use crate::{
    ATTEMPT_HEADER, AnyAnswer, Attempt, Blocked, Call, CallError, Check, Hedgeable, Hedger, Invalid,
};

/// Makes a [`HedgedService`] of the services that reach one replica each.
///
/// ```
/// # use hedgerow_client::{HedgeLayer, Hedger};
/// # use std::convert::Infallible;
/// # use http::{Request, Response};
/// # use tower::{Layer, ServiceExt, service_fn};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let (hedger, _feed) = Hedger::builder("shard-read").follow_feed();
/// let replica = |name| service_fn(move |_: Request<()>| async move { Ok::<_, Infallible>(Response::new(name)) });
/// let layer = HedgeLayer::new(hedger).check(|answer: &Response<_>| match answer.status() {
///     status if status.is_server_error() => Err(status.to_string().into()),
///     _ => Ok(()),
/// });
/// let service = layer.layer(vec![replica("a"), replica("b")]);
/// assert_eq!(service.oneshot(Request::new(())).await.unwrap().into_body(), "a");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HedgeLayer<C = AnyAnswer> {
    hedger: Hedger,
    header: HeaderName,
    check: C,
    carried: bool,
}

impl HedgeLayer {
    /// A layer that hedges as `hedger` is told. Any answer is valid until it is given a [`check`](Self::check).
    pub fn new(hedger: Hedger) -> Self {
        Self {
            hedger,
            header: ATTEMPT_HEADER,
            check: AnyAnswer,
            carried: false,
        }
    }
}

impl<C> HedgeLayer<C> {
    /// Only an answer that `check` finds valid wins: `Fn(&Response) -> Result<(), Invalid>`.
    #[must_use]
    pub fn check<D>(self, check: D) -> HedgeLayer<D> {
        HedgeLayer {
            hedger: self.hedger,
            header: self.header,
            check,
            carried: self.carried,
        }
    }

    /// The header by which a hedge says that it is one, instead of [`ATTEMPT_HEADER`].
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> Self {
        self.header = name;
        self
    }

    /// Puts each attempt into its request, for what is inside of the replicas' services and takes requests in another
    /// task than the one that waits for the answer: a transport behind Tower's `Buffer`, say, that tells the end of its
    /// streams ([`Attempt::completion`]). Without it [`Attempt::current`] tells, which finds none there, and costs no
    /// allocation.
    #[must_use]
    pub fn carried(mut self) -> Self {
        self.carried = true;
        self
    }
}

impl<S, C: Clone> Layer<Vec<S>> for HedgeLayer<C> {
    type Service = HedgedService<S, C>;

    fn layer(&self, replicas: Vec<S>) -> HedgedService<S, C> {
        HedgedService(Arc::new(Shared {
            layer: self.clone(),
            replicas,
            next: AtomicUsize::new(0),
        }))
    }
}

/// A service over several replicas: each call begins at the next one in turn, and its hedges go to those after it.
///
/// A request that carries a [`Call`] already (see [`CallLayer`](crate::CallLayer)) is a part of that; another one is a
/// call of its own. What runs in it finds its [`Attempt`] by [`Attempt::current`].
///
/// It is always ready: whether a replica is ready is part of what an attempt waits for, so that a hedge also helps
/// against a replica that takes no requests. Give each replica's service a bound on what it queues. Each attempt has a
/// clone of its replica's service, and while another one may follow a clone of the request.
///
/// A call of a service without replicas is refused.
#[derive(Debug)]
pub struct HedgedService<S, C = AnyAnswer>(Arc<Shared<S, C>>);

#[derive(Debug)]
struct Shared<S, C> {
    layer: HedgeLayer<C>,
    replicas: Vec<S>,
    next: AtomicUsize,
}

impl<S, C> Clone for HedgedService<S, C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S, C, Request> Service<Request> for HedgedService<S, C>
where
    S: Service<Request> + Clone,
    C: Check<S::Response>,
    Request: Hedgeable,
{
    type Response = S::Response;
    type Error = CallError<S::Error>;
    type Future = HedgedFuture<S, C, Request>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let now = Instant::now();
        let (call, began) = match request.call() {
            Some(call) => (call, None),
            None => (Call::begin(&self.0.layer.hedger, now), Some(now)),
        };
        let replicas = self.0.replicas.len();
        let turn = self.0.next.fetch_add(1, Relaxed).checked_rem(replicas);
        let course = Replicas {
            shared: Arc::clone(&self.0),
            turn: turn.unwrap_or_default(),
            request: PhantomData,
        };
        let race = match turn {
            Some(_) => Race::new(call, replicas, course, request, now),
            None => Race::refused(call, course, Blocked::Replicas),
        };
        HedgedFuture { race, began }
    }
}

/// Sends each attempt to another replica, from the one whose turn it is on.
struct Replicas<S, C, Request> {
    shared: Arc<Shared<S, C>>,
    turn: usize,
    request: PhantomData<fn(Request)>,
}

impl<S, C, Request> Course for Replicas<S, C, Request>
where
    S: Service<Request> + Clone,
    C: Check<S::Response>,
    Request: Hedgeable,
{
    type Request = Request;
    type Answer = S::Response;
    type Error = S::Error;
    type Sent = Oneshot<S, Request>;

    fn send(&mut self, attempt: &Attempt, mut request: Request) -> Self::Sent {
        let Shared { layer, replicas, .. } = &*self.shared;
        request.mark(attempt, &layer.header);
        if layer.carried {
            request.set_attempt(attempt);
        }
        let replica = &replicas[(self.turn + attempt.number) % replicas.len()];
        replica.clone().oneshot(request)
    }

    fn check(&self, answer: &S::Response) -> Result<(), Invalid> {
        self.shared.layer.check.check(answer)
    }
}

pin_project! {
    /// The answer of a [`HedgedService`].
    pub struct HedgedFuture<S, C, Request>
    where
        S: Service<Request>,
        S: Clone,
        C: Check<S::Response>,
        Request: Hedgeable,
    {
        #[pin]
        race: Race<Replicas<S, C, Request>>,
        // When the call began, if it is one of its own.
        began: Option<Instant>,
    }
}

impl<S, C, Request> Future for HedgedFuture<S, C, Request>
where
    S: Service<Request> + Clone,
    C: Check<S::Response>,
    Request: Hedgeable,
{
    type Output = Result<S::Response, CallError<S::Error>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let answer = ready!(this.race.as_mut().poll(context));
        if let Some(began) = this.began.take() {
            this.race.call().metrics().called(began.elapsed());
        }
        Poll::Ready(answer)
    }
}

impl<S, C, Request> Debug for HedgedFuture<S, C, Request>
where
    S: Service<Request> + Clone,
    C: Check<S::Response>,
    Request: Hedgeable,
{
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgedFuture").finish_non_exhaustive()
    }
}
