//! What the HDFS client makes of a document.

use hedgerow_config::{Form, HdfsClient};

use crate::{OFF, Read, assert_refused, expected, on, part, rendered};

fn read(document: &str) -> anyhow::Result<Read> {
    crate::read("hdfs", "hdfs-site.xml", document, &[])
}

fn document(orders: &hedgerow_tuner::Orders) -> String {
    rendered(&Form::Hdfs(vec![part(orders, HdfsClient { threads: Some(16) })]))
}

#[test]
fn the_client_has_the_threads_and_the_threshold() {
    let client = |millis| expected([("threads", "16"), ("thresholdMillis", millis)]);
    assert_eq!(read(&document(&on(511.2))).unwrap(), client("512"));
    assert_eq!(read(&document(&on(600.0))).unwrap(), client("600"));
}

#[test]
fn off_has_no_threads() {
    // 500 ms is the client's default; without threads nothing uses it.
    assert_eq!(
        read(&document(&OFF)).unwrap(),
        expected([("threads", "0"), ("thresholdMillis", "500")])
    );
}

#[test]
fn the_client_refuses_what_the_renderer_never_writes() {
    let good = document(&on(512.0));
    for (from, to, reason) in [
        (">512<", ">soon<", "NumberFormatException"),
        ("</configuration>", "", "hdfs-site.xml"),
    ] {
        assert!(good.contains(from));
        assert_refused(read(&good.replace(from, to)), reason);
    }
}
