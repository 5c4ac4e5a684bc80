//! What the tests of this crate share.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod feed;
pub(crate) mod process;
pub(crate) mod prometheus;
pub(crate) mod server;
pub(crate) mod servers;

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow_signals::{
    Authentication, Counter, LatencyQuery, Selector, SignalKind, SignalQuery, Source, SourceSettings,
    TargetQuery, TargetReadings, Unit, Witness,
};
use hedgerow_tuner::{Histogram, Signal, SignalValue, UnknownReason, WindowReading};

/// Ten minutes: the window that the tests read.
pub(crate) const WINDOW: Duration = Duration::from_secs(600);

/// A source at `url` with short limits.
pub(crate) fn settings(url: &str) -> SourceSettings {
    SourceSettings {
        name: "default".into(),
        url: url.into(),
        ca_file: None,
        authentication: Authentication::None,
        headers: BTreeMap::new(),
        offset: Duration::ZERO,
        replica_label: None,
        concurrency: 4,
        timeout: Duration::from_secs(20),
        max_body_bytes: 16 << 20,
    }
}

/// A source; the process' TLS provider is installed first.
pub(crate) fn source_with(settings: SourceSettings) -> Source {
    // It fails when another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Source::new(settings).unwrap()
}

pub(crate) fn source(url: &str) -> Source {
    source_with(settings(url))
}

pub(crate) fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

pub(crate) fn selector(pairs: &[(&str, &str)]) -> Selector {
    Selector {
        match_labels: labels(pairs),
        requirements: Vec::new(),
    }
}

pub(crate) fn latency(metric: &str, pairs: &[(&str, &str)]) -> TargetQuery {
    TargetQuery {
        latency: Some(LatencyQuery {
            metric: metric.into(),
            selector: selector(pairs),
            unit: Unit::Seconds,
            windows: vec![WINDOW],
            outcomes: None,
            timeouts: None,
        }),
        ..TargetQuery::default()
    }
}

pub(crate) fn counter(metric: &str, pairs: &[(&str, &str)], witness: Option<Witness>) -> Counter {
    Counter {
        metric: metric.into(),
        selector: selector(pairs),
        zero_when_absent: witness,
    }
}

pub(crate) fn witness(job: &str) -> Witness {
    Witness {
        metric: "up".into(),
        match_labels: labels(&[("job", job)]),
    }
}

pub(crate) fn signal(kind: SignalKind) -> TargetQuery {
    TargetQuery {
        signals: vec![SignalQuery {
            kind,
            zero_when_absent: None,
        }],
        ..TargetQuery::default()
    }
}

pub(crate) fn gauge(metric: &str, pairs: &[(&str, &str)]) -> TargetQuery {
    signal(SignalKind::Gauge {
        metric: metric.into(),
        selector: selector(pairs),
    })
}

pub(crate) fn rate(of: Counter, per: Option<Counter>) -> TargetQuery {
    signal(SignalKind::Rate {
        of,
        window: Duration::from_secs(120),
        per,
    })
}

pub(crate) fn alert(name: &str) -> TargetQuery {
    signal(SignalKind::Alert { name: name.into() })
}

pub(crate) async fn read_one(source: &Source, target: TargetQuery) -> TargetReadings {
    source.read(&[target]).await.remove(0)
}

/// The first window, which must be there.
pub(crate) fn window(readings: &TargetReadings) -> &WindowReading {
    &readings.latency.as_ref().unwrap().windows.as_ref().unwrap()[0]
}

/// The distribution of the first window, which must be there.
pub(crate) fn distribution(readings: &TargetReadings) -> &Histogram {
    window(readings).distribution.as_ref().unwrap()
}

/// Whether two numbers are the same but for rounding.
pub(crate) fn close(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= 1e-6 * expected.abs().max(1.0)
}

/// Why there is no distribution.
pub(crate) fn latency_reason(readings: &TargetReadings) -> (UnknownReason, String) {
    let unknown = match &readings.latency.as_ref().unwrap().windows {
        Err(unknown) => unknown,
        Ok(windows) => windows[0].distribution.as_ref().unwrap_err(),
    };
    (unknown.reason, unknown.message.clone())
}

/// Why the signal says nothing.
pub(crate) fn signal_reason(readings: &TargetReadings) -> (UnknownReason, String) {
    let unknown = readings.signals[0].value.as_ref().unwrap_err();
    (unknown.reason, unknown.message.clone())
}

/// The values of the signal's series, in rising order.
pub(crate) fn values(signal: &Signal) -> Vec<f64> {
    match signal.value.as_ref().unwrap() {
        SignalValue::Series(values) => {
            let mut values = values.clone();
            values.sort_by(f64::total_cmp);
            values
        }
        SignalValue::Alert(alert) => panic!("an alert: {alert:?}"),
    }
}
