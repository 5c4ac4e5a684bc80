//! Hedging as a Tower service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::HeaderName;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt};

use crate::{ATTEMPT_HEADER, Blocked, Call, CallError, Hedgeable, Hedger, Invalid};

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
}

impl HedgeLayer {
    /// A layer that hedges as `hedger` is told. Any answer is valid until it is given a [`check`](Self::check).
    pub fn new(hedger: Hedger) -> Self {
        Self {
            hedger,
            header: ATTEMPT_HEADER,
            check: AnyAnswer,
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
        }
    }

    /// The header by which a hedge says that it is one, instead of [`ATTEMPT_HEADER`].
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> Self {
        self.header = name;
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

/// Says whether an answer is valid: a function, or [`AnyAnswer`].
pub trait Check<T> {
    /// Whether `answer` is valid.
    ///
    /// # Errors
    /// Why it is not.
    fn check(&self, answer: &T) -> Result<(), Invalid>;
}

/// Finds every answer valid.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyAnswer;

impl<T> Check<T> for AnyAnswer {
    fn check(&self, _: &T) -> Result<(), Invalid> {
        Ok(())
    }
}

impl<T, F: Fn(&T) -> Result<(), Invalid>> Check<T> for F {
    fn check(&self, answer: &T) -> Result<(), Invalid> {
        self(answer)
    }
}

/// A service over several replicas: each call begins at the next one in turn, and its hedges go to those after it.
///
/// A request that carries a [`Call`] already (see [`CallLayer`](crate::CallLayer)) is a part of that; another one is a
/// call of its own. Each attempt carries its [`Attempt`](crate::Attempt).
///
/// It is always ready: whether a replica is ready is part of what an attempt waits for, so that a hedge also helps
/// against a replica that takes no requests. Give each replica's service a bound on what it queues.
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
    S: Service<Request> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send,
    C: Check<S::Response> + Send + Sync + 'static,
    Request: Hedgeable + Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = CallError<S::Error>;
    type Future = BoxFuture<'static, Result<S::Response, CallError<S::Error>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let shared = Arc::clone(&self.0);
        async move {
            let now = Instant::now();
            match request.call() {
                Some(call) => shared.hedge(&call, &request, now).await,
                None => {
                    let call = Call::begin(&shared.layer.hedger, now);
                    let answer = shared.hedge(&call, &request, now).await;
                    call.metrics().called(now.elapsed());
                    answer
                }
            }
        }
        .boxed()
    }
}

impl<S, C> Shared<S, C> {
    async fn hedge<Request>(
        &self,
        call: &Call,
        request: &Request,
        now: Instant,
    ) -> Result<S::Response, CallError<S::Error>>
    where
        S: Service<Request> + Clone,
        C: Check<S::Response>,
        Request: Hedgeable,
    {
        let Self {
            layer,
            replicas,
            next,
        } = self;
        let Some(turn) = next.fetch_add(1, Ordering::Relaxed).checked_rem(replicas.len()) else {
            return Err(CallError::Refused(Blocked::Replicas));
        };
        let attempt = |attempt: crate::Attempt| {
            let replica = replicas[(turn + attempt.number) % replicas.len()].clone();
            let mut request = request.clone();
            request.set_attempt(&attempt, &layer.header);
            replica.oneshot(request)
        };
        let check = |answer: &S::Response| layer.check.check(answer);
        call.race(now, replicas.len(), attempt, check).await
    }
}
