//! The format `EnvoyRoute`, on Envoy.

use std::time::Duration;

use anyhow::ensure;
use hedgerow_config::{EnvoyCluster, Form};
use hedgerow_tests::eventually;
use hedgerow_tuner::Orders;

use crate::envoy::{CLUSTER, Call, Envoy};
use crate::examples::example_data;
use crate::mounted::Mounted;
use crate::orders::{hedge_after, off, part_of};

const SOON: Duration = Duration::from_secs(60);

/// The example's routes, which give each attempt 3 s.
fn base() -> String {
    example_data("envoy/routes.yaml", "rds.yaml")
}

/// What the operator writes for `orders`.
fn routes(orders: Orders) -> String {
    let place = EnvoyCluster {
        cluster: CLUSTER.to_owned(),
    };
    Form::EnvoyRoute(vec![part_of(orders, place)])
        .render(Some(&base()))
        .unwrap()
}

/// Checks that a call was hedged: answered by another host, asked at least `delay` after the call was sent, while the first
/// one was still at work.
fn assert_hedged(call: &Call, delay: Duration) {
    assert_eq!(call.status, 200);
    let [first, hedge] = &call.attempts[..] else {
        panic!("not one hedge: {call:?}");
    };
    assert_ne!(first.host, hedge.host, "{call:?}");
    assert!(hedge.arrived >= call.sent + delay, "{call:?}");
    let answered = hedge.answered.expect("the hedge answers");
    assert!(first.cancelled.expect("the first loses") > answered, "{call:?}");
}

/// How long after the call was sent its second attempt arrived.
fn wait_for_second(call: &Call) -> Duration {
    call.attempts[1].arrived - call.sent
}

#[tokio::test]
async fn a_slow_call_is_hedged_to_another_host_after_the_delay() {
    let mounted = Mounted::new("rds.yaml", &routes(hedge_after(300.0)));
    let envoy = Envoy::start(&mounted).await;
    let fast = envoy.call("0").await;
    assert_eq!((fast.status, fast.attempts.len()), (200, 1));
    for _ in 0..4 {
        assert_hedged(&envoy.call("2500,500").await, Duration::from_millis(300));
    }
    envoy.has_refused_nothing().await;
}

#[tokio::test]
async fn a_changed_delay_is_taken_on_while_envoy_runs() {
    let mounted = Mounted::new("rds.yaml", &routes(hedge_after(1500.0)));
    let envoy = Envoy::start(&mounted).await;
    assert_hedged(&envoy.call("2900,0").await, Duration::from_millis(1500));

    mounted.write(&routes(hedge_after(200.0)));
    envoy.takes_on(2).await;
    eventually("a hedge comes before the old delay", SOON, async || {
        let call = envoy.call("2900,0").await;
        assert_hedged(&call, Duration::from_millis(200));
        let waited = wait_for_second(&call);
        ensure!(waited < Duration::from_millis(1500), "came after {waited:?}");
        Ok(())
    })
    .await
    .unwrap();

    mounted.write(&routes(hedge_after(1500.0)));
    envoy.takes_on(3).await;
    assert_hedged(&envoy.call("2900,0").await, Duration::from_millis(1500));
    envoy.has_refused_nothing().await;
}

#[tokio::test]
async fn off_gives_the_users_own_timeout_back() {
    let mounted = Mounted::new("rds.yaml", &base());
    let envoy = Envoy::start(&mounted).await;
    assert_as_without_hedging(&envoy).await;

    mounted.write(&routes(hedge_after(300.0)));
    envoy.takes_on(2).await;
    assert_hedged(&envoy.call("2500,0").await, Duration::from_millis(300));

    mounted.write(&routes(off()));
    envoy.takes_on(3).await;
    assert_as_without_hedging(&envoy).await;
    envoy.has_refused_nothing().await;
}

/// An attempt may take the 3 s of the base: one of 1 s is no error and is not repeated, one of 5 s is given up, and then
/// repeated as the base says.
async fn assert_as_without_hedging(envoy: &Envoy) {
    let slow = envoy.call("1000,0").await;
    assert_eq!((slow.status, slow.attempts.len()), (200, 1), "{slow:?}");

    let too_slow = envoy.call("5000,500").await;
    assert_eq!(too_slow.status, 200);
    let [first, retry] = &too_slow.attempts[..] else {
        panic!("not one retry: {too_slow:?}");
    };
    assert!(
        retry.arrived >= too_slow.sent + Duration::from_secs(3),
        "{too_slow:?}"
    );
    assert!(
        first.cancelled < retry.answered,
        "the first was not given up: {too_slow:?}"
    );
}

/// Why off is more than a document without `hedge_policy`.
#[tokio::test]
async fn a_delay_left_behind_would_cut_calls_short() {
    let left_behind = base().replace("per_try_timeout: 3s", "per_try_timeout: 0.300s");
    let mounted = Mounted::new("rds.yaml", &left_behind);
    let envoy = Envoy::start(&mounted).await;
    assert_eq!(envoy.call("1000,1000").await.status, 504);
}

#[tokio::test]
async fn a_wrong_document_is_counted_and_changes_nothing() {
    let good = routes(hedge_after(300.0));
    let mounted = Mounted::new("rds.yaml", &good);
    let envoy = Envoy::start(&mounted).await;
    for (counter, from, to) in [
        ("update_failure", "timeout: 10s", "timeout: soon"),
        ("update_rejected", "num_retries: 1", "num_tries: 1"),
        ("update_rejected", "name: hedged_routes", "name: routes"),
    ] {
        let wrong = good.replace(from, to);
        assert_ne!(wrong, good);
        let before = envoy.routes(counter).await;
        mounted.write(&wrong);
        eventually(&format!("Envoy refuses {to:?}"), SOON, async || {
            let counted = envoy.routes(counter).await;
            ensure!(counted > before, "{counter} is {counted}");
            Ok(())
        })
        .await
        .unwrap();
        assert_hedged(&envoy.call("2500,0").await, Duration::from_millis(300));
    }
    mounted.write(&routes(off()));
    envoy.takes_on(2).await;
    assert_eq!(envoy.call("1000,0").await.attempts.len(), 1);
}

#[tokio::test]
async fn a_hedge_that_fails_leaves_the_call_to_the_first_attempt() {
    let mounted = Mounted::new("rds.yaml", &routes(hedge_after(300.0)));
    let envoy = Envoy::start(&mounted).await;
    let call = envoy.call("1500,0!").await;
    assert_eq!(call.status, 200);
    let [first, hedge] = &call.attempts[..] else {
        panic!("not one hedge: {call:?}");
    };
    assert!(first.answered > hedge.answered, "{call:?}");
}
