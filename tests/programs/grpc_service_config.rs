//! The format `GrpcServiceConfig`, on gRPC-Java and gRPC-Node.

use std::time::Duration;

use anyhow::ensure;
use hedgerow_config::{Form, GrpcMethod};
use hedgerow_tests::eventually;
use hedgerow_tuner::Orders;

use crate::mounted::Mounted;
use crate::orders::{hedge_after, off, part_of};
use crate::searcher::{Call, Searcher};

const SOON: Duration = Duration::from_secs(60);
const KEY: &str = "sc.json";

/// What the operator writes for `orders`.
fn config(orders: Orders) -> String {
    let place = GrpcMethod {
        service: "search.Shard".to_owned(),
        method: Some("Read".to_owned()),
    };
    Form::GrpcServiceConfig(vec![part_of(orders, place)])
        .render(None)
        .unwrap()
}

/// Checks that a call was hedged once: at least `delay` after it was sent, while the first attempt was still at work.
fn assert_hedged(call: &Call, delay: Duration) {
    assert!(call.said.starts_with("OK call-"), "{call:?}");
    let [first, hedge] = &call.attempts[..] else {
        panic!("not one hedge: {call:?}");
    };
    assert_eq!(first.previous, None, "{call:?}");
    assert_eq!(hedge.previous.as_deref(), Some("1"), "{call:?}");
    assert!(hedge.arrived >= call.sent + delay, "{call:?}");
    let answered = hedge.answered.expect("the hedge answers");
    assert!(first.cancelled.expect("the first loses") > answered, "{call:?}");
}

/// Checks that one attempt was made and answered.
fn assert_not_hedged(call: &Call) {
    assert!(call.said.starts_with("OK call-"), "{call:?}");
    assert_eq!(call.attempts.len(), 1, "{call:?}");
}

async fn a_slow_call_is_hedged_after_the_delay(client: &'static str) {
    let mounted = Mounted::new(KEY, &config(hedge_after(300.0)));
    let searcher = Searcher::start(client, &mounted).await;
    assert_not_hedged(&searcher.call("0").await);
    for _ in 0..3 {
        assert_hedged(&searcher.call("5000,0").await, Duration::from_millis(300));
    }
}

async fn changes_and_off_are_taken_on_while_it_runs(client: &'static str) {
    let mounted = Mounted::empty(KEY);
    let searcher = Searcher::start(client, &mounted).await;
    searcher.logs("is not there", 1).await;
    assert_not_hedged(&searcher.call("1000,0").await);

    mounted.write(&config(hedge_after(2000.0)));
    searcher.logs("is taken on", 1).await;
    assert_hedged(&searcher.call("5000,0").await, Duration::from_secs(2));

    mounted.write(&config(hedge_after(200.0)));
    searcher.logs("is taken on", 2).await;
    eventually("a hedge comes before the old delay", SOON, async || {
        let call = searcher.call("5000,0").await;
        assert_hedged(&call, Duration::from_millis(200));
        let waited = call.attempts[1].arrived - call.sent;
        ensure!(waited < Duration::from_secs(2), "came after {waited:?}");
        Ok(())
    })
    .await
    .unwrap();

    mounted.write(&config(off()));
    searcher.logs("is taken on", 3).await;
    assert_not_hedged(&searcher.call("1000,0").await);
}

/// The library refuses it; that the last good one stays is the example's doing.
async fn a_wrong_file_changes_nothing(client: &'static str) {
    let good = config(hedge_after(300.0));
    let mounted = Mounted::new(KEY, &good);
    let searcher = Searcher::start(client, &mounted).await;
    assert_hedged(&searcher.call("5000,0").await, Duration::from_millis(300));
    let wrong = config(hedge_after(200.0)).replace("\"0.2", "\"soon");
    assert_ne!(wrong, config(hedge_after(200.0)));
    for (times, wrong) in [wrong, "{".to_owned()].into_iter().enumerate() {
        mounted.write(&wrong);
        searcher.logs("is refused and changes nothing", times + 1).await;
        assert_hedged(&searcher.call("5000,0").await, Duration::from_millis(300));
    }
    mounted.write(&config(off()));
    searcher.logs("is taken on", 2).await;
    assert_not_hedged(&searcher.call("1000,0").await);
}

async fn a_file_wrong_from_the_start_hedges_nothing(client: &'static str) {
    let mounted = Mounted::new(KEY, "{");
    let searcher = Searcher::start(client, &mounted).await;
    searcher.logs("is refused and changes nothing", 1).await;
    assert_not_hedged(&searcher.call("1000,0").await);
}

/// The tests, for each client.
macro_rules! on_each_client {
    ($($test:ident),* $(,)?) => {
        mod java {
            $(#[tokio::test]
            async fn $test() {
                super::$test("grpc-java").await;
            })*
        }

        mod node {
            $(#[tokio::test]
            async fn $test() {
                super::$test("grpc-node").await;
            })*
        }
    };
}

on_each_client!(
    a_slow_call_is_hedged_after_the_delay,
    changes_and_off_are_taken_on_while_it_runs,
    a_wrong_file_changes_nothing,
    a_file_wrong_from_the_start_hedges_nothing,
);
