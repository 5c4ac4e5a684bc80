//! Which answer wins, and what becomes of answers that may not, in virtual time.

#![allow(clippy::unwrap_used)] // Helpers of tests.

mod common;

use std::cell::RefCell;
use std::time::Duration;

use common::{Scraped, document_with};
use hedgerow_client::{CallError, Hedger, Invalid, Kind, Metrics, OnFailure, Problem, Returned};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

const MS: Duration = Duration::from_millis(1);

/// What a replica answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    version: u32,
}

/// Version 42 is required.
fn check(answer: &Answer) -> Result<(), Invalid> {
    match answer {
        Answer { status: 200, version } if *version >= 42 => Ok(()),
        Answer { status: 200, version } => Err(format!("version {version}").into()),
        Answer { status, .. } => Err(format!("status {status}").into()),
    }
}

/// A hedger of three attempts with tokens for ten, and a hedge each `delay` milliseconds.
async fn hedger(delay: u32, on_failure: OnFailure) -> (Hedger, Scraped) {
    let metrics = Metrics::default();
    let (hedger, feed) = Hedger::builder("shard-read")
        .metrics(&metrics)
        .on_failure(on_failure)
        .follow_feed();
    feed.update(document_with([
        ("/delayMs", json!(delay)),
        ("/maxAttempts", json!(3)),
        ("/budget/minPerSecond", json!(1000)),
    ]))
    .unwrap();
    sleep(10 * MS).await;
    (hedger, Scraped::new(&metrics))
}

/// Calls A, B and C, each of which answers so many milliseconds after the call began, or after it was asked if that is
/// later.
async fn call(hedger: &Hedger, answers: [(u32, Answer); 3]) -> (Result<Answer, CallError<()>>, Duration) {
    let began = Instant::now();
    let attempt = |attempt: hedgerow_client::Attempt| {
        let (after, answer) = answers[attempt.number];
        async move {
            sleep_until(began + after * MS).await;
            Ok(answer)
        }
    };
    let answer = hedger.call_checked(3, attempt, check).await;
    (answer, began.elapsed())
}

const BUSY: Answer = Answer {
    status: 503,
    version: 0,
};
const STALE: Answer = Answer {
    status: 200,
    version: 40,
};
const FRESH: Answer = Answer {
    status: 200,
    version: 42,
};

fn invalid(number: usize, kind: Kind, after: u32, why: &'static str) -> Returned<()> {
    Returned {
        number,
        kind,
        after: after * MS,
        problem: Problem::Invalid(why.into()),
    }
}

#[tokio::test(start_paused = true)]
async fn neither_a_fast_failure_nor_a_stale_replica_wins_over_the_first_valid_answer() {
    let answers = [(10, BUSY), (90, FRESH), (70, STALE)];
    let (hedger, scraped) = hedger(4, OnFailure::End).await;
    assert_eq!(call(&hedger, answers).await, (Ok(FRESH), 90 * MS));
    assert_eq!((scraped.count("hedges"), scraped.count("wins")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_answer_does_not_move_the_time_of_the_next_hedge() {
    // A is invalid while B is in flight: C is asked at its time all the same, neither sooner nor later.
    let (hedger, _) = hedger(30, OnFailure::End).await;
    let sent = RefCell::new(Vec::new());
    let began = Instant::now();
    let answer = hedger.call_checked(
        3,
        |attempt| {
            sent.borrow_mut().push(began.elapsed());
            async move {
                sleep([40 * MS, 500 * MS, 20 * MS][attempt.number]).await;
                Ok::<_, ()>([BUSY, FRESH, FRESH][attempt.number])
            }
        },
        check,
    );
    assert_eq!(answer.await, Ok(FRESH));
    assert_eq!(sent.into_inner(), [Duration::ZERO, 30 * MS, 60 * MS]);
    assert_eq!(began.elapsed(), 80 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_fails_fast_ends_the_call_and_costs_nothing() {
    let answers = [(10, BUSY), (0, FRESH), (0, FRESH)];
    let (hedger, scraped) = hedger(30, OnFailure::End).await;
    let (answer, took) = call(&hedger, answers).await;
    assert_eq!(
        answer.unwrap_err().returned(),
        [invalid(0, Kind::Primary, 10, "status 503")]
    );
    assert_eq!(took, 10 * MS);
    assert_eq!((scraped.count("attempts"), scraped.count("retries")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn where_it_is_wanted_the_next_replica_is_asked_in_the_place_of_one_that_failed() {
    // A fails at 10 ms and B takes its place; C comes as a hedge at 30 ms, is stale at 70 ms, and B answers at 90 ms.
    let answers = [(10, BUSY), (90, FRESH), (70, STALE)];
    let (hedger, scraped) = hedger(30, OnFailure::Retry).await;
    assert_eq!(call(&hedger, answers).await, (Ok(FRESH), 90 * MS));
    let counts = ["attempts", "retries", "hedges", "wins"].map(|name| scraped.count(name));
    assert_eq!(counts, [3, 1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_in_its_place_is_no_hedge_and_needs_attempts_replicas_and_budget() {
    let answers = [(10, BUSY), (20, BUSY), (25, STALE)];
    let (hedger, scraped) = hedger(500, OnFailure::Retry).await;
    let (answer, took) = call(&hedger, answers).await;
    // Three attempts are all that the document allows.
    assert_eq!(
        answer.unwrap_err().returned(),
        [
            invalid(0, Kind::Primary, 10, "status 503"),
            invalid(1, Kind::Retry, 10, "status 503"),
            invalid(2, Kind::Retry, 5, "version 40"),
        ]
    );
    assert_eq!(took, 25 * MS);
    assert_eq!((scraped.count("hedges"), scraped.count("retries")), (0, 2));

    // Failure after failure spends the budget, and then each call ends at its first one.
    let (poor, feed) = Hedger::builder("t").on_failure(OnFailure::Retry).follow_feed();
    feed.update(document_with([])).unwrap();
    let asked = RefCell::new(0);
    for _ in 0..1000 {
        let attempt = |_| {
            *asked.borrow_mut() += 1;
            async { Err::<(), _>("refused") }
        };
        poor.call(9, attempt).await.unwrap_err();
    }
    // 10 % of 1000 calls, and no more.
    assert_eq!(asked.into_inner(), 1100);
}

#[tokio::test(start_paused = true)]
async fn when_nothing_is_valid_the_error_says_what_each_attempt_returned() {
    let answers = [(10, BUSY), (90, STALE), (70, STALE)];
    let (hedger, scraped) = hedger(4, OnFailure::End).await;
    let (answer, took) = call(&hedger, answers).await;
    let expected = CallError::NoValidAnswer {
        returned: vec![
            invalid(0, Kind::Primary, 10, "status 503"),
            invalid(2, Kind::Hedge, 62, "version 40"),
            invalid(1, Kind::Hedge, 86, "version 40"),
        ],
    };
    assert_eq!((answer, took), (Err(expected), 90 * MS));
    assert_eq!(scraped.count("wins"), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_returned_before_the_deadline_is_said_with_it() {
    let answers = [(10, BUSY), (5000, FRESH), (5000, FRESH)];
    let (hedger, _) = hedger(4, OnFailure::End).await;
    let (answer, took) = call(&hedger, answers).await;
    let expected = CallError::DeadlineExceeded {
        returned: vec![invalid(0, Kind::Primary, 10, "status 503")],
    };
    assert_eq!((answer, took), (Err(expected), 1000 * MS));
}
