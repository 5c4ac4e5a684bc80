//! Hedging as a Tower service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use tower::{Layer, Service, ServiceExt};

use crate::{CallError, Hedger};

/// Makes a [`HedgedService`] of the services that reach one replica each.
///
/// ```
/// # use hedgerow_client::{HedgeLayer, Hedger};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let (hedger, _feed) = Hedger::builder("shard-read").follow_feed();
/// let replica = |name: &'static str| service_fn(move |key: u32| async move { Ok::<_, Infallible>((name, key)) });
/// let service = HedgeLayer::new(hedger).layer(vec![replica("a"), replica("b")]);
/// assert_eq!(service.oneshot(7).await, Ok(("a", 7)));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HedgeLayer {
    hedger: Hedger,
}

impl HedgeLayer {
    /// A layer that hedges as `hedger` is told.
    pub fn new(hedger: Hedger) -> Self {
        Self { hedger }
    }
}

impl<S> Layer<Vec<S>> for HedgeLayer {
    type Service = HedgedService<S>;

    fn layer(&self, replicas: Vec<S>) -> HedgedService<S> {
        HedgedService {
            hedger: self.hedger.clone(),
            replicas: replicas.into(),
            next: Arc::default(),
        }
    }
}

/// A service over several replicas: each call begins at the next one in turn, and its hedges go to those after it.
///
/// It is always ready: whether a replica is ready is part of what an attempt waits for, so that a hedge also helps
/// against a replica that takes no requests. Give each replica's service a bound on what it queues.
///
/// A call of a service without replicas never answers; its deadline, if it has one, ends it.
#[derive(Clone, Debug)]
pub struct HedgedService<S> {
    hedger: Hedger,
    replicas: Arc<[S]>,
    next: Arc<AtomicUsize>,
}

impl<S, Request> Service<Request> for HedgedService<S>
where
    S: Service<Request> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send,
    Request: Clone + Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = CallError<S::Error>;
    type Future = BoxFuture<'static, Result<S::Response, CallError<S::Error>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Self {
            hedger,
            replicas,
            next,
        } = self.clone();
        let turn = next.fetch_add(1, Ordering::Relaxed).checked_rem(replicas.len());
        async move {
            hedger
                .call(replicas.len(), |attempt| {
                    let place = turn.map(|turn| (turn + attempt.number) % replicas.len());
                    let replica = place.and_then(|place| replicas.get(place)).cloned();
                    let request = request.clone();
                    async move {
                        match replica {
                            Some(replica) => replica.oneshot(request).await,
                            None => std::future::pending().await,
                        }
                    }
                })
                .await
        }
        .boxed()
    }
}
