//! What hedging may cost, whatever happens, in virtual time.

#![allow(clippy::unwrap_used)] // Helpers of tests.

mod common;

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use common::{Scraped, document_with};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use hedgerow_client::{Attempt, Call, CallError, Hedger, Metrics, OnFailure};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

const MS: Duration = Duration::from_millis(1);

/// An hour of two calls a second, none of them slow: the bucket saves what it may. Then 20 a second, all of them slow.
#[tokio::test(start_paused = true)]
async fn when_all_calls_turn_slow_after_an_hour_hedges_in_any_10_s_stay_within_percent_and_burst() {
    let (hedger, feed) = Hedger::builder("t").follow_feed();
    let document = document_with([("/budget/percent", json!(5)), ("/deadlineMs", json!(3000))]);
    feed.update(document).unwrap();
    for _ in 0..3600 * 2 {
        hedger.call(2, |_| async { Ok::<_, ()>(()) }).await.unwrap();
        sleep(500 * MS).await;
    }
    let (began, hedges) = (Instant::now(), RefCell::new(Vec::new()));
    let calls = FuturesUnordered::new();
    for number in 0..60 * 20 {
        let (hedger, hedges) = (&hedger, &hedges);
        calls.push(async move {
            sleep_until(began + number * 50 * MS).await;
            let slow = |attempt: Attempt| {
                if attempt.is_hedge() {
                    hedges.borrow_mut().push(began.elapsed());
                }
                sleep(2000 * MS).map(Ok::<_, ()>)
            };
            hedger.call(2, slow).await.unwrap();
        });
    }
    calls.collect::<Vec<_>>().await;
    let hedges = hedges.into_inner();
    for first in &hedges {
        let within = |at: &&Duration| (*first..*first + Duration::from_secs(10)).contains(at);
        let count = hedges.iter().filter(within).count();
        // 5 % of 200 calls, and the burst of 10.
        assert!(count <= 20, "{count} hedges in the 10 s from {first:?} on");
    }
    // All that the hour saved is the burst. 5 % of 1200 calls come to it, but for the 10 of the half second before the
    // first hedge is due: they pay into a full bucket. So 10 and 59.5.
    assert_eq!(hedges.len(), 69);
}

/// One thing that happens after a pause.
#[derive(Clone, Debug)]
enum Step {
    /// A call whose attempts take so long, fail or not, and whose connections live on for so long.
    Call(Vec<(u32, bool, u32)>),
    /// Another document; `None` is off.
    Document(Option<Terms>),
}

/// What a document says of attempts and budget.
#[derive(Clone, Copy, Debug)]
struct Terms {
    delay: u32,
    max_attempts: u8,
    percent: f64,
    min_per_second: f64,
    max_concurrent: u32,
}

impl Terms {
    fn document(self) -> String {
        document_with([
            ("/delayMs", json!(self.delay)),
            ("/maxAttempts", json!(self.max_attempts)),
            ("/budget/percent", json!(self.percent)),
            ("/budget/minPerSecond", json!(self.min_per_second)),
            ("/budget/maxConcurrent", json!(self.max_concurrent)),
        ])
    }
}

fn any_terms() -> impl Strategy<Value = Terms> {
    let min_per_second = prop_oneof![2 => Just(0.0), 1 => 0.0..50.0_f64];
    (1..400_u32, 2..=5_u8, 1.0..=100.0_f64, min_per_second, 1..8_u32).prop_map(
        |(delay, max_attempts, percent, min_per_second, max_concurrent)| Terms {
            delay,
            max_attempts,
            percent,
            min_per_second,
            max_concurrent,
        },
    )
}

fn any_steps() -> impl Strategy<Value = Vec<(u32, Step)>> {
    let attempt = (0..1500_u32, any::<bool>(), 0..300_u32);
    let document = prop_oneof![1 => Just(None), 4 => any_terms().prop_map(Some)];
    let step = prop_oneof![
        20 => vec(attempt, 1..6).prop_map(Step::Call),
        1 => document.prop_map(Step::Document),
    ];
    let pause = prop_oneof![2 => Just(0), 2 => 0..20_u32, 1 => 0..2000_u32];
    vec((pause, step), 1..150)
}

/// What was paid for, what was spent, and when: an account that knows nothing of the client's.
struct Account {
    followed: Option<Terms>,
    since: Instant,
    calls: Vec<Instant>,
    entries: Vec<Entry>,
}

struct Entry {
    /// By the calls and the time since the entry before.
    paid: f64,
    /// What may be saved at most.
    saved: f64,
    /// Hedges and retries.
    spent: u32,
}

impl Account {
    fn new(followed: Terms) -> Self {
        let mut account = Self {
            followed: None,
            since: Instant::now(),
            calls: Vec::new(),
            entries: Vec::new(),
        };
        account.follow(Some(followed));
        account
    }

    fn follow(&mut self, document: Option<Terms>) {
        self.enter(0.0, 0);
        let came_or_went = self.followed.is_none() || document.is_none();
        self.followed = document;
        self.enter(0.0, 0);
        if let Some(entry) = self.entries.last_mut()
            && came_or_went
        {
            entry.saved = 0.0;
        }
    }

    fn call(&mut self) {
        self.calls.push(Instant::now());
        let share = self.followed.map_or(0.0, |terms| terms.percent / 100.0);
        self.enter(share, 0);
    }

    fn spend(&mut self) {
        self.enter(0.0, 1);
    }

    fn enter(&mut self, share: f64, spent: u32) {
        let elapsed = std::mem::replace(&mut self.since, Instant::now()).elapsed();
        let last_second = self.calls.iter().filter(|call| call.elapsed() <= 1000 * MS);
        let calls = last_second.count() as f64;
        let (per_second, saved) = self.followed.map_or((0.0, 0.0), |terms| {
            (terms.min_per_second, (terms.percent / 100.0 * calls).max(10.0))
        });
        self.entries.push(Entry {
            paid: share + per_second * elapsed.as_secs_f64(),
            saved,
            spent,
        });
    }

    /// In any stretch no more was spent than was paid in it and saved at its start.
    fn check(&self) -> Result<(), TestCaseError> {
        // From each entry back: by how much more is spent than paid, at most, in the stretches that begin after it.
        let mut excess = 0.0_f64;
        for Entry { paid, saved, spent } in self.entries.iter().rev() {
            let needed = excess + f64::from(*spent);
            prop_assert!(
                needed <= saved + 1e-6,
                "{needed} beyond what is paid, {saved} saved"
            );
            excess = (needed - paid).max(0.0);
        }
        Ok(())
    }
}

/// Calls, and again as a whole while that is paid for. Says how many attempts were sent.
async fn call(
    hedger: &Hedger,
    attempts: Vec<(u32, bool, u32)>,
    most_in_flight: &Cell<u32>,
    account: &RefCell<Account>,
) -> usize {
    account.borrow_mut().call();
    let sent = Cell::new(0);
    let once = async |call: &Call| {
        let attempt = |attempt: Attempt| {
            if sent.get() > 0 {
                account.borrow_mut().spend();
            }
            sent.set(sent.get() + 1);
            most_in_flight.set(most_in_flight.get().max(hedger.hedges_in_flight()));
            let (takes, fails, lingers) = attempts[sent.get() % attempts.len()];
            let completion = attempt.completion();
            tokio::spawn(sleep((takes + lingers) * MS).map(|()| drop(completion)));
            sleep(takes * MS).map(move |()| if fails { Err(()) } else { Ok(()) })
        };
        call.hedge(3, attempt).await
    };
    let answer = hedger.scope(async |call| {
        loop {
            match once(&call).await {
                Err(CallError::NoValidAnswer { .. }) if call.retry().is_ok() => {}
                answer => break answer,
            }
        }
    });
    // Which it is does not matter here.
    let _ = answer.await;
    sent.get()
}

async fn play(first: Terms, steps: Vec<(u32, Step)>, on_failure: OnFailure) -> Result<(), TestCaseError> {
    let metrics = Metrics::default();
    let (hedger, feed) = Hedger::builder("shard-read")
        .metrics(&metrics)
        .on_failure(on_failure)
        .follow_feed();
    let scraped = Scraped::new(&metrics);
    feed.update(first.document()).unwrap();
    let account = RefCell::new(Account::new(first));
    let (mut followed, mut most_permits) = (Some(first), first.max_concurrent);
    let most_in_flight = Cell::new(0);
    let mut calls = FuturesUnordered::new();
    let mut calls_begun = 0;
    for (pause, step) in steps {
        // Calls in flight go on meanwhile.
        let mut pausing = pin!(sleep(pause * MS));
        loop {
            tokio::select! {
                biased;
                Some((sent, most)) = calls.next() => prop_assert!(sent <= most, "{sent} attempts, {most} allowed"),
                () = &mut pausing => break,
            }
        }
        match step {
            Step::Call(attempts) => {
                calls_begun += 1;
                let most = followed.map_or(1, |terms| usize::from(terms.max_attempts));
                let sent = call(&hedger, attempts, &most_in_flight, &account);
                let mut sent = Box::pin(sent.map(move |sent| (sent, most)));
                // Begun now, under the document of now.
                match futures::poll!(&mut sent) {
                    Poll::Ready((sent, most)) => prop_assert!(sent <= most),
                    Poll::Pending => calls.push(sent),
                }
            }
            Step::Document(document) => {
                match document {
                    Some(terms) => feed.update(terms.document()).unwrap(),
                    None => feed.withdraw(),
                }
                most_permits = document.map_or(most_permits, |terms| terms.max_concurrent.max(most_permits));
                followed = document;
                account.borrow_mut().follow(document);
            }
        }
    }
    while let Some((sent, most)) = calls.next().await {
        prop_assert!(sent <= most, "{sent} attempts, {most} allowed");
    }
    let extra = {
        let account = account.borrow();
        account.check()?;
        account
            .entries
            .iter()
            .map(|entry| u64::from(entry.spent))
            .sum::<u64>()
    };
    prop_assert_eq!(scraped.count("hedges") + scraped.count("retries"), extra);
    prop_assert_eq!(scraped.count("calls"), calls_begun);
    prop_assert_eq!(scraped.count("attempts"), calls_begun + extra);
    prop_assert!(most_in_flight.get() <= most_permits);
    // The longest connection lives for 1.8 s.
    sleep(2000 * MS).await;
    prop_assert_eq!(hedger.hedges_in_flight(), 0, "a permit leaked");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// In no stretch are hedges and retries more than the documents paid for and what was saved at its start, attempts of a call never more than its document
    /// allows, hedges in flight never more than permits, and all permits come back.
    #[test]
    fn whatever_arrives_and_whatever_documents_come_the_limits_hold(
        first in any_terms(),
        steps in any_steps(),
        in_place in any::<bool>(),
    ) {
        let on_failure = if in_place { OnFailure::Retry } else { OnFailure::End };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(play(first, steps, on_failure))?;
    }
}
