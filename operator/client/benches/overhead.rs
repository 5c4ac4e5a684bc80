//! What a call costs when nothing is hedged: `cargo bench -p hedgerow-client` prints times per call, of ours and of
//! `tower::hedge`, and then what both cost beyond the call itself, allocations too, with the ratio.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use divan::Bencher;
use hedgerow_client::{HedgeLayer, HedgedService, Hedger, Metrics};
use http::{Request, Response};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tower::hedge::{Hedge, Policy};
use tower::{Layer, Service, ServiceExt, service_fn};

/// Delay 500 ms, deadline 1 s: every call has its timer, and answers long before it.
const DOCUMENT: &str = include_str!("../tests/document.json");

fn main() {
    divan::main();
    compare();
}

#[divan::bench]
fn unhedged(bencher: Bencher<'_, '_>) {
    let (runtime, mut service) = (runtime(), replica());
    bencher.bench_local(|| runtime.block_on(send(&mut service)));
}

#[divan::bench]
fn hedgerow_call(bencher: Bencher<'_, '_>) {
    let (runtime, hedger) = (runtime(), hedger());
    bencher.bench_local(|| runtime.block_on(call(&hedger)));
}

#[divan::bench]
fn hedgerow_layer(bencher: Bencher<'_, '_>) {
    let (runtime, mut service) = (runtime(), layered());
    bencher.bench_local(|| runtime.block_on(send(&mut service)));
}

#[divan::bench]
fn tower_hedge(bencher: Bencher<'_, '_>) {
    let (runtime, mut service) = (runtime(), towers());
    bencher.bench_local(|| runtime.block_on(send(&mut service)));
}

/// A replica that answers when it is polled again: late enough that the timers of its call are set.
async fn answer(request: Request<()>) -> Result<Response<()>, Infallible> {
    black_box(request);
    yield_now().await;
    Ok(Response::new(()))
}

fn replica() -> impl Replica {
    service_fn(answer)
}

/// What the layers ask of a replica.
trait Replica:
    Service<Request<()>, Response = Response<()>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Replica for S where
    S: Service<Request<()>, Response = Response<()>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Hedges whatever can be hedged.
#[derive(Clone)]
struct Always;

impl Policy<Request<()>> for Always {
    fn clone_request(&self, request: &Request<()>) -> Option<Request<()>> {
        Some(request.clone())
    }

    fn can_retry(&self, _: &Request<()>) -> bool {
        true
    }
}

fn runtime() -> Runtime {
    match Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => unreachable!("a runtime without I/O needs nothing: {error}"),
    }
}

fn hedger() -> Hedger {
    let (hedger, feed) = Hedger::builder("shard-read")
        .metrics(&Metrics::default())
        .follow_feed();
    if let Err(error) = feed.update(DOCUMENT) {
        unreachable!("the document of the tests is good: {error}");
    }
    hedger
}

fn layered() -> HedgedService<impl Replica> {
    HedgeLayer::new(hedger()).layer(vec![replica(), replica()])
}

/// Hedges at the 95th percentile, once it has seen ten calls.
fn towers() -> Hedge<impl Replica, Always> {
    Hedge::new(replica(), Always, 10, 0.95, Duration::from_secs(10))
}

async fn call(hedger: &Hedger) {
    let answered = hedger.call(2, |_| answer(Request::new(()))).await;
    assert!(answered.is_ok());
}

async fn send<S: Service<Request<()>>>(service: &mut S) {
    let answered = match service.ready().await {
        Ok(service) => service.call(Request::new(())).await,
        Err(error) => Err(error),
    };
    assert!(answered.is_ok());
}

/// Times and allocations of all ways, in one run: the best of some rounds, in which they take turns, so that whatever
/// else runs meets all alike.
fn compare() {
    // Short ones: most pass between two interruptions.
    const ROUNDS: u32 = 3000;
    const CALLS: u32 = 100;
    let runtime = runtime();
    let (mut replica, hedger, mut layered, mut towers) = (replica(), hedger(), layered(), towers());
    let mut best = [Cost::MAX; 4];
    for _ in 0..ROUNDS {
        let costs = [
            cost(&runtime, CALLS, async || send(&mut replica).await),
            cost(&runtime, CALLS, async || call(&hedger).await),
            cost(&runtime, CALLS, async || send(&mut layered).await),
            cost(&runtime, CALLS, async || send(&mut towers).await),
        ];
        for (best, cost) in best.iter_mut().zip(costs) {
            *best = best.min(cost);
        }
    }
    let [unhedged, call, layer, tower] = best;
    let own = unhedged.nanos;
    println!("overhead per call that is not hedged, beyond the {own:.0} ns of the call itself");
    for (name, cost) in [
        ("Hedger::call", call),
        ("HedgeLayer", layer),
        ("tower::hedge", tower),
    ] {
        let overhead = cost.nanos - own;
        let ratio = overhead / (tower.nanos - own);
        let allocations = cost.allocations - unhedged.allocations;
        println!("{name:14} {overhead:5.0} ns, {ratio:.2} x tower::hedge; {allocations:.2} allocations");
    }
}

/// What one call costs.
#[derive(Clone, Copy)]
struct Cost {
    nanos: f64,
    allocations: f64,
}

impl Cost {
    const MAX: Self = Self {
        nanos: f64::INFINITY,
        allocations: f64::INFINITY,
    };

    fn min(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.min(other.nanos),
            allocations: self.allocations.min(other.allocations),
        }
    }
}

/// What each of so many calls cost, on average.
fn cost(runtime: &Runtime, calls: u32, mut call: impl AsyncFnMut()) -> Cost {
    let mut took = Duration::ZERO;
    let counted = measure(|| {
        runtime.block_on(async {
            let began = Instant::now();
            for _ in 0..calls {
                call().await;
            }
            took = began.elapsed();
        });
    });
    Cost {
        nanos: took.as_secs_f64() * 1e9 / f64::from(calls),
        allocations: counted.count_total as f64 / f64::from(calls),
    }
}
