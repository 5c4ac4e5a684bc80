//! What a call allocates when nothing is hedged.

#![cfg(feature = "tower")]
#![allow(clippy::unwrap_used)] // Helpers of tests.

mod common;

use std::convert::Infallible;
use std::future::Future;

use allocation_counter::measure;
use common::document_with;
use hedgerow_client::{CallLayer, Feed, HedgeLayer, Hedger};
use http::{Request, Response};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tower::{Layer, Service, service_fn};

fn hedger(document: &str) -> (Hedger, Feed) {
    let (hedger, feed) = Hedger::builder("shard-read").follow_feed();
    feed.update(document).unwrap();
    (hedger, feed)
}

/// Answers when it is polled again, so that the timer of its call is set.
async fn answer(_: Request<()>) -> Result<Response<()>, Infallible> {
    yield_now().await;
    Ok(Response::new(()))
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Allocations per call, the same for each of some.
fn per_call<F: Future>(runtime: &Runtime, mut call: impl FnMut() -> F) -> u64 {
    // The first ones set up what all share.
    for _ in 0..10 {
        runtime.block_on(call());
    }
    let counts: Vec<_> = (0..100)
        .map(|_| measure(|| drop(runtime.block_on(call()))).count_total)
        .collect();
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    counts[0]
}

/// The same beyond those of the attempt itself.
fn overhead<F: Future>(runtime: &Runtime, call: impl FnMut() -> F) -> u64 {
    per_call(runtime, call) - per_call(runtime, || answer(Request::new(())))
}

/// The documents under which calls are counted: hedging, and off.
fn documents() -> [String; 2] {
    [document_with([]), document_with([("/enabled", json!(false))])]
}

#[test]
fn a_call_that_is_not_hedged_allocates_once_for_what_its_attempts_share() {
    for document in documents() {
        let (hedger, _feed) = hedger(&document);
        let call = || hedger.call(2, |_| answer(Request::new(())));
        assert_eq!(overhead(&runtime(), call), 1);
    }
}

#[test]
fn the_layer_adds_no_allocation() {
    for document in documents() {
        let (hedger, _feed) = hedger(&document);
        let mut service = HedgeLayer::new(hedger).layer(vec![service_fn(answer); 2]);
        let runtime = runtime();
        let _entered = runtime.enter();
        assert_eq!(overhead(&runtime, || service.call(Request::new(()))), 1);
    }
}

/// The extensions of a request of `http` are a map in a box, of values in boxes: three allocations, and the same again in
/// a clone of it.
#[test]
fn what_requests_carry_costs_what_their_extensions_cost() {
    let off = &documents()[1];
    let (hedger, _feed) = hedger(off);
    let replicas = vec![service_fn(answer); 2];
    let layer = HedgeLayer::new(hedger.clone());
    let mut whole = CallLayer::new(hedger).layer(layer.layer(replicas.clone()));
    let mut carried = layer.carried().layer(replicas);
    let runtime = runtime();
    let _entered = runtime.enter();
    assert_eq!(overhead(&runtime, || carried.call(Request::new(()))), 1 + 3);
    assert_eq!(overhead(&runtime, || whole.call(Request::new(()))), 1 + 3);
}

#[test]
fn a_request_is_cloned_only_while_another_attempt_may_follow() {
    let request = || Request::new("a body on the heap".to_owned());
    let echo = service_fn(|request: Request<String>| async { Ok::<_, Infallible>(request) });
    // The request, and what the attempts share.
    let [on, off] = documents().map(|document| {
        let (hedger, _feed) = hedger(&document);
        let mut service = HedgeLayer::new(hedger).layer(vec![echo; 2]);
        let runtime = runtime();
        let _entered = runtime.enter();
        per_call(&runtime, || service.call(request()))
    });
    assert_eq!((on, off), (3, 2));
}
