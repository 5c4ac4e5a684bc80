//! What a window says of hedging: attempts that were cut short, and what clients counted.

use std::time::Duration;

use hedgerow_signals::{Counter, CountsQuery, Outcomes, TargetQuery};
use hedgerow_tuner::{UnknownReason, WindowCounts};

use crate::stage;
use crate::support::feed::{Feed, Native};
use crate::support::*;

/// Scrapes in [`WINDOW`].
const SCRAPES: f64 = 40.0;

pub(crate) fn samples(feed: &mut Feed) {
    for index in ["kb", "faq"] {
        for (status, buckets, sum) in [
            ("OK", [70.0, 90.0, 95.0], 20.0),
            ("CANCELLED", [0.0, 3.0, 5.0], 4.0),
            ("UNAVAILABLE", [50.0, 50.0, 50.0], 1.0),
        ] {
            let [first, second, all] = buckets;
            feed.classic(
                "attempt_seconds",
                &[("index", index), ("status", status)],
                &[("0.1", first), ("1", second), ("+Inf", all)],
                sum,
            );
        }
    }
    for (status, schema, values) in [
        ("OK", 3, [0.2, 0.2, 0.2, 0.7]),
        ("UNKNOWN", 0, [0.2, 0.3, 0.3, 3.0]),
        ("CANCELLED", 3, [0.5, 0.5, 0.6, 0.6]),
        ("UNAVAILABLE", 3, [0.001; 4]),
    ] {
        feed.native(
            "attempt_native_seconds",
            &[("status", status)],
            &Native::of(schema, &values),
        );
    }
    for (app, per_scrape) in [("a", 100.0), ("b", 200.0)] {
        let mut counted = |name: &str, share: f64| {
            feed.counter(
                &format!("client_{name}_total"),
                &[("app", app)],
                share * per_scrape,
            );
        };
        counted("calls", 1.0);
        counted("hedges", 0.05);
        counted("wins", 0.03);
        for reason in ["budget", "deadline"] {
            let labels = [("app", app), ("reason", reason)];
            feed.counter("client_blocked_total", &labels, 0.01 * per_scrape);
        }
    }
    feed.numbers("up", &[("job", "clients")], |_| 1.0);
    feed.until(300)
        .counter("client_calls_total", &[("app", "gone")], 1.0);
    feed.throughout();
}

fn outcomes() -> Outcomes {
    Outcomes {
        label: "status".into(),
        cancelled: vec!["CANCELLED".into()],
        ignored: vec!["UNAVAILABLE".into()],
    }
}

fn split(metric: &str, pairs: &[(&str, &str)], outcomes: Outcomes) -> TargetQuery {
    let mut target = latency(metric, pairs);
    target.latency.as_mut().unwrap().outcomes = Some(outcomes);
    target
}

#[tokio::test]
async fn errors_are_fast_and_the_cancelled_stand_apart() {
    let source = source(stage::url().await);
    let targets = ["kb", "faq"].map(|index| split("attempt_seconds", &[("index", index)], outcomes()));
    for readings in source.read(&targets).await {
        let reading = window(&readings);
        let calls = |buckets: &[(f64, f64)]| -> Vec<f64> {
            buckets
                .iter()
                .map(|bucket| (bucket.1 / SCRAPES).round())
                .collect()
        };
        assert_eq!(calls(distribution(&readings).buckets()), [70.0, 90.0, 95.0]);
        assert_eq!(
            calls(reading.cancelled.as_ref().unwrap().buckets()),
            [0.0, 3.0, 5.0]
        );
    }
    // The split costs nothing: both targets and all outcomes are one request.
    assert_eq!(source.stats().requests, 1);
}

#[tokio::test]
async fn policies_that_name_other_outcomes_of_one_label_share_a_query() {
    let source = source(stage::url().await);
    let strict = Outcomes {
        ignored: Vec::new(),
        ..outcomes()
    };
    let targets = [
        split("attempt_seconds", &[("index", "kb")], outcomes()),
        split("attempt_seconds", &[("index", "faq")], strict),
    ];
    let counts: Vec<f64> = source
        .read(&targets)
        .await
        .iter()
        .map(|readings| distribution(readings).count() / SCRAPES)
        .collect();
    assert!(close(counts[0], 95.0) && close(counts[1], 145.0), "{counts:?}");
    assert_eq!(source.stats().requests, 1);
}

#[tokio::test]
async fn native_histograms_are_split_too_whatever_their_resolutions() {
    let source = source(stage::url().await);
    let readings = read_one(&source, split("attempt_native_seconds", &[], outcomes())).await;
    let histogram = distribution(&readings);
    // OK and UNKNOWN, four calls each at each scrape.
    assert!(close(histogram.count() / SCRAPES, 8.0), "{}", histogram.count());
    // The 8th of 8 is in (2, 4], the bucket of schema 0 that holds 3.
    assert!(close(histogram.quantile(1.0).estimate().unwrap(), 4.0));
    let cancelled = window(&readings).cancelled.as_ref().unwrap();
    assert!(close(cancelled.count() / SCRAPES, 4.0), "{}", cancelled.count());
}

#[tokio::test]
async fn a_label_of_outcomes_that_no_series_has_is_named() {
    let source = source(stage::url().await);
    let misspelled = Outcomes {
        label: "code".into(),
        ..outcomes()
    };
    let readings = read_one(&source, split("attempt_seconds", &[("index", "kb")], misspelled)).await;
    let window = window(&readings);
    assert!(window.distribution.is_ok() && window.cancelled.is_none());
    let caveat = window.caveat.as_ref().unwrap();
    assert!(caveat.contains("label code"), "{caveat}");
}

fn counts(app: &str) -> CountsQuery {
    let of = |name: &str| -> Counter { counter(&format!("client_{name}_total"), &[("app", app)], None) };
    CountsQuery {
        calls: of("calls"),
        hedges: of("hedges"),
        blocked: Some(of("blocked")),
        wins: Some(of("wins")),
        windows: vec![WINDOW / 2, WINDOW],
    }
}

fn counting(counts: CountsQuery) -> TargetQuery {
    TargetQuery {
        counts: Some(counts),
        ..TargetQuery::default()
    }
}

#[tokio::test]
async fn counters_of_clients_over_each_window() {
    let source = source(stage::url().await);
    let targets = ["a", "b"].map(|app| counting(counts(app)));
    let readings = source.read(&targets).await;
    for (readings, per_scrape) in readings.into_iter().zip([100.0, 200.0]) {
        let counts = readings.counts.unwrap();
        let windows = counts.windows.unwrap();
        for (counted, window, calls) in [
            (windows[0], WINDOW / 2, 20.0 * per_scrape),
            (windows[1], WINDOW, 40.0 * per_scrape),
        ] {
            assert_eq!(counted.window, window);
            assert!(close(counted.calls, calls) && close(counted.hedges, 0.05 * calls));
            // Two reasons of being kept back are one number.
            assert!(close(counted.blocked.unwrap(), 0.02 * calls), "{counted:?}");
            assert!(close(counted.wins.unwrap(), 0.03 * calls));
        }
        let age = crate::support::feed::now() - counts.at.as_millis() / 1000;
        assert!((0..=20).contains(&age), "{age}");
    }
    // By metric and window, not by target.
    assert_eq!(source.stats().requests, 8);
}

#[tokio::test]
async fn a_counter_that_does_not_exist_is_not_known_and_a_zero_while_its_witness_lives() {
    let source = source(stage::url().await);
    let absent = |witnessed: bool| {
        Some(counter(
            "client_no_such_total",
            &[("app", "a")],
            witnessed.then(|| witness("clients")),
        ))
    };
    let optional = |counter: Option<Counter>| CountsQuery {
        blocked: counter.clone(),
        wins: counter,
        windows: vec![WINDOW],
        ..counts("a")
    };
    for (counter, expected) in [(absent(false), None), (absent(true), Some(0.0)), (None, None)] {
        let readings = read_one(&source, counting(optional(counter))).await;
        let WindowCounts { blocked, wins, .. } = readings.counts.unwrap().windows.unwrap()[0];
        assert_eq!((blocked, wins), (expected, expected));
    }
    // Calls and hedges are required.
    let required = CountsQuery {
        hedges: absent(false).unwrap(),
        ..counts("a")
    };
    let unknown = read_one(&source, counting(required)).await.counts.unwrap();
    let unknown = unknown.windows.unwrap_err();
    assert_eq!(unknown.reason, UnknownReason::MetricNotFound);
    assert!(unknown.message.contains("zeroWhenAbsent"), "{}", unknown.message);
}

#[tokio::test]
async fn counters_that_linger_are_stale() {
    let source = source(stage::url().await);
    let gone = CountsQuery {
        hedges: counts("a").hedges,
        windows: vec![Duration::from_secs(1200)],
        ..counts("gone")
    };
    let unknown = read_one(&source, counting(gone)).await.counts.unwrap();
    assert_eq!(unknown.windows.unwrap_err().reason, UnknownReason::Stale);
}
