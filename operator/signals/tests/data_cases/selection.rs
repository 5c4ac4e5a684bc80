//! Rates, windows, selection: the cases of the second table.
//!
//! Some are tested on the Prometheus of `real_prometheus.rs`: one port with several workers
//! (`two_workers_behind_one_port_are_unstable`), a target that is gone (`series_that_linger_are_stale`), incomplete newest
//! points (`queries_are_evaluated_at_the_offset`), absence (`absent_metric_wrong_selector_and_no_traffic_are_three_things`),
//! pairs (`the_members_of_a_pair_are_read_once`), timeouts (`timeouts_are_counted_in_each_window_or_latency_is_unknown`), point
//! samples (`a_gauge_is_its_largest_value_of_two_scrapes_per_series`), nothing divided by nothing (`rates_and_ratios`); skewed
//! clocks need a server that lies (`the_servers_clock_decides_and_a_large_skew_is_told`), and so do more series than asked for
//! (`more_than_one_series_where_one_is_asked_for`). Errors that are fast are in the module on hedging.

use std::time::Duration;

use hedgerow_signals::{Operator, Requirement, Unit};
use hedgerow_tuner::UnknownReason;

use crate::stage;
use crate::support::feed::Feed;
use crate::support::*;

/// Scrapes in [`WINDOW`].
const SCRAPES: f64 = 40.0;

pub(crate) fn samples(feed: &mut Feed) {
    for text in [
        include_str!("../samples/cadvisor-throttle-psi.prom"),
        include_str!("../samples/elasticsearch-thread-pool.prom"),
        include_str!("../samples/istio-bucket-line.prom"),
    ] {
        feed.exposition(text);
    }
    // Pod a restarts every twenty minutes or so, pod b never.
    for (bound, share) in [("0.1", 0.5), ("1", 0.9), ("+Inf", 1.0)] {
        for (pod, lifetime) in [("a", 80), ("b", i64::MAX)] {
            let labels = [("pod", pod), ("le", bound)];
            feed.numbers("restarted_seconds_bucket", &labels, |scrape| {
                100.0 * share * (scrape % lifetime) as f64
            });
        }
    }
    for (pod, lifetime) in [("a", 80), ("b", i64::MAX)] {
        for (name, per_scrape) in [("count", 100.0), ("sum", 30.0)] {
            feed.numbers(&format!("restarted_seconds_{name}"), &[("pod", pod)], |scrape| {
                per_scrape * (scrape % lifetime) as f64
            });
        }
    }
    // Both sides of each request tell of it.
    for reporter in ["source", "destination"] {
        feed.classic(
            "istio_twice_milliseconds",
            &[("reporter", reporter)],
            &[("100", 8.0), ("1000", 10.0), ("+Inf", 10.0)],
            900.0,
        );
    }
    for (kind, slow) in [("unary", 0.0), ("server_stream", 50.0)] {
        feed.classic(
            "streamed_seconds",
            &[("grpc_type", kind)],
            &[("0.1", 90.0), ("1", 100.0), ("+Inf", 100.0 + slow)],
            10.0 + slow * 60.0,
        );
    }
}

#[tokio::test]
async fn counter_resets_and_pod_restarts() {
    let source = source(stage::url().await);
    let readings = read_one(&source, latency("restarted_seconds", &[])).await;
    // Two pods, 100 calls a scrape each. A restart costs what was counted between a scrape and the next: one of eighty.
    let calls = distribution(&readings).count() / SCRAPES;
    assert!((195.0..=200.5).contains(&calls), "{calls}");
}

#[tokio::test]
async fn window_shorter_than_four_scrapes() {
    // It is warned of from the interval as measured, which comes with each reading.
    let source = source(stage::url().await);
    let mut target = latency("restarted_seconds", &[]);
    target.latency.as_mut().unwrap().windows = vec![Duration::from_secs(60)];
    let readings = read_one(&source, target).await;
    assert_eq!(readings.scrape_interval, Some(Duration::from_secs(15)));
    assert!(distribution(&readings).count() > 0.0);
}

#[tokio::test]
async fn istio_counts_each_request_twice() {
    let source = source(stage::url().await);
    let count = async |pairs: &[(&str, &str)]| {
        let mut target = latency("istio_twice_milliseconds", pairs);
        target.latency.as_mut().unwrap().unit = Unit::Milliseconds;
        let readings = read_one(&source, target).await;
        distribution(&readings).count() / SCRAPES
    };
    assert!(close(count(&[]).await, 20.0));
    assert!(close(count(&[("reporter", "source")]).await, 10.0));
    // The real line has one bucket, without +Inf.
    let line = latency("istio_request_duration_milliseconds", &[("reporter", "source")]);
    let (reason, message) = latency_reason(&read_one(&source, line).await);
    assert_eq!(reason, UnknownReason::NotAHistogram, "{message}");
}

#[tokio::test]
async fn streams_and_long_polls_in_the_same_histogram() {
    let source = source(stage::url().await);
    let mut unary = latency("streamed_seconds", &[]);
    let mixed = read_one(&source, unary.clone()).await;
    assert_eq!(distribution(&mixed).quantile(0.95).estimate(), None);
    unary.latency.as_mut().unwrap().selector.requirements = vec![Requirement {
        key: "grpc_type".into(),
        operator: Operator::NotIn,
        values: vec!["server_stream".into(), "bidi_stream".into()],
    }];
    let readings = read_one(&source, unary).await;
    // 95 of 100: half way from 0.1 to 1.
    assert!(close(
        distribution(&readings).quantile(0.95).estimate().unwrap(),
        0.55
    ));
}

#[tokio::test]
async fn saturation_series_missing() {
    let source = source(stage::url().await);
    // Without a CPU limit cAdvisor tells no throttling; what it does tell is a number.
    let present = gauge("container_cpu_cfs_throttled_periods_total", &[("image", "test")]);
    assert_eq!(values(&read_one(&source, present).await.signals[0]).len(), 1);
    for (target, expected) in [
        (
            gauge("container_cpu_cfs_no_such_total", &[]),
            UnknownReason::MetricNotFound,
        ),
        (
            gauge("container_cpu_cfs_throttled_periods_total", &[("image", "other")]),
            UnknownReason::SelectorMatchesNothing,
        ),
    ] {
        let (reason, message) = signal_reason(&read_one(&source, target).await);
        assert_eq!(reason, expected, "{message}");
    }
}

#[tokio::test]
async fn a_queue_at_rest_is_zero_and_not_unknown() {
    let source = source(stage::url().await);
    let queue = gauge("elasticsearch_thread_pool_queue_count", &[("type", "search")]);
    let readings = read_one(&source, queue).await;
    let values = values(&readings.signals[0]);
    assert!(
        !values.is_empty() && values.iter().all(|value| value.abs() < f64::EPSILON),
        "{values:?}"
    );
}
