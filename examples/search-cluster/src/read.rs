//! One attempt at reading a section from one replica.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use prometheus_client::metrics::counter::Counter;

use crate::replica::CURRENT_VERSION;

/// Says that a read is a hedge, so that a replica can count it.
pub(crate) const HEDGE_HEADER: &str = "hedge";
/// The number of the query that a read is for.
pub(crate) const QUERY_HEADER: &str = "query";
/// The version of the data that a section is made of.
pub(crate) const VERSION_HEADER: &str = "version";

/// What to read, and where.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    /// The number of the query, if it has one.
    pub query: Option<u64>,
    /// The replicas of the shard.
    pub replicas: Arc<[SocketAddr]>,
    /// Which of them is asked first; attempts after the first go to those after it.
    pub first: usize,
    /// 0 for the first attempt, then 1, 2, ...
    pub attempt: usize,
}

/// What came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    /// Which attempt brought it.
    pub attempt: usize,
    /// The version of its data.
    version: u64,
}

/// Reads from replicas, and counts each attempt.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    client: Client<HttpConnector, Empty<Bytes>>,
    attempts: Counter,
}

impl Read {
    /// The same read, as its attempt of this number.
    pub(crate) fn attempt(&self, number: usize) -> Self {
        Self {
            attempt: number,
            ..self.clone()
        }
    }

    fn replica(&self) -> SocketAddr {
        self.replicas[(self.first + self.attempt) % self.replicas.len()]
    }
}

impl Section {
    /// # Errors
    /// When it is of an older version than the current one.
    pub(crate) fn must_be_current(&self) -> Result<(), String> {
        let version = self.version;
        (version >= CURRENT_VERSION)
            .then_some(())
            .ok_or_else(|| format!("version {version}, which is older than {CURRENT_VERSION}"))
    }
}

impl Reader {
    /// One that counts in `attempts`.
    pub(crate) fn new(attempts: Counter) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            attempts,
        }
    }

    /// One attempt. Dropping it closes its connection, by which the replica learns that nobody waits.
    pub(crate) fn read(&self, read: Read) -> impl Future<Output = Result<Section>> + Send + use<> {
        let reader = self.clone();
        async move { reader.send(read).await }
    }

    async fn send(&self, read: Read) -> Result<Section> {
        self.attempts.inc();
        let replica = read.replica();
        let mut request = Request::get(format!("http://{replica}/read"));
        if let Some(query) = read.query {
            request = request.header(QUERY_HEADER, query);
        }
        if read.attempt > 0 {
            request = request.header(HEDGE_HEADER, read.attempt);
        }
        let answer = self.client.request(request.body(Empty::new())?).await?;
        if !answer.status().is_success() {
            bail!("{replica} answered {}", answer.status());
        }
        let version = answer
            .headers()
            .get(VERSION_HEADER)
            .and_then(|version| version.to_str().ok()?.parse().ok())
            .with_context(|| format!("{replica} does not say which version it serves"))?;
        answer.into_body().collect().await?;
        Ok(Section {
            attempt: read.attempt,
            version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_goes_to_the_replica_after_the_one_before() {
        let replicas: [SocketAddr; 2] = [([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into()];
        let read = Read {
            query: None,
            replicas: replicas.into(),
            first: 7,
            attempt: 0,
        };
        assert_eq!(read.replica(), replicas[1]);
        assert_eq!(read.attempt(1).replica(), replicas[0]);
    }

    #[test]
    fn a_section_of_an_older_version_is_not_current() {
        let of = |version| Section { attempt: 0, version };
        assert!(of(CURRENT_VERSION).must_be_current().is_ok());
        assert!(of(CURRENT_VERSION - 1).must_be_current().is_err());
    }
}
