//! What the tests of several modules start from: one policy, its readings, and what is known of it.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_signals::{ReadingKind, TargetReadings};
use hedgerow_tuner::{
    Counts, Histogram, Latency, Memory, Signal, SignalValue, Timestamp, Unknown, UnknownReason, WindowCounts,
    WindowReading,
};
use serde_json::{Value, json};

use crate::cluster::{Lane, PolicyKey};
use crate::compile::compile;
use crate::index::{Due, Follow, Index};
use crate::settings::DeclaredSource;

/// A spec that is tuned to 500 ms by [`read`].
pub(crate) fn written_spec() -> Value {
    json!({
        "targets": [{
            "name": "shard-read",
            "idempotent": true,
            "deadline": "1s",
            "latency": { "metric": "shard_read_duration_seconds", "measures": "LogicalCall", "matchLabels": { "index": "kb" } },
            "saturation": { "signals": [{ "name": "queue", "metric": "shard_queue_depth", "offAbove": "50" }] },
        }],
        "publish": [{ "configMap": "kb-hedging", "key": "shard-read.json", "targets": [{ "name": "shard-read" }] }],
    })
}

/// The same, of clients that count their hedges.
pub(crate) fn counted_spec() -> Value {
    let mut spec = written_spec();
    spec["targets"][0]["hedging"] = json!({
        "calls": { "rateOf": "calls_total" }, "hedges": { "rateOf": "hedges_total" }, "blocked": { "rateOf": "blocked_total" },
    });
    spec
}

pub(crate) fn policy() -> PolicyKey {
    PolicyKey::new("helpdesk", "kb-search")
}

pub(crate) fn follow(written: &Value) -> Follow {
    let spec = hedgerow_api::decode_spec(written).unwrap();
    let source = DeclaredSource::plain("default", "http://prometheus:9090");
    let compiled = compile(&spec, "helpdesk", &source, Duration::from_secs(90)).unwrap();
    Follow {
        uid: "uid-1".to_owned(),
        spec: Arc::new(spec),
        compiled: Arc::new(compiled),
        refusal: None,
        stop: None,
    }
}

/// Nothing is remembered of any target.
pub(crate) fn unknown(_target: &str) -> Vec<(String, Memory)> {
    Vec::new()
}

/// An index that follows [`policy`] from now on.
pub(crate) fn index() -> Index {
    let index = Index::default();
    index.follow(&policy(), follow(&written_spec()), unknown);
    index
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
}

/// 10,000 calls, 95 % of them within 500 ms, and a queue of that depth.
pub(crate) fn read(at: Timestamp, queue: f64) -> TargetReadings {
    let buckets = [
        (0.1, 3000.0),
        (0.25, 7000.0),
        (0.5, 9500.0),
        (1.0, 9950.0),
        (f64::INFINITY, 10_000.0),
    ];
    let window = WindowReading {
        window: Duration::from_secs(600),
        distribution: Histogram::from_cumulative(buckets, None, None),
        cancelled: None,
        timeouts: None,
        caveat: None,
    };
    TargetReadings {
        latency: Some(Latency {
            at,
            windows: Ok(vec![window]),
        }),
        signals: vec![Signal {
            at,
            scrape_interval: Some(Duration::from_secs(5)),
            value: Ok(SignalValue::Series(vec![queue])),
        }],
        counts: None,
        scrape_interval: Some(Duration::from_secs(5)),
    }
}

/// A million calls, all of those past 500 ms hedged, as clients count them where they do: of the 5 % past it 3 in a hundred
/// take longer than a second, for 3 % of attempts do, and of hedges 5 % are as late.
pub(crate) fn read_hedged(at: Timestamp, counted: bool) -> TargetReadings {
    let buckets = [
        (0.1, 300_000.0),
        (0.25, 700_000.0),
        (0.5, 950_000.0),
        (1.0, 998_500.0),
        (f64::INFINITY, 1_000_000.0),
    ];
    let window = Duration::from_secs(600);
    let counts = Counts {
        at,
        windows: Ok(vec![WindowCounts {
            window,
            calls: 1_000_000.0,
            hedges: 50_000.0,
            blocked: Some(0.0),
            wins: None,
        }]),
    };
    TargetReadings {
        latency: Some(Latency {
            at,
            windows: Ok(vec![WindowReading {
                window,
                distribution: Histogram::from_cumulative(buckets, None, None),
                cancelled: None,
                timeouts: None,
                caveat: None,
            }]),
        }),
        counts: counted.then_some(counts),
        ..read(at, 3.0)
    }
}

/// Everything of either kind that is due, the signals first, read as `readings` says and decided; the lanes in which it must be written.
pub(crate) fn sample(
    index: &Index,
    now: Timestamp,
    readings: impl Fn(Timestamp) -> TargetReadings,
) -> Vec<Option<Lane>> {
    let kinds = ReadingKind::ALL.into_iter().rev();
    kinds
        .flat_map(|kind| sample_kind(index, kind, now, &readings))
        .collect()
}

/// The same of one kind.
pub(crate) fn sample_kind(
    index: &Index,
    kind: ReadingKind,
    now: Timestamp,
    readings: impl Fn(Timestamp) -> TargetReadings,
) -> Vec<Option<Lane>> {
    let (due, _) = index.due("default", kind, Duration::ZERO, now);
    let answer = |due: &Due| {
        let mut all = readings(now);
        all.latency = all.latency.filter(|_| due.query.latency.is_some());
        if due.query.signals.is_empty() {
            all.signals.clear();
        }
        all
    };
    due.iter().map(|due| index.take(due, answer(due), now)).collect()
}

/// The source gave no answer.
pub(crate) fn unread(at: Timestamp) -> TargetReadings {
    let why = || Unknown::new(UnknownReason::Unavailable, "the source cannot be reached");
    TargetReadings {
        latency: Some(Latency {
            at,
            windows: Err(why()),
        }),
        signals: vec![Signal {
            at,
            scrape_interval: None,
            value: Err(why()),
        }],
        counts: None,
        scrape_interval: None,
    }
}
