//! What a decision costs: `cargo bench -p hedgerow-tuner` prints decisions per second on one core.

use std::time::Duration;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use hedgerow_tuner::{
    Histogram, Latency, Measures, Memory, Readings, Rules, Signal, SignalValue, Timestamp, WindowReading,
    decide,
};

#[allow(
    dead_code,
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "written for the tests, of which this takes the rules alone"
)]
#[path = "../tests/decisions/support.rs"]
mod support;

fn main() {
    divan::main();
}

/// The help-desk case through OpenTelemetry's default bounds, of 1000 attempts.
const ANSWERED: [(f64, f64); 15] = [
    (0.005, 0.0),
    (0.01, 0.0),
    (0.025, 0.0),
    (0.05, 20.0),
    (0.075, 90.0),
    (0.1, 250.0),
    (0.25, 740.0),
    (0.5, 950.0),
    (0.75, 970.0),
    (1.0, 980.0),
    (2.5, 988.0),
    (5.0, 998.0),
    (7.5, 1000.0),
    (10.0, 1000.0),
    (f64::INFINITY, 1000.0),
];

const MEASURES: [Measures; 3] = [
    Measures::LogicalCall,
    Measures::Attempt { losers_run_on: false },
    Measures::Server,
];

/// A target that has hedged for an hour, decided again on a reading of two windows and one signal.
#[divan::bench(args = MEASURES, sample_size = 1000)]
fn decide_one(bencher: Bencher<'_, '_>, measures: Measures) {
    let rules = Rules {
        measures,
        ..support::rules()
    };
    let (mut memory, mut now) = (Memory::default(), Timestamp::from_millis(1_700_000_000_000));
    for _ in 0..120 {
        now = now.plus(Duration::from_secs(30));
        memory = decide(&rules, &memory, &readings(now), now).1;
    }
    assert!(memory.lets_hedge());
    let readings = readings(now);
    bencher
        .counter(ItemsCount::new(1_u32))
        .bench(|| decide(black_box(&rules), black_box(&memory), black_box(&readings), now));
}

fn readings(at: Timestamp) -> Readings {
    let read = |part: f64| {
        let buckets = ANSWERED.map(|(bound, calls)| (bound, calls * part));
        Histogram::from_cumulative(buckets, None, None)
    };
    let window = |seconds, part| WindowReading {
        window: Duration::from_secs(seconds),
        distribution: read(part),
        cancelled: read(part * 0.05).ok(),
        timeouts: Some(0.0),
        caveat: None,
    };
    Readings {
        latency: Some(Latency {
            at,
            windows: Ok(vec![window(600, 1.0), window(1200, 2.0)]),
        }),
        signals: vec![Some(Signal {
            at,
            scrape_interval: Some(Duration::from_secs(15)),
            value: Ok(SignalValue::Series(vec![3.0, 4.0, 5.0])),
        })],
        ..Readings::default()
    }
}
