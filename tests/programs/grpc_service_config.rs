//! The format `GrpcServiceConfig`, on gRPC-Java and gRPC-Node.

use std::time::Duration;

use anyhow::ensure;
use hedgerow_config::{Form, GrpcMethod};
use hedgerow_tests::eventually;
use hedgerow_tuner::Orders;

use crate::examples::example_data;
use crate::mounted::Mounted;
use crate::orders::{hedge_after, off, part_of, part_within};
use crate::searcher::{Call, Searcher};

const SOON: Duration = Duration::from_secs(60);
const KEY: &str = "sc.json";

fn read() -> GrpcMethod {
    GrpcMethod {
        service: "search.Shard".to_owned(),
        method: Some("Read".to_owned()),
    }
}

/// What the operator writes for `orders`.
fn config(orders: Orders) -> String {
    Form::GrpcServiceConfig(vec![part_of(orders, read())])
        .render(None)
        .unwrap()
}

/// What it writes over the base of the client's example.
fn config_over_base(client: &str, orders: Orders) -> String {
    let base = example_data(&format!("{client}/base.yaml"), KEY);
    let form = Form::GrpcServiceConfig(vec![part_of(orders, read())]);
    form.render(Some(&base)).unwrap()
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
    for config in [
        config(hedge_after(300.0)),
        config_over_base(client, hedge_after(300.0)),
    ] {
        let mounted = Mounted::new(KEY, &config);
        let searcher = Searcher::start(client, &mounted).await;
        assert_not_hedged(&searcher.call("0").await);
        for _ in 0..3 {
            assert_hedged(&searcher.call("5000,0").await, Duration::from_millis(300));
        }
    }
}

/// The timeout that is written is the deadline, also where that is no whole number of seconds.
async fn a_call_may_take_the_deadline_and_no_longer(client: &'static str) {
    let part = part_within(Duration::from_millis(2900), off(), read());
    let config = Form::GrpcServiceConfig(vec![part]).render(None).unwrap();
    let searcher = Searcher::start(client, &Mounted::new(KEY, &config)).await;
    eventually("an answer comes in time", SOON, async || {
        let call = searcher.call("2200").await;
        ensure!(call.said.starts_with("OK"), "{call:?}");
        Ok(())
    })
    .await
    .unwrap();
    let too_slow = searcher.call("5000").await;
    assert!(too_slow.said.starts_with("DEADLINE_EXCEEDED"), "{too_slow:?}");
}

/// A trap: without hedging the call would have succeeded, a little late. Envoy waits for the first attempt.
async fn a_hedge_that_fails_ends_the_call(client: &'static str) {
    let mounted = Mounted::new(KEY, &config(hedge_after(300.0)));
    let searcher = Searcher::start(client, &mounted).await;
    let call = searcher.call("5000,0!").await;
    assert!(call.said.starts_with("UNAVAILABLE"), "{call:?}");
    assert!(call.attempts[0].cancelled.is_some(), "{call:?}");
}

/// No retries come with hedging: a call whose first attempt fails ends with that.
async fn a_first_attempt_that_fails_ends_the_call(client: &'static str) {
    let mounted = Mounted::new(KEY, &config(hedge_after(300.0)));
    let searcher = Searcher::start(client, &mounted).await;
    let call = searcher.call("0!,0").await;
    assert!(call.said.starts_with("UNAVAILABLE"), "{call:?}");
    assert_eq!(call.attempts.len(), 1, "{call:?}");
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

/// As the base of the example wants it; by the default of gRPC it goes to the same one.
#[tokio::test]
async fn a_hedge_goes_to_another_shard_by_round_robin() {
    let searcher =
        async |config: String| Searcher::start_with_two("grpc-node", &Mounted::new(KEY, &config)).await;
    let by_default = searcher(config(hedge_after(300.0))).await;
    let call = by_default.call("5000,0").await;
    assert_eq!(call.attempts[0].host, call.attempts[1].host, "{call:?}");

    let by_turns = searcher(config_over_base("grpc-node", hedge_after(300.0))).await;
    eventually("both shards are connected", SOON, async || {
        let call = by_turns.call("5000,0").await;
        ensure!(call.attempts[0].host != call.attempts[1].host, "{call:?}");
        Ok(())
    })
    .await
    .unwrap();
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
    a_call_may_take_the_deadline_and_no_longer,
    a_hedge_that_fails_ends_the_call,
    a_first_attempt_that_fails_ends_the_call,
    changes_and_off_are_taken_on_while_it_runs,
    a_wrong_file_changes_nothing,
    a_file_wrong_from_the_start_hedges_nothing,
);
