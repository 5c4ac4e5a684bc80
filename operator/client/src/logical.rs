//! The logical call as a Tower layer: around retries and hedges.

use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;
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
    S::Future: Send + 'static,
    S::Error: From<DeadlineExceeded>,
    Request: Hedgeable,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let began = Instant::now();
        let call = Call::begin(&self.hedger, began);
        request.set_call(&call);
        let answer = self.inner.call(request);
        async move {
            let answer = call.within(answer).await;
            call.metrics().called(began.elapsed());
            answer
        }
        .boxed()
    }
}
