//! Histogram arithmetic: the cases of the first table.
//!
//! Those that are decided by what a reading says, not by the reading, are tested with the decision: few samples
//! (`the_smallest_window_with_enough_calls_is_used`), milliseconds in second-shaped buckets
//! (`a_first_median_above_the_deadline_is_an_implausible_unit`), a quantile of 0 (`a_percentile_of_zero_is_no_delay`).
//! Native histograms have a module of their own.

use std::time::Duration;

use hedgerow_signals::Unit;
use hedgerow_tuner::{Quantile, UnknownReason};

use crate::stage;
use crate::support::feed::Feed;
use crate::support::*;

pub(crate) fn samples(feed: &mut Feed) {
    for text in [
        include_str!("../samples/envoy-upstream_rq_time.prom"),
        include_str!("../samples/grpc-otel-go.prom"),
        include_str!("../samples/grpc-otel-java.prom"),
        include_str!("../samples/ingress-nginx.prom"),
        include_str!("../samples/kinto-ms-values-in-seconds-buckets.prom"),
        include_str!("../samples/linkerd-response_latency_ms.prom"),
        include_str!("../samples/micrometer-percentiles-zeroed.prom"),
        include_str!("../samples/micrometer-summary-type-with-buckets.prom"),
        include_str!("../samples/otel-seconds-metric-with-ms-buckets.prom"),
        include_str!("../samples/summary-nan-quantiles.prom"),
        include_str!("../samples/victoriametrics-vmrange.prom"),
    ] {
        feed.exposition(text);
    }
    let mut classic = |metric: &str, buckets: &[(&str, f64)], sum| feed.classic(metric, &[], buckets, sum);
    classic(
        "case_idle_seconds",
        &[(".1", 0.0), ("1", 0.0), ("+Inf", 0.0)],
        0.0,
    );
    // Forty scrapes are in the window: 3 calls.
    classic(
        "case_few_seconds",
        &[(".1", 2.0 / 40.0), (".5", 3.0 / 40.0), ("+Inf", 3.0 / 40.0)],
        0.5 / 40.0,
    );
    classic(
        "case_top_bucket_seconds",
        &[(".1", 90.0), (".5", 94.0), ("1", 95.0), ("+Inf", 100.0)],
        30.0,
    );
    classic(
        "case_coarse_seconds",
        &[
            (".1", 1000.0),
            (".3", 1000.0),
            ("1.2", 1000.0),
            ("5", 1000.0),
            ("+Inf", 1000.0),
        ],
        20.0,
    );
    classic(
        "case_falling_seconds",
        &[(".1", 60.0), (".5", 57.0), ("1", 95.0), ("+Inf", 100.0)],
        30.0,
    );
    classic(
        "case_falling_a_little_seconds",
        &[(".1", 60.0), (".5", 59.5), ("1", 95.0), ("+Inf", 100.0)],
        30.0,
    );
    classic(
        "case_per_bucket_seconds",
        &[(".1", 60.0), (".5", 30.0), ("1", 8.0), ("+Inf", 2.0)],
        30.0,
    );
    classic(
        "case_total_seconds",
        &[(".1", 60.0), (".5", 90.0), ("1", 98.0), ("+Inf", 98.0)],
        30.0,
    );
    // `_count` says more than the buckets hold.
    feed.counter("case_total_seconds_count", &[("who", "other")], 20.0);
    for (pod, bounds) in [("a", [".5", "1"]), ("b", ["0.75", "2"])] {
        let buckets = [(bounds[0], 5.0), (bounds[1], 9.0), ("+Inf", 10.0)];
        feed.classic("case_layouts_seconds", &[("pod", pod)], &buckets, 5.0);
    }
    for (name, value) in [("count", 5.0), ("sum", 1.0), ("max", 0.4)] {
        feed.counter(&format!("case_spring_seconds_{name}"), &[], value);
    }
    feed.numbers("haproxy_backend_response_time_average_seconds", &[], |_| 0.2);
}

async fn read(metric: &str, unit: Unit, pairs: &[(&str, &str)]) -> hedgerow_signals::TargetReadings {
    let mut target = latency(metric, pairs);
    target.latency.as_mut().unwrap().unit = unit;
    read_one(&source(stage::url().await), target).await
}

async fn reason(metric: &str) -> (UnknownReason, String) {
    latency_reason(&read(metric, Unit::Seconds, &[]).await)
}

#[tokio::test]
async fn zero_traffic_while_series_exist() {
    let (reason, message) = reason("case_idle_seconds").await;
    assert_eq!(reason, UnknownReason::NoTraffic, "{message}");
}

#[tokio::test]
async fn few_samples() {
    let readings = read("case_few_seconds", Unit::Seconds, &[]).await;
    let histogram = distribution(&readings);
    // What a naive reader shows: 0.1 + 0.4 x (2.97 - 2). The decision sees that there are only three.
    assert!(close(histogram.count(), 3.0));
    assert!(close(histogram.quantile(0.99).estimate().unwrap(), 0.488));
}

#[tokio::test]
async fn quantile_in_the_infinite_bucket() {
    let readings = read("case_top_bucket_seconds", Unit::Seconds, &[]).await;
    assert_eq!(distribution(&readings).quantile(0.99), Quantile::AtLeast(1.0));
    // The extreme: everything is above the last bound.
    let metric = "nginx_ingress_controller_response_duration_seconds";
    let readings = read(metric, Unit::Seconds, &[]).await;
    assert_eq!(distribution(&readings).quantile(0.5), Quantile::AtLeast(10.0));
}

#[tokio::test]
async fn no_infinite_bucket() {
    let (reason, message) = reason("response_latency_ms").await;
    assert_eq!(reason, UnknownReason::NotAHistogram, "{message}");
    assert!(message.contains("+Inf"), "{message}");
}

#[tokio::test]
async fn low_resolution() {
    let readings = read("case_coarse_seconds", Unit::Seconds, &[]).await;
    for (q, naive) in [(0.5, 0.05), (0.95, 0.095), (0.99, 0.099)] {
        let Quantile::Estimate { seconds, bucket } = distribution(&readings).quantile(q) else {
            panic!("p{q} is a bound");
        };
        // All took 20 ms: the truth is somewhere in the bucket, and that is told beside the estimate.
        assert!(close(seconds, naive), "{seconds}");
        assert_eq!(bucket, (0.0, 0.1));
    }
    let readings = read(
        "grpc_client_attempt_duration_seconds",
        Unit::Seconds,
        &[("otel_scope_name", "grpc-go")],
    )
    .await;
    let histogram = distribution(&readings);
    assert!(close(histogram.quantile(0.5).estimate().unwrap(), 3.5));
    assert!(close(histogram.quantile(0.99).estimate().unwrap(), 4.97));
}

#[tokio::test]
async fn seconds_metric_with_millisecond_shaped_bounds() {
    let (reason, message) = reason("ngap_handover_duration_seconds").await;
    assert_eq!(reason, UnknownReason::BucketsUnsuitable, "{message}");
    assert!(message.contains("milliseconds"), "{message}");
}

#[tokio::test]
async fn milliseconds_in_second_shaped_buckets() {
    // Of 121 the 60.5th: 57 are up to 5, 119 up to 7.5. Seconds, the buckets say; the decision knows the deadline.
    let readings = read("remotesettings_backend_cache", Unit::Seconds, &[]).await;
    let median = distribution(&readings).quantile(0.5).estimate().unwrap();
    assert!(close(median, 5.0 + 2.5 * 3.5 / 62.0), "{median}");
}

#[tokio::test]
async fn wrong_unit_by_name() {
    // Declared as milliseconds the same buckets are plausible.
    let readings = read("remotesettings_backend_cache", Unit::Milliseconds, &[]).await;
    let median = distribution(&readings).quantile(0.5).estimate().unwrap();
    assert!(close(median, 0.005 + 0.0025 * 3.5 / 62.0), "{median}");
}

#[tokio::test]
async fn non_monotonic_buckets() {
    let (reason, message) = reason("case_falling_seconds").await;
    assert_eq!(reason, UnknownReason::NonMonotonic, "{message}");
    // Half a per cent is repaired as the reference repairs it: by the cumulative maximum.
    let readings = read("case_falling_a_little_seconds", Unit::Seconds, &[]).await;
    let buckets = distribution(&readings).buckets();
    assert!(close(buckets[1].1, buckets[0].1), "{buckets:?}");
}

#[tokio::test]
async fn per_bucket_instead_of_cumulative_counts() {
    let (reason, message) = reason("case_per_bucket_seconds").await;
    assert_eq!(reason, UnknownReason::NotAHistogram, "{message}");
    assert!(message.contains("cumulative"), "{message}");
}

#[tokio::test]
async fn layouts_that_differ_between_pods() {
    let (reason, message) = reason("case_layouts_seconds").await;
    assert_eq!(reason, UnknownReason::MixedBuckets, "{message}");
    // With three bounds in common: `two_layouts_are_reduced_to_what_is_common`.
    let readings = read("case_layouts_seconds", Unit::Seconds, &[("pod", "a")]).await;
    assert_eq!(window(&readings).caveat, None);
    assert_eq!(distribution(&readings).buckets().len(), 3);
}

#[tokio::test]
async fn bounds_spelled_in_different_ways() {
    // Go writes 1e-05 and 0, Java 1.0E-5 and 0.0. One call by Go, 34 by Java, at each of 40 scrapes.
    let metric = "grpc_client_attempt_duration_seconds";
    let count = async |pairs: &[(&str, &str)]| {
        let readings = read(metric, Unit::Seconds, pairs).await;
        let histogram = distribution(&readings);
        assert_eq!(window(&readings).caveat, None);
        (histogram.count(), histogram.buckets().len())
    };
    let (go, bounds) = count(&[("otel_scope_name", "grpc-go")]).await;
    let (java, same) = count(&[("otel_scope_name", "grpc-java")]).await;
    let (both, merged) = count(&[]).await;
    assert!(close(both, go + java), "{both}: {go} and {java}");
    assert_eq!((bounds, same), (merged, merged));
}

#[tokio::test]
async fn first_bound_zero() {
    let readings = read(
        "grpc_client_attempt_duration_seconds",
        Unit::Seconds,
        &[("otel_scope_name", "grpc-java")],
    )
    .await;
    assert_eq!(
        distribution(&readings).buckets()[0].0.to_bits(),
        0.0_f64.to_bits()
    );
}

#[tokio::test]
async fn victoria_metrics_vmrange() {
    let (reason, message) = reason("prefix").await;
    assert_eq!(reason, UnknownReason::NotAHistogram, "{message}");
    assert!(message.contains("vmrange"), "{message}");
}

#[tokio::test]
async fn summary_or_averages_only() {
    for metric in [
        "rest_client_request_latency_microseconds",
        "haproxy_backend_response_time_average_seconds",
    ] {
        let (reason, message) = reason(metric).await;
        assert_eq!(reason, UnknownReason::NotAHistogram, "{message}");
    }
    // As a saturation signal an average will do, and percentiles that are NaN are skipped.
    let source = source(stage::url().await);
    let readings = read_one(
        &source,
        gauge("haproxy_backend_response_time_average_seconds", &[]),
    )
    .await;
    assert_eq!(values(&readings.signals[0]), [0.2]);
    let summary = gauge("rest_client_request_latency_microseconds", &[("verb", "GET")]);
    let (reason, message) = signal_reason(&read_one(&source, summary).await);
    assert_eq!(reason, UnknownReason::NotANumber, "{message}");
}

#[tokio::test]
async fn idle_percentiles_that_read_zero() {
    let (reason, message) = reason("my_task_seconds").await;
    assert_eq!(reason, UnknownReason::NoTraffic, "{message}");
    assert!(message.contains("percentiles-histogram"), "{message}");
}

#[tokio::test]
async fn no_buckets_by_default() {
    let (reason, message) = reason("case_spring_seconds").await;
    assert_eq!(reason, UnknownReason::NotAHistogram, "{message}");
    assert!(
        message.contains("management.metrics.distribution.percentiles-histogram"),
        "{message}"
    );
}

#[tokio::test]
async fn bucket_total_that_disagrees_with_count() {
    for metric in ["measurements_last_byte_seconds", "case_total_seconds"] {
        let (reason, message) = reason(metric).await;
        assert_eq!(reason, UnknownReason::NotAHistogram, "{message}");
        assert!(message.contains("_count"), "{message}");
    }
}

#[tokio::test]
async fn envoy_with_exclusive_bounds_and_an_approximate_sum() {
    let readings = read("envoy_cluster_upstream_rq_time", Unit::Milliseconds, &[]).await;
    let histogram = distribution(&readings);
    // Of 7: the 3.5th is in (50, 100] after 2, the 6.93rd in (5000, 10000] after 6.
    assert!(close(histogram.quantile(0.5).estimate().unwrap(), 0.0875));
    assert!(close(histogram.quantile(0.99).estimate().unwrap(), 9.65));
    assert_eq!(readings.scrape_interval, Some(Duration::from_secs(15)));
}
