//! What a decision costs: `cargo bench -p hedgerow-tuner` prints decisions per second on one core.

use std::time::Duration;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use hedgerow_tuner::{
    Budget, Delay, Histogram, Latency, Line, Measures, Memory, Mode, NoBenefit, Plateau, Readings, Rules,
    Signal, SignalRules, SignalValue, SwitchRules, Timestamp, WindowReading, Windows, decide,
};

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
    let rules = rules(measures);
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

fn rules(measures: Measures) -> Rules {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    Rules {
        mode: Mode::Enforce,
        measure: "shard_read_duration_seconds/Seconds".to_owned(),
        measures,
        counted: false,
        no_benefit: NoBenefit::Report,
        deadline: Some(Duration::from_secs(1)),
        fan_out: Some(8),
        delay: Delay {
            quantile: 0.95,
            min: Duration::from_millis(1),
            max: Duration::from_secs(1),
            add: Duration::ZERO,
            plateau: Plateau::Follow,
        },
        budget: Budget {
            percent: 10.0,
            limited_by_source: false,
            max_attempts: 2,
            max_concurrent: 100,
            min_per_second: 0.0,
        },
        windows: Windows {
            window: minutes(10),
            max_window: minutes(60),
            min_samples: 400,
            low_confidence: false,
        },
        switch: SwitchRules {
            signals: vec![SignalRules {
                name: "queue".to_owned(),
                line: Line::Value {
                    off_above: 50.0,
                    on_below: 35.0,
                    at_least: None,
                },
            }],
            max_unknown: Duration::from_secs(90),
            cooldown: minutes(2),
            ramp_step: minutes(2),
        },
        max_staleness: minutes(5),
        propagation: Duration::from_secs(90),
    }
}
