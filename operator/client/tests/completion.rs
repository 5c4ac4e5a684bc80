//! When an attempt has really ended, in virtual time.

#![allow(clippy::unwrap_used)] // Helpers of tests.

mod common;

use std::time::Duration;

use common::{Scraped, document_with};
use hedgerow_client::{Attempt, Feed, Hedger, Metrics};
use serde_json::json;
use tokio::time::sleep;

const MS: Duration = Duration::from_millis(1);

/// A hedger with tokens for ten hedges after 100 ms, of which `max_concurrent` may be in flight.
async fn hedger(max_concurrent: u32) -> (Hedger, Feed, Scraped) {
    let metrics = Metrics::default();
    let (hedger, feed) = Hedger::builder("shard-read").metrics(&metrics).follow_feed();
    feed.update(document_with([
        ("/delayMs", json!(100)),
        ("/budget/minPerSecond", json!(1000)),
        ("/budget/maxConcurrent", json!(max_concurrent)),
    ]))
    .unwrap();
    sleep(10 * MS).await;
    (hedger, feed, Scraped::new(&metrics))
}

/// An attempt that answers after so many milliseconds, over a connection that is closed `closing` ms after the attempt
/// has answered or was dropped.
async fn lingers(attempt: Attempt, after: u32, closing: u32) -> Result<usize, ()> {
    struct Connection(Option<hedgerow_client::Completion>, u32);
    impl Drop for Connection {
        fn drop(&mut self) {
            let (completion, closing) = (self.0.take(), self.1);
            tokio::spawn(async move {
                sleep(closing * MS).await;
                drop(completion);
            });
        }
    }
    let _connection = Connection(Some(attempt.completion()), closing);
    sleep(after * MS).await;
    Ok(attempt.number)
}

/// Count and sum, in seconds, of the times that cancelled attempts lived on.
fn survival(scraped: &Scraped) -> (f64, f64) {
    let get = |what| {
        let series = format!("loser_survival_seconds_{what}{{target=\"shard-read\"}}");
        scraped.get(&series).unwrap()
    };
    (get("count"), get("sum"))
}

#[tokio::test(start_paused = true)]
async fn a_hedge_that_lost_keeps_its_permit_until_its_connection_is_closed() {
    let (hedger, _feed, scraped) = hedger(1).await;
    // The primary wins at 150 ms; the hedge's connection is closed at 650 ms.
    let first = hedger.call(2, |attempt| {
        let after = [150, 900][attempt.number];
        lingers(attempt, after, 500)
    });
    assert_eq!(first.await, Ok(0));
    assert_eq!(hedger.hedges_in_flight(), 1);
    // Its hedge is due at 250 ms: the permit is still out.
    let second = hedger.call(2, |attempt| async move {
        sleep(200 * MS).await;
        Ok::<_, ()>(attempt.number)
    });
    assert_eq!(second.await, Ok(0));
    assert_eq!((scraped.count("hedges"), scraped.blocked("concurrency")), (1, 1));
    sleep(299 * MS).await;
    assert_eq!((hedger.hedges_in_flight(), survival(&scraped)), (1, (0.0, 0.0)));
    sleep(2 * MS).await;
    assert_eq!((hedger.hedges_in_flight(), survival(&scraped)), (0, (1.0, 0.5)));
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_lost_is_measured_too_and_needs_no_permit() {
    let (hedger, _feed, scraped) = hedger(1).await;
    let call = hedger.call(2, |attempt| {
        let (after, closing) = [(900, 250), (50, 0)][attempt.number];
        lingers(attempt, after, closing)
    });
    assert_eq!(call.await, Ok(1));
    sleep(MS).await;
    assert_eq!((hedger.hedges_in_flight(), survival(&scraped)), (0, (0.0, 0.0)));
    sleep(250 * MS).await;
    assert_eq!(survival(&scraped), (1.0, 0.25));
}

#[tokio::test(start_paused = true)]
async fn a_hedge_that_won_keeps_its_permit_while_its_answer_streams_and_is_no_survivor() {
    let (hedger, _feed, scraped) = hedger(1).await;
    let call = hedger.call(2, |attempt| async move {
        let completion = attempt.is_hedge().then(|| attempt.completion());
        sleep([900 * MS, 50 * MS][attempt.number]).await;
        Ok::<_, ()>(completion)
    });
    let stream = call.await.unwrap();
    assert_eq!(hedger.hedges_in_flight(), 1);
    drop(stream);
    assert_eq!((hedger.hedges_in_flight(), survival(&scraped)), (0, (0.0, 0.0)));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ended_before_the_cancellation_survived_it_by_nothing() {
    let (hedger, _feed, scraped) = hedger(1).await;
    let call = hedger.call(2, |attempt| async move {
        if attempt.is_hedge() {
            drop(attempt.completion());
        }
        sleep([150 * MS, 900 * MS][attempt.number]).await;
        Ok::<_, ()>(attempt.number)
    });
    assert_eq!(call.await, Ok(0));
    assert_eq!((hedger.hedges_in_flight(), survival(&scraped)), (0, (1.0, 0.0)));
}

#[tokio::test(start_paused = true)]
async fn every_guard_of_an_attempt_must_go() {
    let (hedger, _feed, scraped) = hedger(1).await;
    let guards = std::cell::RefCell::new(Vec::new());
    let call = hedger.call(2, |attempt| {
        if attempt.is_hedge() {
            let guard = attempt.completion();
            guards
                .borrow_mut()
                .extend([guard.clone(), guard, attempt.completion()]);
        }
        async move {
            sleep([150 * MS, 900 * MS][attempt.number]).await;
            Ok::<_, ()>(attempt.number)
        }
    });
    assert_eq!(call.await, Ok(0));
    for guard in guards.into_inner() {
        assert_eq!(hedger.hedges_in_flight(), 1);
        drop(guard);
    }
    assert_eq!((hedger.hedges_in_flight(), survival(&scraped)), (0, (1.0, 0.0)));
}

#[tokio::test(start_paused = true)]
async fn without_a_guard_an_attempt_ends_with_its_future_and_nobody_claims_to_know_its_survival() {
    let (hedger, _feed, scraped) = hedger(1).await;
    let call = hedger.call(2, |attempt| async move {
        sleep([150 * MS, 900 * MS][attempt.number]).await;
        Ok::<_, ()>(attempt)
    });
    // The attempt that is kept, over by now, is no reason to hold anything.
    let attempt = call.await.unwrap();
    let _of_nothing = attempt.completion();
    assert_eq!((hedger.hedges_in_flight(), survival(&scraped)), (0, (0.0, 0.0)));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_caller_drops_cancels_what_is_in_flight() {
    let (hedger, _feed, scraped) = hedger(1).await;
    let call = hedger.call(2, |attempt| lingers(attempt, 900, 100));
    tokio::time::timeout(200 * MS, call).await.unwrap_err();
    assert_eq!(hedger.hedges_in_flight(), 1);
    sleep(101 * MS).await;
    assert_eq!((hedger.hedges_in_flight(), survival(&scraped)), (0, (2.0, 0.2)));
}
