//! Readings of a real Prometheus. What is expected is worked out by hand from the rates that the samples were made with.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::time::Duration;

use hedgerow_signals::{Operator, Requirement, TargetQuery, Unit};
use hedgerow_tuner::{Alert, SignalValue, UnknownReason};
use support::*;

#[tokio::test]
async fn a_histogram_reads_as_it_was_made() {
    let source = source(prometheus::url());
    let readings = read_one(
        &source,
        latency("shard_read_duration_seconds", &[("index", "kb")]),
    )
    .await;
    let reading = window(&readings);
    let histogram = reading.distribution.as_ref().unwrap();
    // Two pods, 10 calls a second each, 600 s.
    assert!(close(histogram.count(), 12_000.0), "{}", histogram.count());
    let bounds: Vec<f64> = histogram.buckets().iter().map(|bucket| bucket.0).collect();
    assert_eq!(bounds, [0.1, 0.3, 0.5, 1.0, f64::INFINITY]);
    // p50: 5 of 10, in the bucket from 0.1 (2) to 0.3 (6): 0.1 + 0.2 * 3/4.
    assert!(close(histogram.quantile(0.5).estimate().unwrap(), 0.25));
    assert_eq!((reading.timeouts, reading.caveat.as_deref()), (None, None));
    assert_eq!(readings.scrape_interval, Some(Duration::from_secs(15)));
    let age = prometheus::now() - readings.latency.unwrap().at.as_millis() / 1000;
    assert!((0..=prometheus::STEP + 1).contains(&age), "{age}");
}

#[tokio::test]
async fn quantiles_are_those_that_the_server_computes() {
    let source = source(prometheus::url());
    let readings = read_one(
        &source,
        latency("shard_read_duration_seconds", &[("index", "kb")]),
    )
    .await;
    let histogram = window(&readings).distribution.as_ref().unwrap().clone();
    let client = prometheus_http_query::Client::try_from(prometheus::url()).unwrap();
    for q in [0.1, 0.5, 0.9, 0.95, 0.975] {
        let query = format!(
            "histogram_quantile({q}, sum by (le) (increase(shard_read_duration_seconds_bucket{{index=\"kb\"}}[10m])))"
        );
        let answer = client.query(query).post().await.unwrap();
        let theirs = answer.data().as_vector().unwrap()[0].sample().value();
        let ours = histogram.quantile(q).estimate().unwrap();
        assert!(close(ours, theirs), "p{q}: ours {ours}, the server's {theirs}");
    }
}

#[tokio::test]
async fn units_become_seconds() {
    let source = source(prometheus::url());
    let mut target = latency("rpc_duration_milliseconds", &[]);
    target.latency.as_mut().unwrap().unit = Unit::Milliseconds;
    let readings = read_one(&source, target).await;
    let histogram = window(&readings).distribution.as_ref().unwrap();
    let bounds: Vec<f64> = histogram.buckets().iter().map(|bucket| bucket.0).collect();
    assert_eq!(bounds, [0.005, 0.01, 0.05, f64::INFINITY]);
}

#[tokio::test]
async fn fifty_targets_cost_as_many_requests_as_one() {
    let targets: Vec<TargetQuery> = (0..50)
        .map(|i| {
            let (app, zone) = (format!("app-{i}"), format!("z{i}"));
            latency("fleet_seconds", &[("app", &app), ("zone", &zone)])
        })
        .collect();
    let (one, fifty) = (source(prometheus::url()), source(prometheus::url()));
    one.read(&targets[..1]).await;
    let readings = fifty.read(&targets).await;
    assert_eq!((one.stats().requests, fifty.stats().requests), (1, 1));
    for (i, readings) in readings.iter().enumerate() {
        let calls = window(readings).distribution.as_ref().unwrap().count();
        assert!(close(calls, 600.0 * (i as f64 + 3.0)), "app-{i}: {calls}");
    }
    assert_eq!(fifty.stats().dropped_groups, 0);
}

#[tokio::test]
async fn each_value_gets_its_own_series_however_it_looks() {
    let source = source(prometheus::url());
    let window = Duration::from_secs(120);
    let mut targets: Vec<TargetQuery> = prometheus::ODD_VALUES
        .iter()
        .map(|value| rate(counter("odd_events_total", &[("value", value)], None), None))
        .collect();
    targets.push(rate(counter("odd_events_total", &[("value", "a+c")], None), None));
    let readings = source.read(&targets).await;
    for (i, value) in prometheus::ODD_VALUES.iter().enumerate() {
        assert_eq!(
            values(&readings[i].signals[0]).len(),
            1,
            "{value:?} in {window:?}"
        );
        assert!(
            close(values(&readings[i].signals[0])[0], i as f64 + 1.0),
            "{value:?}"
        );
    }
    let (reason, message) = signal_reason(readings.last().unwrap());
    assert_eq!(reason, UnknownReason::SelectorMatchesNothing, "{message}");
    // The question, and why one of them found nothing.
    assert_eq!(source.stats().requests, 2);
}

#[tokio::test]
async fn absent_metric_wrong_selector_and_no_traffic_are_three_things() {
    let source = source(prometheus::url());
    let cases = [
        (
            latency("no_such_seconds", &[("index", "kb")]),
            UnknownReason::MetricNotFound,
            "no_such_seconds_bucket",
        ),
        (
            latency("shard_read_duration_seconds", &[("index", "kb"), ("pod", "zz")]),
            UnknownReason::SelectorMatchesNothing,
            "pod=\"zz\"",
        ),
        (
            latency("fleet_seconds", &[("app", "app-1"), ("zone", "z2")]),
            UnknownReason::SelectorMatchesNothing,
            "all",
        ),
        (
            latency("idle_seconds", &[]),
            UnknownReason::NoTraffic,
            "idle_seconds over 10m",
        ),
    ];
    for (target, expected, named) in cases {
        let (reason, message) = latency_reason(&read_one(&source, target).await);
        assert_eq!(reason, expected, "{message}");
        assert!(message.contains(named), "{message}");
    }
}

#[tokio::test]
async fn a_requirement_that_nothing_meets_is_named() {
    let source = source(prometheus::url());
    let mut target = latency("shard_read_duration_seconds", &[("index", "kb")]);
    target.latency.as_mut().unwrap().selector.requirements = vec![
        Requirement {
            key: "pod".into(),
            operator: Operator::In,
            values: vec!["a".into(), "b".into()],
        },
        Requirement {
            key: "zone".into(),
            operator: Operator::Exists,
            values: vec![],
        },
    ];
    let (reason, message) = latency_reason(&read_one(&source, target.clone()).await);
    assert_eq!(reason, UnknownReason::SelectorMatchesNothing);
    assert!(message.contains("zone!=\"\""), "{message}");
    target.latency.as_mut().unwrap().selector.requirements = vec![Requirement {
        key: "pod".into(),
        operator: Operator::NotIn,
        values: vec!["b".into(), "c".into()],
    }];
    let readings = read_one(&source, target).await;
    assert!(close(
        window(&readings).distribution.as_ref().unwrap().count(),
        6000.0
    ));
}

#[tokio::test]
async fn what_has_no_buckets_is_no_histogram() {
    let source = source(prometheus::url());
    for metric in ["spring_seconds", "summary_seconds", "queue_depth"] {
        let (reason, message) = latency_reason(&read_one(&source, latency(metric, &[])).await);
        assert_eq!(reason, UnknownReason::NotAHistogram, "{message}");
        assert!(message.contains("percentiles-histogram"), "{message}");
    }
}

#[tokio::test]
async fn two_layouts_are_reduced_to_what_is_common() {
    let source = source(prometheus::url());
    let readings = read_one(&source, latency("mixed_seconds", &[])).await;
    let reading = window(&readings);
    let buckets = reading.distribution.as_ref().unwrap().buckets();
    let bounds: Vec<f64> = buckets.iter().map(|bucket| bucket.0).collect();
    assert_eq!(bounds, [0.5, 1.0, f64::INFINITY]);
    assert!(close(buckets[1].1, 10_800.0));
    assert!(reading.caveat.as_ref().unwrap().contains("3 of 4"));
}

#[tokio::test]
async fn two_workers_behind_one_port_are_unstable() {
    let source = source(prometheus::url());
    let (reason, message) = latency_reason(&read_one(&source, latency("workers_seconds", &[])).await);
    assert_eq!(reason, UnknownReason::CounterUnstable, "{message}");
}

#[tokio::test]
async fn series_that_linger_are_stale() {
    let source = source(prometheus::url());
    let (reason, message) = latency_reason(&read_one(&source, latency("gone_seconds", &[])).await);
    assert_eq!(reason, UnknownReason::Stale, "{message}");
    let (reason, message) = signal_reason(&read_one(&source, gauge("gone_depth", &[])).await);
    assert_eq!(reason, UnknownReason::Stale, "{message}");
}

#[tokio::test]
async fn the_members_of_a_pair_are_read_once() {
    let mut paired = settings(prometheus::url());
    paired.replica_label = Some("replica".into());
    let (twice, once) = (source(prometheus::url()), source_with(paired));
    let target = latency("paired_seconds", &[("app", "a")]);
    for (source, calls) in [(twice, 2400.0), (once, 1200.0)] {
        let readings = read_one(&source, target.clone()).await;
        assert!(close(
            window(&readings).distribution.as_ref().unwrap().count(),
            calls
        ));
    }
}

#[tokio::test]
async fn an_enforced_label_holds_for_every_query() {
    let source = source(prometheus::url());
    let mut target = latency("shard_read_duration_seconds", &[("index", "kb")]);
    target.enforced = Some(("namespace".into(), "other".into()));
    let (reason, message) = latency_reason(&read_one(&source, target.clone()).await);
    assert_eq!(reason, UnknownReason::MetricNotFound);
    assert!(message.contains("namespace=\"other\""), "{message}");
    target.enforced = Some(("namespace".into(), "helpdesk".into()));
    let readings = read_one(&source, target).await;
    assert!(window(&readings).distribution.is_ok());
}

#[tokio::test]
async fn a_gauge_is_its_largest_value_of_two_scrapes_per_series() {
    let source = source(prometheus::url());
    for _ in 0..2 {
        let readings = read_one(&source, gauge("queue_depth", &[])).await;
        // The negative one reads 0, the one that is no number is left out. The second time the interval is known.
        assert_eq!(values(&readings.signals[0]), [0.0, 3.0, 60.0]);
        assert_eq!(readings.signals[0].scrape_interval, Some(Duration::from_secs(15)));
    }
    assert!(source.queries_for(&gauge("queue_depth", &[]))[0].contains("max_over_time(queue_depth[30s])"));
    let (reason, _) = signal_reason(&read_one(&source, gauge("only_nan", &[])).await);
    assert_eq!(reason, UnknownReason::NotANumber);
    let (reason, _) = signal_reason(&read_one(&source, gauge("endless", &[])).await);
    assert_eq!(reason, UnknownReason::OutOfRange);
}

#[tokio::test]
async fn the_first_reading_of_a_gauge_is_no_peak_long_past() {
    let source = source(prometheus::url());
    let readings = read_one(&source, gauge("drained_depth", &[])).await;
    assert_eq!(values(&readings.signals[0]), [3.0]);
}

#[tokio::test]
async fn rates_and_ratios() {
    let source = source(prometheus::url());
    let requests = || counter("requests_total", &[("job", "kb")], None);
    let rejected = || counter("rejected_total", &[("job", "kb")], None);
    let idle = || counter("idle_total", &[("job", "kb")], None);
    for (target, expected) in [
        (rate(requests(), None), vec![2.0, 8.0]),
        (rate(rejected(), Some(requests())), vec![0.05]),
        (rate(idle(), Some(idle())), vec![0.0]),
        (rate(rejected(), Some(idle())), vec![f64::MAX]),
        (rate(idle(), None), vec![0.0]),
    ] {
        let values = values(&read_one(&source, target).await.signals[0]);
        assert_eq!(values.len(), expected.len());
        assert!(
            values
                .iter()
                .zip(&expected)
                .all(|(value, expected)| close(*value, *expected)),
            "{values:?}"
        );
    }
}

#[tokio::test]
async fn an_absent_counter_is_zero_only_while_its_witness_lives() {
    let source = source(prometheus::url());
    let absent = |job: &str| counter("dropped_total", &[("job", job)], Some(witness(job)));
    let readings = read_one(&source, rate(absent("kb"), None)).await;
    assert_eq!(values(&readings.signals[0]), [0.0]);
    // The question and its witness; nothing else.
    assert_eq!(source.stats().requests, 2);
    for (job, expected) in [
        // One of its two targets is down.
        ("half", UnknownReason::MetricNotFound),
        // The target vanished.
        ("gone", UnknownReason::MetricNotFound),
        // It never was.
        ("nobody", UnknownReason::MetricNotFound),
    ] {
        let (reason, message) = signal_reason(&read_one(&source, rate(absent(job), None)).await);
        assert_eq!(reason, expected, "{message}");
        assert!(message.contains("its absence is no zero"), "{message}");
    }
    let without = rate(counter("dropped_total", &[("job", "kb")], None), None);
    let (reason, message) = signal_reason(&read_one(&source, without).await);
    assert_eq!(reason, UnknownReason::MetricNotFound);
    assert!(message.contains("zeroWhenAbsent"), "{message}");
    let ratio = rate(
        absent("kb"),
        Some(counter("requests_total", &[("job", "kb")], None)),
    );
    assert_eq!(values(&read_one(&source, ratio).await.signals[0]), [0.0]);
}

#[tokio::test]
async fn timeouts_are_counted_in_each_window_or_latency_is_unknown() {
    let source = source(prometheus::url());
    let with = |timeouts| {
        let mut target = latency("shard_read_duration_seconds", &[("index", "kb")]);
        let query = target.latency.as_mut().unwrap();
        query.windows = vec![WINDOW, 2 * WINDOW];
        query.timeouts = Some(timeouts);
        target
    };
    let readings = read_one(&source, with(counter("timeouts_total", &[("index", "kb")], None))).await;
    let windows = readings.latency.unwrap().windows.unwrap();
    assert!(close(windows[0].timeouts.unwrap(), 150.0) && close(windows[1].timeouts.unwrap(), 300.0));
    let readings = read_one(&source, with(counter("lost_total", &[], Some(witness("kb"))))).await;
    assert_eq!(window(&readings).timeouts, Some(0.0));
    let readings = read_one(&source, with(counter("lost_total", &[], None))).await;
    let (reason, message) = latency_reason(&readings);
    assert_eq!(reason, UnknownReason::MetricNotFound);
    assert!(message.contains("timeouts"), "{message}");
}

#[tokio::test]
async fn alerts_are_read_from_their_rules() {
    let source = source(prometheus::url());
    // Rules are evaluated once a second; the first evaluation may be yet to come.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let mut states = Vec::new();
    while tokio::time::Instant::now() < deadline {
        let readings = source.read(&["Burning", "Quiet", "Smouldering"].map(alert)).await;
        states = readings
            .into_iter()
            .map(|mut readings| readings.signals.remove(0).value)
            .collect();
        if states.iter().all(Result::is_ok) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(
        states,
        [Alert::Firing, Alert::Inactive, Alert::Pending].map(|state| Ok(SignalValue::Alert(state)))
    );
    for (name, expected) in [
        ("NoSuchAlert", UnknownReason::AlertNotFound),
        ("Broken", UnknownReason::Stale),
        ("NotYet", UnknownReason::Stale),
    ] {
        let (reason, message) = signal_reason(&read_one(&source, alert(name)).await);
        assert_eq!(reason, expected, "{message}");
    }
}

#[tokio::test]
async fn queries_are_evaluated_at_the_offset() {
    let mut late = settings(prometheus::url());
    late.offset = Duration::from_secs(60);
    let source = source_with(late);
    let readings = read_one(
        &source,
        latency("shard_read_duration_seconds", &[("index", "kb")]),
    )
    .await;
    assert!(window(&readings).distribution.is_ok());
    let age = prometheus::now() - readings.latency.unwrap().at.as_millis() / 1000;
    assert!((59..=60 + prometheus::STEP + 2).contains(&age), "{age}");
}

#[tokio::test]
async fn the_queries_to_paste_are_those_that_the_server_accepts() {
    let source = source(prometheus::url());
    let mut target = rate(
        counter("rejected_total", &[("job", "kb")], Some(witness("kb"))),
        Some(counter("requests_total", &[("job", "kb")], None)),
    );
    target.latency = latency("shard_read_duration_seconds", &[("index", "kb")]).latency;
    target.signals.extend(gauge("queue_depth", &[]).signals);
    target.signals.extend(alert("Burning").signals);
    let queries = source.queries_for(&target);
    assert_eq!(queries.len(), 5);
    let client = prometheus_http_query::Client::try_from(prometheus::url()).unwrap();
    for query in queries {
        let answer = client
            .query(&query)
            .post()
            .await
            .unwrap_or_else(|error| panic!("{query}: {error}"));
        assert!(answer.data().as_vector().is_some());
    }
}
