//! Retries and hedges together: their product cannot happen. In virtual time.

#![cfg(feature = "tower")]
#![allow(clippy::unwrap_used)] // Helpers of tests.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use common::{Scraped, document_with};
use hedgerow_client::{
    ATTEMPT_HEADER, Blocked, CallError, CallLayer, Feed, HedgeLayer, Hedgeable, Hedger, Metrics, RetryPolicy,
};
use http::{Request, Response};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tower::retry::{Retry, RetryLayer};
use tower::util::BoxCloneService;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

const MS: Duration = Duration::from_millis(1);

/// What reached the servers.
#[derive(Clone, Default)]
struct Served(Arc<AtomicU32>);

impl Served {
    fn count(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

type Client = BoxCloneService<Request<()>, Response<()>, CallError<&'static str>>;

/// Retries, hedges over two replicas, and retries to each: all of it on failing replicas, each of which takes `takes`.
fn client(hedger: &Hedger, served: &Served, takes: Duration) -> Client {
    let served = served.clone();
    let replica = service_fn(move |_: Request<()>| {
        served.0.fetch_add(1, Relaxed);
        async move {
            sleep(takes).await;
            Err::<Response<()>, _>("refused")
        }
    });
    let again = |answer: &Result<_, &'static str>| answer.is_err();
    let replica = Retry::new(RetryPolicy::new(again), replica);
    let hedged = HedgeLayer::new(hedger.clone()).layer(vec![replica.clone(), replica]);
    let again = |answer: &Result<_, CallError<&'static str>>| answer.is_err();
    let service = ServiceBuilder::new()
        .layer(CallLayer::new(hedger.clone()))
        .layer(RetryLayer::new(RetryPolicy::new(again)))
        .service(hedged);
    BoxCloneService::new(service)
}

fn hedger(document: &str) -> (Hedger, Feed, Scraped) {
    let metrics = Metrics::default();
    let (hedger, feed) = Hedger::builder("shard-read").metrics(&metrics).follow_feed();
    feed.update(document).unwrap();
    (hedger, feed, Scraped::new(&metrics))
}

/// A hedge each 10 ms, and tokens enough after 10 ms.
fn generous(max_attempts: u8) -> String {
    document_with([
        ("/delayMs", json!(10)),
        ("/maxAttempts", json!(max_attempts)),
        ("/budget/minPerSecond", json!(1000)),
    ])
}

#[tokio::test(start_paused = true)]
async fn retries_outside_and_inside_of_the_hedge_and_the_hedge_share_the_attempts_of_the_call() {
    for (max_attempts, takes) in [(2, 5), (2, 15), (3, 5), (3, 15), (5, 15), (5, 45)] {
        let (hedger, _feed, scraped) = hedger(&generous(max_attempts));
        sleep(10 * MS).await;
        let served = Served::default();
        let error = client(&hedger, &served, takes * MS)
            .oneshot(Request::new(()))
            .await
            .unwrap_err();
        assert!(matches!(error, CallError::NoValidAnswer { .. }), "{error}");
        assert_eq!(served.count(), u32::from(max_attempts), "each taking {takes} ms");
        assert_eq!(scraped.count("calls"), 1);
        assert_eq!(scraped.count("attempts"), u64::from(max_attempts));
        let extra = scraped.count("hedges") + scraped.count("retries");
        assert_eq!(extra, u64::from(max_attempts) - 1);
        assert_eq!(hedger.hedges_in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn retries_and_hedges_share_the_budget() {
    let poor = document_with([("/delayMs", json!(10)), ("/maxAttempts", json!(5))]);
    for takes in [5, 15] {
        let (hedger, _feed, scraped) = hedger(&poor);
        let served = Served::default();
        for _ in 0..1000 {
            let client = client(&hedger, &served, takes * MS);
            client.oneshot(Request::new(())).await.unwrap_err();
        }
        // 10 % of 1000 calls.
        assert_eq!(served.count(), 1100, "each taking {takes} ms");
        assert_eq!(scraped.count("hedges") + scraped.count("retries"), 100);
        assert!(scraped.retries_blocked("budget") >= 900);
    }
}

#[tokio::test(start_paused = true)]
async fn while_hedging_is_off_nothing_is_sent_twice() {
    let (hedger, feed, scraped) = hedger(&document_with([("/enabled", json!(false))]));
    let served = Served::default();
    let client = client(&hedger, &served, 5 * MS);
    client.clone().oneshot(Request::new(())).await.unwrap_err();
    feed.withdraw();
    client.oneshot(Request::new(())).await.unwrap_err();
    assert_eq!(served.count(), 2);
    // Each of the two layers asked once for each call.
    assert_eq!(scraped.retries_blocked("off"), 4);
    assert_eq!(scraped.blocked("off"), 0);
}

#[tokio::test(start_paused = true)]
async fn one_deadline_ends_the_call_with_all_its_retries() {
    let (hedger, _feed, scraped) = hedger(&generous(5));
    sleep(10 * MS).await;
    let served = Served::default();
    let began = Instant::now();
    let answer = client(&hedger, &served, 400 * MS).oneshot(Request::new(())).await;
    assert!(answer.unwrap_err().is_deadline());
    assert_eq!(began.elapsed(), 1000 * MS);
    let took = |what| scraped.get(&format!("call_duration_seconds_{what}{{target=\"shard-read\"}}"));
    assert_eq!((took("count"), took("sum")), (Some(1.0), Some(1.0)));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_would_come_with_too_little_of_the_deadline_left_is_refused_at_once() {
    // With 150 ms of the 1000 ms to be left, a retry may come at 850 ms at the latest; the primary fails at 5 ms.
    for (pause, retried, took) in [(845, 1, 855), (846, 0, 5)] {
        let (hedger, _feed, scraped) = hedger(&generous(2));
        sleep(10 * MS).await;
        let replica = service_fn(|_: Request<()>| async {
            sleep(5 * MS).await;
            Err::<Response<()>, _>("refused")
        });
        let policy = RetryPolicy::new(|_: &Result<_, _>| true).pause(pause * MS);
        let service = ServiceBuilder::new()
            .layer(CallLayer::new(hedger.clone()))
            .layer(RetryLayer::new(policy))
            .service(HedgeLayer::new(hedger).layer(vec![replica]));
        let began = Instant::now();
        service.oneshot(Request::new(())).await.unwrap_err();
        assert_eq!(scraped.count("retries"), retried);
        assert_eq!(scraped.retries_blocked("deadline"), 1);
        assert_eq!(began.elapsed(), took * MS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_sent_again_by_a_layer_that_knows_nothing_of_attempts_is_paid_for_too() {
    // A retry policy of somebody else, around the hedge, that would go on for ever.
    #[derive(Clone)]
    struct Endless(u32);
    impl<Q: Clone, T, E> tower::retry::Policy<Q, T, CallError<E>> for Endless {
        type Future = std::future::Ready<()>;
        fn retry(&mut self, _: &mut Q, answer: &mut Result<T, CallError<E>>) -> Option<Self::Future> {
            self.0 += 1;
            (answer.is_err() && self.0 < 100).then(|| std::future::ready(()))
        }
        fn clone_request(&mut self, request: &Q) -> Option<Q> {
            Some(request.clone())
        }
    }
    let (hedger, _feed, scraped) = hedger(&generous(3));
    sleep(10 * MS).await;
    let served = Served::default();
    let counted = served.clone();
    let replica = service_fn(move |_: Request<()>| {
        counted.0.fetch_add(1, Relaxed);
        async { Err::<Response<()>, _>("refused") }
    });
    let service = ServiceBuilder::new()
        .layer(CallLayer::new(hedger.clone()))
        .layer(RetryLayer::new(Endless(0)))
        .service(HedgeLayer::new(hedger).layer(vec![replica]));
    let error = service.oneshot(Request::new(())).await.unwrap_err();
    assert_eq!(error, CallError::Refused(Blocked::Attempts));
    assert_eq!((served.count(), scraped.count("attempts")), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_carries_nothing_is_retried_inside_of_the_hedge_within_the_attempts_of_its_call() {
    #[derive(Clone)]
    struct Plain;
    impl Hedgeable for Plain {}
    let (hedger, _feed, scraped) = hedger(&generous(3));
    sleep(10 * MS).await;
    let served = Served::default();
    let counted = served.clone();
    let replica = service_fn(move |_: Plain| {
        counted.0.fetch_add(1, Relaxed);
        async { Err::<(), _>("refused") }
    });
    let again = |answer: &Result<_, &str>| answer.is_err();
    let replica = Retry::new(RetryPolicy::new(again), replica);
    let service = HedgeLayer::new(hedger).layer(vec![replica]);
    service.oneshot(Plain).await.unwrap_err();
    assert_eq!((served.count(), scraped.count("attempts")), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn hedges_say_so_in_their_header_and_so_do_their_retries() {
    let (hedger, _feed, _) = hedger(&generous(5));
    sleep(10 * MS).await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let replica = {
        let seen = Arc::clone(&seen);
        service_fn(move |request: Request<()>| {
            let header = request.headers().get(ATTEMPT_HEADER);
            let header = header.map(|value| value.to_str().unwrap().to_owned());
            let carried = request.attempt().map(|attempt| attempt.number);
            seen.lock().unwrap().push((header, carried));
            async move {
                // The primary at 25 ms, the first hedge at once and again at once, the second one never.
                match carried {
                    Some(0) => sleep(25 * MS).await,
                    Some(1) => return Err("refused"),
                    _ => sleep(10_000 * MS).await,
                }
                Ok(Response::new(()))
            }
        })
    };
    let replica = Retry::new(
        RetryPolicy::new(|answer: &Result<_, &str>| answer.is_err()),
        replica,
    );
    let replicas = vec![replica.clone(), replica.clone(), replica];
    let mut service = HedgeLayer::new(hedger).layer(replicas);
    service.call(Request::new(())).await.unwrap();
    let expected = [
        (None, Some(0)),
        (Some("1"), Some(1)),
        (Some("1"), Some(1)),
        (Some("1"), Some(1)),
        (Some("1"), Some(1)),
    ]
    .map(|(header, number)| (header.map(str::to_owned), number));
    // The first hedge's retries took all the attempts that were left.
    assert_eq!(*seen.lock().unwrap(), expected);
}
