//! Hedging as a Tower service, in virtual time.

#![cfg(feature = "tower")]
#![allow(clippy::unwrap_used)] // Helpers of tests.

mod common;

use std::convert::Infallible;
use std::time::Duration;

use common::generous;
use hedgerow_client::{Blocked, CallError, HedgeLayer, Hedger};
use http::{Request, Response};
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
