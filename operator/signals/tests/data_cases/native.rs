//! Native histograms: those cases of the first table that concern them, written to a real Prometheus and scraped by one.

use std::time::Duration;

use hedgerow_signals::{Requirement, Source, TargetReadings};
use hedgerow_tuner::UnknownReason;

use crate::stage;
use crate::support::feed::{Feed, Native};
use crate::support::process::{self, folder, free_port, run};
use crate::support::*;

/// Scrapes in [`WINDOW`].
const SCRAPES: f64 = 40.0;

/// How long ago `turned_seconds` and others became native, in seconds: within [`WINDOW`].
const TURNED: i64 = 300;

/// At each scrape four calls: one of 0.2 s, two of 0.3 s, one of 3 s.
fn four_calls() -> Native {
    Native::of(3, &[0.2, 0.3, 0.3, 3.0])
}

/// The same as classic buckets.
const FOUR_CALLS: &[(&str, f64)] = &[("0.25", 1.0), ("0.5", 3.0), ("1", 3.0), ("5", 4.0), ("+Inf", 4.0)];

pub(crate) fn samples(feed: &mut Feed) {
    let native = four_calls();
    for pod in ["a", "b"] {
        feed.native("native_seconds", &[("pod", pod)], &native);
        feed.native("both_seconds", &[("pod", pod)], &native);
        feed.classic("both_seconds", &[("pod", pod)], FOUR_CALLS, 3.8);
    }
    for replica in ["0", "1"] {
        feed.native("native_paired_seconds", &[("replica", replica)], &native);
    }
    let in_milliseconds = Native::of(3, &[200.0, 300.0, 300.0, 3000.0]);
    feed.native("native_rpc_duration_milliseconds", &[], &in_milliseconds);
    feed.native(
        "native_idle_seconds",
        &[],
        &Native {
            schema: 3,
            ..Native::default()
        },
    );
    // One pod has only one kind.
    feed.native("half_native_seconds", &[("pod", "a")], &native);
    feed.classic("half_native_seconds", &[("pod", "a")], FOUR_CALLS, 3.8);
    feed.classic("half_native_seconds", &[("pod", "b")], FOUR_CALLS, 3.8);
    // A process that turned from one kind to the other, in both directions.
    feed.until(TURNED)
        .classic("turned_native_seconds", &[], FOUR_CALLS, 3.8);
    feed.native("turned_classic_seconds", &[], &native);
    feed.since(TURNED).native("turned_native_seconds", &[], &native);
    feed.classic("turned_classic_seconds", &[], FOUR_CALLS, 3.8);
    // One name for numbers and histograms.
    feed.throughout()
        .native("muddled_seconds", &[("pod", "a")], &native);
    feed.counter("muddled_seconds", &[("pod", "b")], 1.0);
    feed.native("muddled_layouts_seconds", &[("pod", "a")], &native);
    let own_bounds = Native::with_bounds(&[0.25, 0.4], &[0.2, 0.3, 0.3, 3.0]);
    feed.native("muddled_layouts_seconds", &[("pod", "b")], &own_bounds);
    feed.once().native("native_begun_seconds", &[], &native);
    feed.throughout()
        .until(180)
        .native("native_gone_seconds", &[], &native);
    feed.throughout();
    // What the text format shows of a histogram that has native buckets alone.
    feed.classic("unscraped_seconds", &[], &[("+Inf", 4.0)], 3.8);
}

async fn read(metric: &str, pairs: &[(&str, &str)]) -> TargetReadings {
    read_one(&source(stage::url().await), latency(metric, pairs)).await
}

async fn over(metric: &str, window: Duration) -> TargetReadings {
    let mut target = latency(metric, &[]);
    target.latency.as_mut().unwrap().windows = vec![window];
    read_one(&source(stage::url().await), target).await
}

#[tokio::test]
async fn native_histogram_only() {
    let readings = read("native_seconds", &[]).await;
    let histogram = distribution(&readings);
    assert!(close(histogram.count(), 2.0 * 4.0 * SCRAPES));
    // 0.3 s is in the bucket of schema 3 from 2^(-14/8) to 2^(-13/8), with the second and third of four calls: half of
    // the calls are half way in it.
    let median = histogram.quantile(0.5).estimate().unwrap();
    assert!(close(median, (-13.5_f64 / 8.0).exp2()), "{median}");
    assert_eq!(window(&readings).caveat, None);
    assert_eq!(readings.scrape_interval, Some(Duration::from_secs(15)));
}

#[tokio::test]
async fn native_histograms_share_queries_as_classic_ones_do() {
    let source = source(stage::url().await);
    let targets = ["a", "b"].map(|pod| latency("native_seconds", &[("pod", pod)]));
    for readings in source.read(&targets).await {
        assert!(close(distribution(&readings).count(), 4.0 * SCRAPES));
    }
    assert_eq!((source.stats().requests, source.stats().dropped_groups), (1, 0));
}

#[tokio::test]
async fn native_and_classic_at_once_read_natively() {
    let readings = read("both_seconds", &[]).await;
    let histogram = distribution(&readings);
    // Once, not twice; with the finer buckets.
    assert!(close(histogram.count(), 2.0 * 4.0 * SCRAPES));
    assert!(close(
        histogram.quantile(0.5).estimate().unwrap(),
        (-13.5_f64 / 8.0).exp2()
    ));
}

#[tokio::test]
async fn native_and_classic_that_do_not_agree_are_mixed() {
    let (reason, message) = latency_reason(&read("half_native_seconds", &[]).await);
    assert_eq!(reason, UnknownReason::MixedBuckets, "{message}");
    assert!(
        message.contains("320 calls") && message.contains("160"),
        "{message}"
    );
    // Each pod by itself is of one kind.
    for (pod, bounds) in [("a", 4), ("b", 5)] {
        let readings = read("half_native_seconds", &[("pod", pod)]).await;
        let histogram = distribution(&readings);
        assert!(close(histogram.count(), 4.0 * SCRAPES));
        assert!(histogram.buckets().len() >= bounds, "{histogram:?}");
    }
}

#[tokio::test]
async fn a_source_that_changes_kind_is_held_for_one_window() {
    for metric in ["turned_native_seconds", "turned_classic_seconds"] {
        let (reason, message) = latency_reason(&read(metric, &[]).await);
        assert_eq!(reason, UnknownReason::MixedBuckets, "{metric}: {message}");
        // Once the window has passed, here a shorter one, the new kind is read, without being told.
        let readings = over(metric, Duration::from_secs(120)).await;
        assert!(close(distribution(&readings).count(), 4.0 * 8.0), "{metric}");
    }
}

#[tokio::test]
async fn a_mix_that_the_server_warns_of_concerns_its_own_target_alone() {
    for metric in ["muddled_seconds", "muddled_layouts_seconds"] {
        let source = source(stage::url().await);
        let mut whole = latency(metric, &[]);
        // The same labels, so that they share a query: of both pods, and of one.
        let requirement = |values: &[&str]| Requirement {
            key: "pod".into(),
            operator: hedgerow_signals::Operator::In,
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        whole.latency.as_mut().unwrap().selector.requirements = vec![requirement(&["a", "b"])];
        let (reason, message) = latency_reason(&read_one(&source, whole).await);
        assert_eq!(reason, UnknownReason::MixedBuckets, "{message}");
        let readings = read(metric, &[("pod", "a")]).await;
        assert!(close(distribution(&readings).count(), 4.0 * SCRAPES));
        assert_eq!(source.stats().failing, None);
    }
}

#[tokio::test]
async fn milliseconds_become_seconds() {
    let mut target = latency("native_rpc_duration_milliseconds", &[]);
    target.latency.as_mut().unwrap().unit = hedgerow_signals::Unit::Milliseconds;
    let readings = read_one(&source(stage::url().await), target).await;
    let median = distribution(&readings).quantile(0.5).estimate().unwrap();
    // 300 ms is between 2^(65/8) and 2^(66/8) ms.
    assert!(close(median, (65.5_f64 / 8.0).exp2() / 1e3), "{median}");
}

#[tokio::test]
async fn no_traffic_and_absence_of_native_histograms() {
    for (metric, pod, expected) in [
        ("native_idle_seconds", None, UnknownReason::NoTraffic),
        (
            "native_seconds",
            Some("zz"),
            UnknownReason::SelectorMatchesNothing,
        ),
        ("native_begun_seconds", None, UnknownReason::TooFewSamples),
        ("native_gone_seconds", None, UnknownReason::Stale),
    ] {
        let pairs: Vec<_> = pod.map(|pod| ("pod", pod)).into_iter().collect();
        let (reason, message) = latency_reason(&read(metric, &pairs).await);
        assert_eq!(reason, expected, "{metric}: {message}");
    }
}

#[tokio::test]
async fn pairs_of_servers_do_not_double_native_histograms() {
    let mut paired = settings(stage::url().await);
    paired.replica_label = Some("replica".into());
    let readings = read_one(&source_with(paired), latency("native_paired_seconds", &[])).await;
    assert!(close(distribution(&readings).count(), 4.0 * SCRAPES));
}

#[tokio::test]
async fn native_not_scraped() {
    let (reason, message) = latency_reason(&read("unscraped_seconds", &[]).await);
    assert_eq!(reason, UnknownReason::NativeNotScraped, "{message}");
    assert!(message.contains("scrape_native_histograms"), "{message}");
}

/// Prometheus' own metrics: one that is native alone, and one that is both, scraped in three ways.
#[tokio::test]
async fn what_is_scraped_decides_what_there_is_to_read() {
    let [program] = process::parts(["prometheus"]);
    let (folder, port) = (folder(), free_port());
    let job = |name: &str, extra: &str| {
        format!(
            "- {{ job_name: {name}, scrape_interval: 1s, {extra} static_configs: [{{ targets: [127.0.0.1:{port}] }}] }}\n"
        )
    };
    let config = format!(
        "global: {{ extra_scrape_metrics: true }}\nscrape_configs:\n{}{}{}{}",
        job("text", ""),
        job("native", "scrape_native_histograms: true,"),
        job(
            "both",
            "scrape_native_histograms: true, always_scrape_classic_histograms: true,"
        ),
        job("own_bounds", "convert_classic_histograms_to_nhcb: true,"),
    );
    std::fs::write(folder.join("prometheus.yaml"), config).unwrap();
    let address = format!("--web.listen-address=127.0.0.1:{port}");
    let arguments = [
        "--config.file=prometheus.yaml",
        "--storage.tsdb.path=data",
        &address,
    ];
    let _running = run(&folder, &program, &arguments, port, "/-/ready");
    let source = source(&format!("http://127.0.0.1:{port}"));

    // It observes one of these with each scrape, and has native buckets only.
    let alone = "prometheus_target_scrape_duration_seconds";
    let both = "prometheus_http_request_duration_seconds";
    for job in ["native", "both"] {
        eventually_read(&source, alone, job).await;
    }
    for job in ["text", "native", "both", "own_bounds"] {
        eventually_read(&source, both, job).await;
    }
    let (reason, message) = latency_reason(&read_one(&source, latency(alone, &[("job", "text")])).await);
    assert_eq!(reason, UnknownReason::NativeNotScraped, "{message}");
}

/// Reads `metric` of a job as soon as it has some calls.
async fn eventually_read(source: &Source, metric: &str, job: &str) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let readings = read_one(source, latency(metric, &[("job", job)])).await;
        match &readings.latency.as_ref().unwrap().windows {
            Ok(windows) if windows[0].distribution.is_ok() => break,
            other => assert!(
                tokio::time::Instant::now() < deadline,
                "{metric} of {job}: {other:?}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}
