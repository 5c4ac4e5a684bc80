//! What one call does under a document, in virtual time.

#![allow(clippy::unwrap_used)] // Helpers of tests.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use common::{REASONS, Scraped, document_with, generous};
use hedgerow_client::{Attempt, CallError, Feed, Hedger, Kind, Metrics, Problem, Returned};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;
use tokio::time::{Instant, sleep};

const MS: Duration = Duration::from_millis(1);

/// A hedger under `document`, its feed (which it does not need to live) and what it exports.
fn hedger(document: &str) -> (Hedger, Feed, Scraped) {
    let metrics = Metrics::default();
    let (hedger, feed) = Hedger::builder("shard-read").metrics(&metrics).follow_feed();
    feed.update(document).unwrap();
    (hedger, feed, Scraped::new(&metrics))
}

/// The error of a call whose deadline passed before any attempt had returned.
fn deadline_exceeded<E>() -> CallError<E> {
    CallError::DeadlineExceeded { returned: Vec::new() }
}

/// The error of a call whose attempts failed: number, kind, milliseconds from its sending, error.
fn failed<E, const N: usize>(returned: [(usize, Kind, u32, E); N]) -> CallError<E> {
    let returned = returned.map(|(number, kind, after, error)| Returned {
        number,
        kind,
        after: after * MS,
        problem: Problem::Failed(error),
    });
    CallError::NoValidAnswer {
        returned: returned.into(),
    }
}

/// A document under which one hedge may be in flight, and each call pays for one.
fn one_permit() -> String {
    document_with([
        ("/budget/percent", json!(100)),
        ("/budget/maxConcurrent", json!(1)),
    ])
}

/// A document that lets each call pay for a hedge, one each 100 ms.
fn each_100_ms(max_attempts: u8) -> String {
    document_with([
        ("/delayMs", json!(100)),
        ("/maxAttempts", json!(max_attempts)),
        ("/budget/percent", json!(100)),
    ])
}

/// Fills the bucket, by calls that are answered at once.
async fn earn(hedger: &Hedger, calls: u32) {
    for _ in 0..calls {
        hedger.call(2, |_| async { Ok::<_, &str>(0) }).await.unwrap();
    }
}

/// An attempt that answers with its number after so many milliseconds.
async fn answers(attempt: Attempt, after: u32) -> Result<usize, &'static str> {
    sleep(after * MS).await;
    Ok(attempt.number)
}

/// Calls two replicas, of which each answers after its time, and says what came when.
async fn race(hedger: &Hedger, times: [u32; 2]) -> (Result<usize, CallError<&'static str>>, Duration) {
    let began = Instant::now();
    let answer = hedger
        .call(2, |attempt| {
            let after = times[attempt.number];
            answers(attempt, after)
        })
        .await;
    (answer, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_answers_within_the_delay_is_not_hedged() {
    let (hedger, _feed, scraped) = hedger(&generous());
    earn(&hedger, 10).await;
    assert_eq!(race(&hedger, [499, 0]).await, (Ok(0), 499 * MS));
    assert_eq!((scraped.count("attempts"), scraped.count("hedges")), (11, 0));
}

#[tokio::test(start_paused = true)]
async fn a_hedge_is_sent_at_the_delay_and_the_first_success_wins() {
    let (hedger, _feed, scraped) = hedger(&generous());
    earn(&hedger, 10).await;
    assert_eq!(race(&hedger, [3000, 150]).await, (Ok(1), 650 * MS));
    assert_eq!(race(&hedger, [600, 450]).await, (Ok(0), 600 * MS));
    assert_eq!(scraped.count("calls"), 12);
    assert_eq!(scraped.count("attempts"), 14);
    assert_eq!(scraped.count("hedges"), 2);
    assert_eq!(scraped.count("wins"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_attempt_that_lost_is_cancelled_at_once() {
    struct Cancelled<'a>(&'a RefCell<Vec<(usize, Duration)>>, usize, Instant);
    impl Drop for Cancelled<'_> {
        fn drop(&mut self) {
            self.0.borrow_mut().push((self.1, self.2.elapsed()));
        }
    }
    let (hedger, _feed, _) = hedger(&generous());
    earn(&hedger, 10).await;
    let (began, ended) = (Instant::now(), RefCell::new(Vec::new()));
    let ended_at = &ended;
    let call = hedger.call(2, |attempt| async move {
        let _guard = Cancelled(ended_at, attempt.number, began);
        let after = [3000, 150][attempt.number];
        answers(attempt, after).await
    });
    assert_eq!(call.await, Ok(1));
    let mut ended = ended.into_inner();
    ended.sort_unstable();
    assert_eq!(ended, [(0, 650 * MS), (1, 650 * MS)]);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_the_whole_call() {
    let (hedger, _feed, _) = hedger(&generous());
    earn(&hedger, 10).await;
    assert_eq!(
        race(&hedger, [3000, 3000]).await,
        (Err(deadline_exceeded()), 1000 * MS)
    );
}

#[tokio::test(start_paused = true)]
async fn the_shorter_of_the_own_and_the_documents_deadline_holds_and_the_own_one_without_a_document() {
    for (own, expected) in [(300, 300), (2000, 1000)] {
        let (hedger, feed) = Hedger::builder("t").deadline(own * MS).follow_feed();
        feed.update(document_with([])).unwrap();
        assert_eq!(
            race(&hedger, [9000, 9000]).await,
            (Err(deadline_exceeded()), expected * MS)
        );
        feed.withdraw();
        assert_eq!(
            race(&hedger, [9000, 9000]).await,
            (Err(deadline_exceeded()), own * MS)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn with_too_little_of_the_deadline_left_a_hedge_is_skipped() {
    // At the delay of 500 ms there are 500 ms left.
    for (min_remaining, hedges) in [(500, 1), (501, 0)] {
        let document = document_with([
            ("/minRemainingMs", json!(min_remaining)),
            ("/budget/percent", json!(100)),
        ]);
        let (hedger, _feed, scraped) = hedger(&document);
        earn(&hedger, 10).await;
        race(&hedger, [700, 700]).await.0.unwrap();
        assert_eq!(
            (scraped.count("hedges"), scraped.blocked("deadline")),
            (hedges, 1 - hedges)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_budget_starts_empty_and_a_blocked_hedge_is_skipped_not_queued() {
    let (hedger, _feed, scraped) = hedger(&document_with([]));
    // Nine calls and this one make one token; the first is blocked, and stays so.
    assert_eq!(race(&hedger, [900, 0]).await, (Ok(0), 900 * MS));
    assert_eq!((scraped.count("hedges"), scraped.blocked("budget")), (0, 1));
    earn(&hedger, 8).await;
    assert_eq!(race(&hedger, [900, 0]).await, (Ok(1), 500 * MS));
    assert_eq!(race(&hedger, [900, 0]).await, (Ok(0), 900 * MS));
    assert_eq!((scraped.count("hedges"), scraped.blocked("budget")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn no_more_hedges_than_permits_are_in_flight_and_permits_come_back() {
    let (hedger, _feed, scraped) = hedger(&one_permit());
    earn(&hedger, 10).await;
    let (first, second) = tokio::join!(race(&hedger, [900, 300]), race(&hedger, [900, 300]));
    let mut took = [first.1, second.1]; // Which of the two got the permit is open.
    took.sort_unstable();
    assert_eq!(took, [800 * MS, 900 * MS]);
    assert_eq!((scraped.count("hedges"), scraped.blocked("concurrency")), (1, 1));
    assert_eq!(race(&hedger, [900, 300]).await, (Ok(1), 800 * MS));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_caller_drops_gives_its_permit_back() {
    let (hedger, _feed, scraped) = hedger(&one_permit());
    earn(&hedger, 10).await;
    tokio::time::timeout(600 * MS, race(&hedger, [900, 900]))
        .await
        .unwrap_err();
    assert_eq!(race(&hedger, [900, 100]).await, (Ok(1), 600 * MS));
    assert_eq!(scraped.blocked("concurrency"), 0);
}

#[tokio::test(start_paused = true)]
async fn hedges_go_to_other_replicas_and_no_further_than_there_are() {
    let (hedger, _feed, scraped) = hedger(&each_100_ms(5));
    earn(&hedger, 10).await;
    let sent = RefCell::new(Vec::new());
    let began = Instant::now();
    let answer = hedger
        .call(3, |attempt| {
            sent.borrow_mut()
                .push((attempt.number, attempt.is_hedge(), began.elapsed()));
            answers(attempt, 800)
        })
        .await;
    assert_eq!(answer, Ok(0));
    assert_eq!(
        sent.into_inner(),
        [
            (0, false, Duration::ZERO),
            (1, true, 100 * MS),
            (2, true, 200 * MS)
        ]
    );
    // Five attempts would have been allowed: two more hedges had no replica to go to.
    assert_eq!((scraped.count("hedges"), scraped.blocked("replicas")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn no_more_attempts_than_the_document_says_are_sent() {
    let (hedger, _feed, scraped) = hedger(&each_100_ms(3));
    earn(&hedger, 10).await;
    hedger.call(9, |attempt| answers(attempt, 800)).await.unwrap();
    assert_eq!(scraped.count("hedges"), 2);
    let blocked: u64 = REASONS.map(|why| scraped.blocked(why)).iter().sum();
    assert_eq!(blocked, 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_stall_of_the_process_hedges_keep_their_distance() {
    let (hedger, _feed, _) = hedger(&each_100_ms(4));
    earn(&hedger, 10).await;
    let (began, sent) = (Instant::now(), RefCell::new(Vec::new()));
    let call = hedger.call(4, |attempt| {
        sent.borrow_mut().push(began.elapsed());
        answers(attempt, 700)
    });
    let stalled = async {
        sleep(10 * MS).await;
        tokio::time::advance(340 * MS).await;
    };
    assert_eq!(tokio::join!(call, stalled).0, Ok(0));
    assert_eq!(sent.into_inner(), [Duration::ZERO, 350 * MS, 450 * MS, 550 * MS]);
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_fails_before_the_delay_fails_the_call_at_once() {
    let (hedger, _feed, scraped) = hedger(&generous());
    earn(&hedger, 10).await;
    let began = Instant::now();
    let answer = hedger
        .call(2, |_| async {
            sleep(100 * MS).await;
            Err::<(), _>("refused")
        })
        .await;
    assert_eq!(
        (answer, began.elapsed()),
        (Err(failed([(0, Kind::Primary, 100, "refused")])), 100 * MS)
    );
    assert_eq!(scraped.count("hedges"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failure_does_not_end_a_call_that_another_attempt_may_still_answer() {
    for failing in [0, 1] {
        let (hedger, _feed, _) = hedger(&generous());
        earn(&hedger, 10).await;
        let answer = hedger
            .call(2, |attempt| async move {
                sleep([700 * MS, 150 * MS][attempt.number]).await;
                if attempt.number == failing {
                    Err("broken")
                } else {
                    Ok(attempt.number)
                }
            })
            .await;
        assert_eq!(answer, Ok(1 - failing));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_fails_when_all_its_attempts_have() {
    let (hedger, _feed, _) = hedger(&generous());
    earn(&hedger, 10).await;
    let began = Instant::now();
    let answer = hedger
        .call(2, |attempt| async move {
            sleep([700 * MS, 150 * MS][attempt.number]).await;
            Err::<(), _>(attempt.number)
        })
        .await;
    let expected = failed([(1, Kind::Hedge, 150, 1), (0, Kind::Primary, 700, 0)]);
    assert_eq!((answer, began.elapsed()), (Err(expected), 700 * MS));
}

#[tokio::test(start_paused = true)]
async fn an_off_document_means_no_hedge_for_calls_that_begin_after_it() {
    let (hedger, feed, scraped) = hedger(&generous());
    earn(&hedger, 10).await;
    feed.update(document_with([("/enabled", json!(false))])).unwrap();
    assert_eq!(race(&hedger, [900, 0]).await, (Ok(0), 900 * MS));
    // Back on, with nothing saved: without minPerSecond the call's own share is all there is.
    feed.update(document_with([])).unwrap();
    assert_eq!(race(&hedger, [900, 0]).await, (Ok(0), 900 * MS));
    assert_eq!((scraped.count("hedges"), scraped.blocked("budget")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn the_share_of_hedges_stays_within_the_percent_when_every_call_is_slow() {
    let (hedger, _feed, scraped) = hedger(&document_with([]));
    for _ in 0..1000 {
        race(&hedger, [900, 900]).await.0.unwrap();
    }
    assert_eq!((scraped.count("hedges"), scraped.blocked("budget")), (100, 900));
}

#[tokio::test(start_paused = true)]
async fn a_call_in_flight_sends_no_hedge_once_hedging_is_off() {
    let off = document_with([("/enabled", json!(false))]);
    let (hedger, feed, scraped) = hedger(&generous());
    earn(&hedger, 10).await;
    let (call, ()) = tokio::join!(race(&hedger, [900, 0]), async {
        sleep(100 * MS).await;
        feed.update(off).unwrap();
    });
    assert_eq!(call, (Ok(0), 900 * MS));
    assert_eq!((scraped.count("hedges"), scraped.blocked("off")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn hedging_that_comes_back_after_an_hour_starts_empty_whatever_min_per_second_says() {
    let slowly = document_with([("/budget/minPerSecond", json!(0.5))]);
    let (hedger, feed, scraped) = hedger(&slowly);
    sleep(20_000 * MS).await;
    feed.withdraw();
    sleep(3_600_000 * MS).await;
    feed.update(slowly).unwrap();
    // 0.5 s at 0.5 a second and a tenth for the call itself: no token.
    assert_eq!(race(&hedger, [900, 0]).await, (Ok(0), 900 * MS));
    assert_eq!(scraped.blocked("budget"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_in_flight_spends_under_the_budget_of_now() {
    let (hedger, feed, scraped) = hedger(&generous());
    earn(&hedger, 10).await;
    // Ten calls at once, all due for a hedge at 500 ms, of which none answers before the deadline.
    let calls = futures::future::join_all((0..10).map(|_| race(&hedger, [5000, 5000])));
    let ((), _) = tokio::join!(
        async {
            sleep(100 * MS).await;
            feed.update(one_permit()).unwrap();
        },
        calls
    );
    assert_eq!((scraped.count("hedges"), scraped.blocked("concurrency")), (1, 9));
}

#[tokio::test(start_paused = true)]
async fn a_hedge_that_lost_or_failed_gives_its_permit_back() {
    let (hedger, _feed, scraped) = hedger(&one_permit());
    earn(&hedger, 10).await;
    // The primary wins.
    assert_eq!(race(&hedger, [600, 400]).await, (Ok(0), 600 * MS));
    // The hedge fails at 550 ms, while its primary goes on; the hedge of the other call is due at 600 ms.
    let failing = hedger.call(2, |attempt| async move {
        sleep([900 * MS, 50 * MS][attempt.number]).await;
        if attempt.is_hedge() { Err("broken") } else { Ok(0) }
    });
    let later = async {
        sleep(100 * MS).await;
        race(&hedger, [900, 100]).await
    };
    assert_eq!(tokio::join!(failing, later), (Ok(0), (Ok(1), 600 * MS)));
    assert_eq!((scraped.count("hedges"), scraped.blocked("concurrency")), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_cancels_every_attempt_and_gives_the_permits_back() {
    let (hedger, _feed, _) = hedger(&one_permit());
    earn(&hedger, 10).await;
    let alive = Rc::new(());
    let answer = hedger
        .call(2, |_| {
            let alive = Rc::clone(&alive);
            async move {
                let _alive = alive;
                std::future::pending::<Result<(), ()>>().await
            }
        })
        .await;
    assert_eq!(answer, Err(deadline_exceeded()));
    assert_eq!(Rc::strong_count(&alive), 1);
    assert_eq!(race(&hedger, [900, 100]).await, (Ok(1), 600 * MS));
}

/// The primary fails while a hedge is in flight, and the next hedge's time comes: it may still be sent.
#[tokio::test(start_paused = true)]
async fn no_two_attempts_share_a_replica_whatever_fails() {
    let (hedger, _feed, scraped) = hedger(&each_100_ms(5));
    earn(&hedger, 10).await;
    let sent = RefCell::new(Vec::new());
    let answer = hedger.call(3, |attempt| {
        sent.borrow_mut().push(attempt.number);
        async move {
            sleep(150 * MS).await;
            if attempt.number < 2 {
                Err("broken")
            } else {
                Ok(attempt.number)
            }
        }
    });
    assert_eq!(answer.await, Ok(2));
    // At 350 ms it is over: the chance at 300 ms found no replica, those at 400 ms and later never came.
    assert_eq!(
        (sent.into_inner(), scraped.blocked("replicas")),
        (vec![0, 1, 2], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn three_attempts_are_two_with_two_replicas() {
    let (hedger, _feed, scraped) = hedger(&each_100_ms(3));
    earn(&hedger, 10).await;
    assert_eq!(race(&hedger, [800, 800]).await.0, Ok(0));
    assert_eq!((scraped.count("hedges"), scraped.blocked("replicas")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_longest_delay_and_deadlines_without_end_are_only_long() {
    let document = document_with([
        ("/delayMs", json!(3_600_000)),
        ("/deadlineMs", json!(3_600_000)),
        ("/budget/percent", json!(100)),
    ]);
    for own in [Duration::MAX, Duration::from_secs(u64::MAX / 2)] {
        let (hedger, feed) = Hedger::builder("t").deadline(own).follow_feed();
        assert_eq!(race(&hedger, [7_200_000, 0]).await, (Ok(0), 7_200_000 * MS));
        feed.update(document.as_str()).unwrap();
        assert_eq!(
            race(&hedger, [7_200_000, 0]).await,
            (Err(deadline_exceeded()), 3_600_000 * MS)
        );
    }
}

proptest! {
    /// A document cut, or with some of its bytes replaced: a call under it ends as it should, and one that is refused
    /// means no hedge.
    #[test]
    fn no_damage_to_a_document_stops_a_call(
        damage in vec((any::<Index>(), any::<u8>()), 0..4),
        keep in any::<Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = generous().into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(keep.index(bytes.len()));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (hedger, feed, scraped) = hedger(&generous());
            earn(&hedger, 10).await;
            let refused = feed.update(bytes).is_err();
            let (answer, took) = race(&hedger, [700, 700]).await;
            prop_assert!(took <= 700 * MS && (answer == Ok(0) || answer == Err(deadline_exceeded())));
            prop_assert!(!refused || scraped.count("hedges") == 0);
            Ok(())
        })?;
    }
}
