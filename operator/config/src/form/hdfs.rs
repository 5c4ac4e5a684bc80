//! The client of HDFS.
//!
//! Source: `hdfs-default.xml`, and `DfsClientConf` and `DFSInputStream` of
//! [Hadoop 3](https://github.com/apache/hadoop/tree/trunk/hadoop-hdfs-project/hadoop-hdfs-client).

use super::place::Place;
use super::told::told_one;
use super::{Part, RenderError};

const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!--
  Hedged reads of the HDFS client, from Hedgerow.
  What to do: merge these properties into the hdfs-site.xml of the client and restart it; it reads them only at start.
  Only positional reads (pread) are hedged. There is no budget for hedges but the threads, and those are shared by all
  file systems of a process.
-->
<configuration>
"#;

const FOOT: &str = "</configuration>\n";

/// A client of HDFS.
///
/// On is `dfs.client.hedged.read.threadpool.size` and, in whole milliseconds, `dfs.client.hedged.read.threshold.millis`. Off
/// is a size of 0, alone. The size is the smaller of `threads` and of the hedges that a process may have in flight. However
/// many attempts are allowed, the client adds one, on a replica that it has not asked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HdfsClient {
    /// Threads for hedged reads, from 1; `None` is as many as hedges may be in flight.
    pub threads: Option<u32>,
}

impl Part<HdfsClient> {
    fn threads(&self) -> u32 {
        let in_flight = self.limits.max_concurrent;
        self.place.threads.unwrap_or(in_flight).min(in_flight)
    }
}

impl Place for HdfsClient {
    fn is_same(&self, _other: &Self) -> bool {
        true
    }
}

pub(super) fn render(parts: &[Part<HdfsClient>]) -> Result<String, RenderError> {
    let properties = match told_one(parts, check)? {
        None => property("threadpool.size", 0),
        Some((part, hedge)) => {
            property("threadpool.size", part.threads()) + &property("threshold.millis", hedge.delay_ms)
        }
    };
    Ok(format!("{HEAD}{properties}{FOOT}"))
}

fn check(part: &Part<HdfsClient>) -> Result<(), RenderError> {
    match part.threads() {
        0 => Err(part.cannot("0 threads are off: give at least 1 thread and 1 hedge in flight")),
        _ => Ok(()),
    }
}

fn property(name: &str, value: u32) -> String {
    format!(
        "  <property>\n    <name>dfs.client.hedged.read.{name}</name>\n    <value>{value}</value>\n  </property>\n"
    )
}
