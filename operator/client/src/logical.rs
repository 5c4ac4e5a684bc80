//! The logical call as a Tower layer: around retries and hedges.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::{Layer, Service};

use crate::{Call, DeadlineExceeded, Hedgeable, Hedger};

/// Makes each request one logical [`Call`]: with one deadline, one count of attempts and one way to the budget, whatever
/// retries and hedges there are below. Needed where a retry layer is around a [`HedgeLayer`](crate::HedgeLayer).
///
/// ```
/// # use hedgerow_client::{CallLayer, HedgeLayer, Hedger, RetryPolicy};
/// # use std::convert::Infallible;
/// # use http::{Request, Response};
/// # use tower::{Layer, ServiceBuilder, ServiceExt, retry::RetryLayer, service_fn};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let (hedger, _feed) = Hedger::builder("shard-read").follow_feed();
/// # let replica = |name| service_fn(move |_: Request<()>| async move { Ok::<_, Infallible>(Response::new(name)) });
/// let replicas = HedgeLayer::new(hedger.clone()).layer(vec![replica("a"), replica("b")]);
/// let service = ServiceBuilder::new()
///     .layer(CallLayer::new(hedger))
///     .layer(RetryLayer::new(RetryPolicy::new(|answer: &Result<_, _>| answer.is_err())))
///     .service(replicas);
/// assert_eq!(service.oneshot(Request::new(())).await.unwrap().into_body(), "a");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CallLayer {
    hedger: Hedger,
}

impl CallLayer {
    /// A layer whose calls are those of `hedger`.
    pub fn new(hedger: Hedger) -> Self {
        Self { hedger }
    }
}

impl<S> Layer<S> for CallLayer {
    type Service = CallService<S>;

    fn layer(&self, inner: S) -> CallService<S> {
        CallService {
            hedger: self.hedger.clone(),
            inner,
        }
    }
}

/// Makes each request one logical [`Call`]. Made by [`CallLayer`].
#[derive(Clone, Debug)]
pub struct CallService<S> {
    hedger: Hedger,
    inner: S,
}

impl<S, Request> Service<Request> for CallService<S>
where
    S: Service<Request>,
    S::Error: From<DeadlineExceeded>,
    Request: Hedgeable,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = CallFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let began = Instant::now();
        let call = Call::begin(&self.hedger, began);
        request.set_call(&call);
        CallFuture {
            answer: Some(self.inner.call(request)),
            deadline: call.deadline().map(sleep_until),
            call,
            began,
        }
    }
}

pin_project! {
    /// The answer of a [`CallService`].
    #[derive(Debug)]
    pub struct CallFuture<F> {
        // `None` once the call has ended.
        #[pin]
        answer: Option<F>,
        #[pin]
        deadline: Option<Sleep>,
        call: Call,
        began: Instant,
    }
}

impl<F, T, E> Future for CallFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: From<DeadlineExceeded>,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, E>> {
        let mut this = self.project();
        let Some(answer) = this.answer.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        let mut ended = answer.poll(context);
        if let Some(deadline) = this.deadline.as_pin_mut()
            && ended.is_pending()
        {
            ended = deadline.poll(context).map(|()| Err(DeadlineExceeded.into()));
        }
        if ended.is_ready() {
            // What is in flight goes at once, however long somebody keeps this future.
            this.answer.set(None);
            this.call.metrics().called(this.began.elapsed());
        }
        ended
    }
}
