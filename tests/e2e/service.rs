//! A simulated service: replicas of a search shard, whose latency and queues a test moves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow_tests::{Exposition, Histogram, Prometheus, PrometheusOptions, Series};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, LogNormal};
use tokio::task::AbortHandle;

/// The median and 95th percentile of a read, in seconds, at slowness 1: those of the help-desk case.
pub(crate) const MEDIAN: f64 = 0.15;
pub(crate) const P95: f64 = 0.5;
/// z of the 95th percentile of a normal distribution.
const Z95: f64 = 1.6449;

const TICK: Duration = Duration::from_millis(100);
const CALLS_PER_TICK: u16 = 50;

/// A service that answers 500 calls a second. It exports
/// - `shard_read_duration_seconds{index="kb"}`, a histogram,
/// - `shard_queue_depth{index="kb",replica="a"|"b"}`, gauges,
/// - `shard_rejected_total{index="kb"}`, from its first increment.
pub(crate) struct Service {
    pub(crate) exposition: Exposition,
    load: Arc<Mutex<Load>>,
    traffic: AbortHandle,
}

/// What a test moves.
#[derive(Clone, Copy)]
struct Load {
    slowness: f64,
    queue: f64,
    /// Every reading is off by up to this share.
    noise: f64,
}

impl Service {
    pub(crate) async fn start() -> Self {
        let exposition = Exposition::serve().await.unwrap();
        let load = Arc::new(Mutex::new(Load {
            slowness: 1.0,
            queue: 3.0,
            noise: 0.0,
        }));
        let bounds: Vec<_> = (0..32).map(|step| round(0.01 * 1.25_f64.powi(step))).collect();
        let reads = exposition.histogram("shard_read_duration_seconds", &[("index", "kb")], &bounds);
        let queues = ["a", "b"]
            .map(|replica| exposition.series("shard_queue_depth", &[("index", "kb"), ("replica", replica)]));
        let traffic = tokio::spawn(serve(Arc::clone(&load), reads, queues)).abort_handle();
        Self {
            exposition,
            load,
            traffic,
        }
    }

    /// A Prometheus that scrapes it, and nothing else.
    pub(crate) async fn scraped(&self) -> Prometheus {
        PrometheusOptions::new()
            .job("kb", self.exposition.address())
            .start()
            .await
            .unwrap()
    }

    /// Makes every read this many times slower than the median says.
    pub(crate) fn slowness(&self, slowness: f64) {
        self.load.lock().unwrap().slowness = slowness;
    }

    /// Sets the queue depth of both replicas.
    pub(crate) fn queue(&self, depth: f64) {
        self.load.lock().unwrap().queue = depth;
    }

    /// Lets every reading vary by up to this share.
    pub(crate) fn noise(&self, noise: f64) {
        self.load.lock().unwrap().noise = noise;
    }

    /// Its counter of rejected calls, which does not exist until a test moves it.
    pub(crate) fn rejected(&self) -> Series {
        self.exposition.series("shard_rejected_total", &[("index", "kb")])
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.traffic.abort();
    }
}

async fn serve(load: Arc<Mutex<Load>>, reads: Histogram, queues: [Series; 2]) {
    let mut random = StdRng::seed_from_u64(1);
    let latency = LogNormal::new(MEDIAN.ln(), (P95 / MEDIAN).ln() / Z95).unwrap();
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        let load = *load.lock().unwrap();
        let mut noisy = |value: f64| value * (1.0 + load.noise * random.random_range(-1.0..=1.0));
        for queue in &queues {
            queue.set(noisy(load.queue));
        }
        let (slowness, calls) = (noisy(load.slowness), noisy(f64::from(CALLS_PER_TICK)));
        let values: Vec<_> = (0..CALLS_PER_TICK)
            .map(|_| latency.sample(&mut random) * slowness)
            .collect();
        reads.observe_each(&values, calls / f64::from(CALLS_PER_TICK));
    }
}

/// To three significant digits, as people write bucket bounds.
fn round(bound: f64) -> f64 {
    format!("{bound:.2e}").parse().unwrap()
}
