//! Which documents are followed, and for how long.

#![allow(clippy::unwrap_used)] // Helpers of tests.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use common::{REASONS, Scraped, document_with, revision};
use hedgerow_client::{DocumentError, Hedger, Metrics, NativeDocument};
use hedgerow_config::Timestamp;
use serde_json::json;

const KEY: &str = "shard-read.json";

/// Writes a version of a ConfigMap as kubelet does: a new directory, and `..data` swapped to it.
fn swap_in(mount: &Path, version: &str, document: &str) {
    fs::create_dir(mount.join(version)).unwrap();
    fs::write(mount.join(version).join(KEY), document).unwrap();
    symlink(version, mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    if !mount.join(KEY).exists() {
        symlink(Path::new("..data").join(KEY), mount.join(KEY)).unwrap();
    }
}

async fn until_revision(hedger: &Hedger, expected: Option<u64>) {
    let reached = async {
        while revision(hedger) != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reached)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_mounted_document_is_read_at_the_start_and_followed_from_swap_to_swap() {
    let mount = tempfile::tempdir().unwrap();
    swap_in(mount.path(), "..1", &document_with([("/revision", json!(1))]));
    let hedger = Hedger::builder("shard-read")
        .follow_directory(mount.path(), KEY)
        .await;
    assert_eq!(revision(&hedger), Some(1));

    swap_in(mount.path(), "..2", &document_with([("/revision", json!(2))]));
    until_revision(&hedger, Some(2)).await;
    swap_in(mount.path(), "..3", "{");
    until_revision(&hedger, None).await;
    swap_in(mount.path(), "..4", &document_with([("/revision", json!(4))]));
    until_revision(&hedger, Some(4)).await;
    fs::remove_file(mount.path().join(KEY)).unwrap();
    until_revision(&hedger, None).await;
}

#[tokio::test]
async fn a_mount_without_the_key_is_followed_until_the_key_comes() {
    let mount = tempfile::tempdir().unwrap();
    let hedger = Hedger::builder("shard-read")
        .follow_directory(mount.path(), KEY)
        .await;
    assert_eq!(revision(&hedger), None);
    swap_in(mount.path(), "..1", &document_with([("/revision", json!(1))]));
    until_revision(&hedger, Some(1)).await;
}

/// In virtual time, so that what is seen by polling alone is seen at once.
#[tokio::test(start_paused = true)]
async fn a_directory_may_come_later_be_replaced_as_a_whole_and_go() {
    let parent = tempfile::tempdir().unwrap();
    let mount = parent.path().join("mount");
    let publish = |revision| {
        fs::create_dir(&mount).unwrap();
        swap_in(&mount, "..1", &document_with([("/revision", json!(revision))]));
    };
    let hedger = Hedger::builder("shard-read").follow_directory(&mount, KEY).await;
    assert_eq!(revision(&hedger), None);
    publish(1);
    until_revision(&hedger, Some(1)).await;
    fs::rename(&mount, parent.path().join("old")).unwrap();
    publish(2);
    until_revision(&hedger, Some(2)).await;
    swap_in(&mount, "..2", &document_with([("/revision", json!(3))]));
    until_revision(&hedger, Some(3)).await;
    fs::remove_dir_all(&mount).unwrap();
    until_revision(&hedger, None).await;
    publish(4);
    until_revision(&hedger, Some(4)).await;
}

/// Neither a call nor a change of the file: the follower looks at the clock by itself, so that what is exported holds.
/// The wall clock is the real one; the pauses between two looks are virtual.
#[tokio::test(start_paused = true)]
async fn a_document_expires_while_nothing_else_happens() {
    let wall = || {
        let since_epoch = std::time::UNIX_EPOCH.elapsed().unwrap();
        Timestamp::default().plus(since_epoch)
    };
    let mount = tempfile::tempdir().unwrap();
    let metrics = Metrics::default();
    let scraped = Scraped::new(&metrics);
    let mut document = NativeDocument::parse(document_with([]).as_bytes()).unwrap();
    document.validity.valid_until = Some(wall().plus(Duration::from_millis(500)));
    swap_in(mount.path(), "..1", &document.to_json());
    let _hedger = Hedger::builder("shard-read")
        .metrics(&metrics)
        .follow_directory(mount.path(), KEY)
        .await;

    let expired = "documents_total{target=\"shard-read\",outcome=\"expired\"}";
    let given_up = wall().plus(Duration::from_secs(60));
    while scraped.get(expired) == Some(0.0) && wall() < given_up {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(scraped.get(expired), Some(1.0));
    assert_eq!(scraped.get("revision{target=\"shard-read\"}"), None);
    assert_eq!(scraped.get("delay_seconds{target=\"shard-read\"}"), None);
}

#[tokio::test]
async fn whatever_may_not_be_followed_is_counted_and_leaves_no_document() {
    let metrics = Metrics::default();
    let (hedger, feed) = Hedger::builder("shard-read").metrics(&metrics).follow_feed();
    let scraped = Scraped::new(&metrics);
    let found = |outcome| {
        scraped.get(&format!(
            "documents_total{{target=\"shard-read\",outcome=\"{outcome}\"}}"
        ))
    };
    for outcome in [
        "accepted",
        "missing",
        "unreadable",
        "malformed",
        "newer_version",
        "expired",
    ] {
        assert_eq!(found(outcome), Some(0.0), "{outcome}");
    }

    feed.update(document_with([])).unwrap();
    assert_eq!((revision(&hedger), found("accepted")), (Some(17), Some(1.0)));
    assert!(matches!(feed.update("{"), Err(DocumentError::Malformed(_))));
    assert_eq!((revision(&hedger), found("malformed")), (None, Some(1.0)));

    feed.update(document_with([])).unwrap();
    let newer = document_with([("/apiVersion", json!("hedgerow.dev/v2"))]);
    assert!(matches!(feed.update(newer), Err(DocumentError::NewerVersion(_))));
    assert_eq!((revision(&hedger), found("newer_version")), (None, Some(1.0)));

    feed.update(document_with([])).unwrap();
    feed.withdraw();
    assert_eq!((revision(&hedger), found("missing")), (None, Some(1.0)));

    feed.update(document_with([])).unwrap();
    feed.update(document_with([("/validUntil", json!("2020-01-01T00:00:00Z"))]))
        .unwrap();
    assert_eq!((revision(&hedger), found("expired")), (None, Some(1.0)));

    feed.update(document_with([("/validUntil", json!("9000-01-01T00:00:00Z"))]))
        .unwrap();
    assert_eq!((revision(&hedger), found("accepted")), (Some(17), Some(5.0)));
}

#[tokio::test]
async fn delay_and_revision_are_exported_while_they_hold_and_absent_otherwise() {
    let metrics = Metrics::default();
    let (_hedger, feed) = Hedger::builder("shard-read").metrics(&metrics).follow_feed();
    let scraped = Scraped::new(&metrics);
    let exported = || {
        (
            scraped.get("delay_seconds{target=\"shard-read\"}"),
            scraped.get("revision{target=\"shard-read\"}"),
        )
    };
    assert_eq!(exported(), (None, None));
    feed.update(document_with([])).unwrap();
    assert_eq!(exported(), (Some(0.5), Some(17.0)));
    feed.update(document_with([
        ("/enabled", json!(false)),
        ("/revision", json!(18)),
    ]))
    .unwrap();
    assert_eq!(exported(), (None, Some(18.0)));
    feed.withdraw();
    assert_eq!(exported(), (None, None));
}

#[tokio::test]
async fn all_metrics_have_the_names_of_the_design_and_counters_are_there_from_the_start() {
    let metrics = Metrics::default();
    let (hedger, _feed) = Hedger::builder("shard-read").metrics(&metrics).follow_feed();
    let scraped = Scraped::new(&metrics);
    for counter in ["calls", "attempts", "hedges", "wins", "retries"] {
        assert_eq!(scraped.count(counter), 0, "{counter}");
    }
    for reason in REASONS {
        assert_eq!(scraped.blocked(reason), 0, "{reason}");
        assert_eq!(scraped.retries_blocked(reason), 0, "{reason}");
    }
    hedger.call(1, |_| async { Ok::<_, ()>(()) }).await.unwrap();
    assert_eq!(
        scraped.get("call_duration_seconds_count{target=\"shard-read\"}"),
        Some(1.0)
    );
    assert_eq!(
        scraped.get("loser_survival_seconds_count{target=\"shard-read\"}"),
        Some(0.0)
    );
    assert_eq!(scraped.get("hedges_shed_total"), Some(0.0));
}

/// The preset `HedgerowClient` is tested on the sample, so what it names is exported. (Labels of buckets come in any order.)
#[tokio::test]
async fn every_series_of_the_sample_is_exported() {
    let metrics = Metrics::default();
    let _client = Hedger::builder("shard-read").metrics(&metrics).follow_feed();
    let exported = Scraped::new(&metrics).text();
    let exported: Vec<_> = exported
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .collect();
    let sample = include_str!("../../../tests/samples/hedgerow-client.prom");
    let sample = sample
        .lines()
        .filter(|line| !line.starts_with('#') && !line.contains("_bucket{"));
    for (series, _) in sample.filter_map(|line| line.rsplit_once(' ')) {
        assert!(exported.iter().any(|(name, _)| *name == series), "{series}");
    }
}
