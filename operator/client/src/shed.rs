//! What a server does with hedges when it is busy.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use prometheus_client::metrics::counter::Counter;
use tower::{Layer, Service};

use crate::{ATTEMPT_HEADER, Metrics};

/// Turns hedges away at a server while more than so many of its requests are in flight. Primaries pass untouched: a
/// hedge that waits behind them helps nobody, and its call has an attempt elsewhere.
///
/// Hedges are known by [`ATTEMPT_HEADER`]. They are answered with [`Unavailable`], or as [`answer`](Self::answer) says.
/// All services that one layer (or its clones) makes share one count of requests in flight, from their call to their
/// response's head. Put it outside of whatever queues requests.
#[derive(Clone, Debug)]
pub struct ShedHedgesLayer<A = Unavailable> {
    line: usize,
    header: HeaderName,
    answer: A,
    in_flight: Arc<AtomicUsize>,
    shed: Counter,
}

impl ShedHedgesLayer {
    /// Turns hedges away while more than `line` requests are in flight, the hedge itself not counted.
    pub fn new(line: usize) -> Self {
        Self {
            line,
            header: ATTEMPT_HEADER,
            answer: Unavailable,
            in_flight: Arc::default(),
            shed: Counter::default(),
        }
    }
}

impl<A> ShedHedgesLayer<A> {
    /// Answers with what this function says: `Fn(&Request<B>) -> Result<Response<R>, E>`.
    #[must_use]
    pub fn answer<F>(self, answer: F) -> ShedHedgesLayer<F> {
        ShedHedgesLayer {
            line: self.line,
            header: self.header,
            answer,
            in_flight: self.in_flight,
            shed: self.shed,
        }
    }

    /// The header by which hedges are known, instead of [`ATTEMPT_HEADER`].
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> Self {
        self.header = name;
        self
    }

    /// Counts in these metrics, as `hedgerow_client_hedges_shed_total`.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.shed = metrics.hedges_shed.clone();
        self
    }
}

/// Says how a hedge is turned away: a function, or [`Unavailable`].
pub trait TurnAway<Request, Response, Error> {
    /// The answer to `hedge`.
    ///
    /// # Errors
    /// When it is to be answered with an error of the service.
    fn turn_away(&self, hedge: &Request) -> Result<Response, Error>;
}

impl<Q, R, E, F: Fn(&Q) -> Result<R, E>> TurnAway<Q, R, E> for F {
    fn turn_away(&self, hedge: &Q) -> Result<R, E> {
        self(hedge)
    }
}

/// Turns a hedge away with `503 Service Unavailable`, and one of gRPC with its status `RESOURCE_EXHAUSTED`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unavailable;

impl<B, R: Default, E> TurnAway<Request<B>, Response<R>, E> for Unavailable {
    fn turn_away(&self, hedge: &Request<B>) -> Result<Response<R>, E> {
        let mut answer = Response::new(R::default());
        let content = hedge.headers().get(CONTENT_TYPE);
        match content.filter(|content| content.as_bytes().starts_with(b"application/grpc")) {
            Some(content) => {
                let headers = answer.headers_mut();
                headers.insert(CONTENT_TYPE, content.clone());
                headers.insert("grpc-status", HeaderValue::from_static("8"));
                headers.insert(
                    "grpc-message",
                    HeaderValue::from_static("busy: hedge turned away"),
                );
            }
            None => *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE,
        }
        Ok(answer)
    }
}

impl<S, A: Clone> Layer<S> for ShedHedgesLayer<A> {
    type Service = ShedHedges<S, A>;

    fn layer(&self, inner: S) -> ShedHedges<S, A> {
        ShedHedges {
            layer: self.clone(),
            inner,
        }
    }
}

/// Turns hedges away while it is busy. Made by [`ShedHedgesLayer`].
#[derive(Clone, Debug)]
pub struct ShedHedges<S, A = Unavailable> {
    layer: ShedHedgesLayer<A>,
    inner: S,
}

impl<S, A, B, R> Service<Request<B>> for ShedHedges<S, A>
where
    S: Service<Request<B>, Response = Response<R>>,
    A: TurnAway<Request<B>, Response<R>, S::Error>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ShedFuture<S::Future, Response<R>, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let ShedHedgesLayer {
            line,
            header,
            answer,
            in_flight,
            shed,
        } = &self.layer;
        if request.headers().contains_key(header) && in_flight.load(Relaxed) > *line {
            shed.inc();
            return ShedFuture {
                state: State::TurnedAway {
                    answer: Some(answer.turn_away(&request)),
                },
            };
        }
        let place = Place::take(in_flight);
        ShedFuture {
            state: State::Served {
                answer: self.inner.call(request),
                _place: place,
            },
        }
    }
}

/// A place among the requests in flight.
#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(in_flight: &Arc<AtomicUsize>) -> Self {
        in_flight.fetch_add(1, Relaxed);
        Self(Arc::clone(in_flight))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

pin_project! {
    /// The answer of [`ShedHedges`].
    #[derive(Debug)]
    pub struct ShedFuture<F, R, E> {
        #[pin]
        state: State<F, R, E>,
    }
}

pin_project! {
    #[project = StateProjection]
    #[derive(Debug)]
    enum State<F, R, E> {
        Served { #[pin] answer: F, _place: Place },
        TurnedAway { answer: Option<Result<R, E>> },
        Over,
    }
}

impl<F: Future<Output = Result<R, E>>, R, E> Future for ShedFuture<F, R, E> {
    type Output = Result<R, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        let answer = match state.as_mut().project() {
            StateProjection::Served { answer, .. } => Some(ready!(answer.poll(context))),
            StateProjection::TurnedAway { answer } => answer.take(),
            StateProjection::Over => None,
        };
        // The place goes with the answer, however long its receiver keeps the future.
        state.set(State::Over);
        answer.map_or(Poll::Pending, Poll::Ready)
    }
}
