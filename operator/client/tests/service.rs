//! Hedging as a Tower service, in virtual time.

#![cfg(feature = "tower")]
#![allow(clippy::unwrap_used)] // Helpers of tests.

mod common;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use common::generous;
use hedgerow_client::{
    ATTEMPT_HEADER, Attempt, Blocked, CallError, CallLayer, HedgeLayer, Hedgeable, Hedger,
};
use http::{HeaderName, Request, Response};
use tokio::time::{Instant, sleep};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt, service_fn};

const MS: Duration = Duration::from_millis(1);

type Replica = BoxCloneSyncService<Request<()>, Response<&'static str>, Infallible>;

/// A replica that answers with its name after so many milliseconds.
fn replica(name: &'static str, after: u32) -> Replica {
    BoxCloneSyncService::new(service_fn(move |_| async move {
        sleep(after * MS).await;
        Ok(Response::new(name))
    }))
}

fn hedger() -> Hedger {
    let (hedger, feed) = Hedger::builder("shard-read").follow_feed();
    feed.update(generous()).unwrap();
    hedger
}

#[tokio::test(start_paused = true)]
async fn calls_take_turns_and_a_hedge_goes_to_the_replica_after() {
    let mut service = HedgeLayer::new(hedger()).layer(vec![replica("slow", 900), replica("fast", 100)]);
    // The bucket starts empty and gains 1000 tokens a second.
    sleep(10 * MS).await;
    for (answer, took) in [("fast", 600), ("fast", 100), ("fast", 600), ("fast", 100)] {
        let began = Instant::now();
        let answered = service.ready().await.unwrap().call(Request::new(())).await;
        assert_eq!(answered.unwrap().into_body(), answer);
        assert_eq!(began.elapsed(), took * MS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_not_ready_is_hedged_like_a_slow_one() {
    let never_ready =
        tower::limit::ConcurrencyLimit::new(service_fn(|_| async { Ok(Response::new("never")) }), 0);
    let replicas = vec![BoxCloneSyncService::new(never_ready), replica("fast", 100)];
    let service = HedgeLayer::new(hedger()).layer(replicas);
    sleep(10 * MS).await;
    let began = Instant::now();
    let answered = service.oneshot(Request::new(())).await;
    assert_eq!(answered.unwrap().into_body(), "fast");
    assert_eq!(began.elapsed(), 600 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_service_without_replicas_is_refused() {
    let service = HedgeLayer::new(hedger()).layer(Vec::<Replica>::new());
    let answer = service.oneshot(Request::new(())).await;
    assert_eq!(answer.unwrap_err(), CallError::Refused(Blocked::Replicas));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_the_check_refuses_does_not_win() {
    let layer = HedgeLayer::new(hedger()).check(|answer: &Response<&str>| match *answer.body() {
        "stale" => Err("stale".into()),
        _ => Ok(()),
    });
    let service = layer.layer(vec![replica("stale", 600), replica("fresh", 400)]);
    sleep(10 * MS).await;
    let began = Instant::now();
    let answered = service.oneshot(Request::new(())).await;
    assert_eq!(answered.unwrap().into_body(), "fresh");
    assert_eq!(began.elapsed(), 900 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_says_so_in_the_header_of_ones_choice_and_a_primary_does_not() {
    const NAME: HeaderName = HeaderName::from_static("x-extra");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let replica = {
        let seen = Arc::clone(&seen);
        service_fn(move |request: Request<()>| {
            seen.lock().unwrap().push([NAME, ATTEMPT_HEADER].map(|name| {
                let value = request.headers().get(name);
                value.map(|value| value.to_str().unwrap().to_owned())
            }));
            async {
                sleep(900 * MS).await;
                Ok::<_, Infallible>(Response::new(()))
            }
        })
    };
    let service = HedgeLayer::new(hedger()).header(NAME).layer(vec![replica; 2]);
    sleep(10 * MS).await;
    service.oneshot(Request::new(())).await.unwrap();
    assert_eq!(
        *seen.lock().unwrap(),
        [[None, None], [Some("1".to_owned()), None]]
    );
}

#[tokio::test(start_paused = true)]
async fn what_runs_in_an_attempt_finds_it_and_another_task_finds_what_the_request_carries() {
    let replica = service_fn(|request: Request<()>| async move {
        let here = Attempt::current().map(|attempt| attempt.number);
        assert_eq!(request.attempt().map(|attempt| attempt.number), here);
        if here == Some(0) {
            sleep(900 * MS).await;
        }
        let elsewhere = tokio::spawn(async move { request.attempt() }).await.unwrap();
        Ok::<_, Infallible>(Response::new((here, elsewhere.map(|attempt| attempt.number))))
    });
    let layer = HedgeLayer::new(hedger());
    sleep(10 * MS).await;
    for (layer, elsewhere) in [(layer.clone(), None), (layer.carried(), Some(1))] {
        let service = layer.layer(vec![replica; 2]);
        let answered = service.oneshot(Request::new(())).await;
        assert_eq!(answered.unwrap().into_body(), (Some(1), elsewhere));
    }
    assert!(Attempt::current().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_begins_within_an_attempt_of_another_is_no_part_of_that() {
    let is_part = service_fn(|request: Request<()>| async move {
        Ok::<_, CallError<Infallible>>(Response::new(request.attempt().is_some()))
    });
    let inner = CallLayer::new(hedger()).layer(is_part);
    let layer = HedgeLayer::new(hedger());
    for layer in [layer.clone(), layer.carried()] {
        let outer = layer.layer(vec![inner.clone()]);
        let answered = outer.oneshot(Request::new(())).await;
        assert!(!answered.unwrap().into_body());
    }
}

#[tokio::test(start_paused = true)]
async fn losers_go_at_once_though_the_future_that_answered_is_kept() {
    let in_flight = Arc::new(Mutex::new(Vec::<Weak<()>>::new()));
    let replica = {
        let in_flight = Arc::clone(&in_flight);
        service_fn(move |_: Request<()>| {
            let alive = Arc::new(());
            in_flight.lock().unwrap().push(Arc::downgrade(&alive));
            async move {
                let _alive = alive;
                match Attempt::current() {
                    Some(attempt) if attempt.is_hedge() => Ok::<_, Infallible>(Response::new(())),
                    _ => std::future::pending().await,
                }
            }
        })
    };
    let mut service = HedgeLayer::new(hedger()).layer(vec![replica; 2]);
    sleep(10 * MS).await;
    let mut answer = pin!(service.call(Request::new(())));
    answer.as_mut().await.unwrap();
    let in_flight = in_flight.lock().unwrap();
    assert_eq!(in_flight.len(), 2);
    assert!(in_flight.iter().all(|attempt| attempt.upgrade().is_none()));
}
