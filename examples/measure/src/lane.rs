//! The programs of one way of hedging: servers, a front end and a load of its own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use hedgerow_stage::{NAMESPACE, Servers, series, start, text};
use hedgerow_tests::{Process, eventually, free_port};

use crate::figures::{Query, Sample};
use crate::scenario::Scenario;
use crate::stage::{KEY, Stage};
use crate::way::Way;

/// Longer than any case; the load ends when it is told to.
const LOAD_SECONDS: &str = "3600";
/// The load waits for the last answers, which come within the deadline of a second.
const LOAD_ENDS_WITHIN: Duration = Duration::from_secs(15);

/// How much load, and which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Queries per second of each way.
    pub rate: f64,
    /// What arrivals and service times are drawn from: the same for all ways.
    pub seed: u64,
}

/// The programs of one way. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Lane {
    load: Option<Process>,
    _front_end: Process,
    servers: Servers,
    front_end: SocketAddr,
    folder: PathBuf,
    name: String,
    http: reqwest::Client,
}

impl Lane {
    /// Starts servers and front end; Hedgerow's where Prometheus looks for them.
    pub(crate) async fn start(stage: &Stage, scenario: Scenario, way: Way, seed: u64) -> Result<Self> {
        let name = format!("{}-{}", scenario.name(), way.flag(scenario).replace(':', "-"));
        let (folder, place) = (stage.folder().to_owned(), stage.place(scenario)?);
        let (slots, seed, control) = (
            scenario.slots().to_string(),
            seed.to_string(),
            place.servers.to_string(),
        );
        let mut arguments = vec!["--slots", &slots, "--seed", &seed];
        if way == Way::Hedgerow {
            arguments.extend(["--control", &control]);
        }
        let servers = Servers::start(&format!("{name}-servers"), &folder, &arguments).await?;
        servers.control().disturb(scenario.usual()).await?;
        let front_end = match way {
            Way::Hedgerow => place.front_end,
            _ => (Ipv4Addr::LOCALHOST, free_port()?).into(),
        };
        let (listen, flag) = (front_end.to_string(), way.flag(scenario));
        let document = format!("{NAMESPACE}/{}/{KEY}", scenario.name());
        let mut arguments = vec!["front-end", "--shards", text(servers.addresses())?];
        arguments.extend(["--listen", &listen, "--hedging", &flag]);
        if way == Way::Hedgerow {
            arguments.extend([
                "--config-map",
                &document,
                "--kubeconfig",
                text(stage.kubeconfig())?,
            ]);
        }
        let process = start(
            "search-cluster",
            &format!("{name}-front-end"),
            &folder,
            &arguments,
        )?;
        let lane = Self {
            load: None,
            _front_end: process,
            servers,
            front_end,
            folder,
            name,
            http: reqwest::Client::builder()
                .no_proxy()
                .timeout(Duration::from_secs(2))
                .build()?,
        };
        eventually("the front end serves", Duration::from_secs(20), async || {
            lane.look().await
        })
        .await?;
        Ok(lane)
    }

    /// The load begins.
    pub(crate) fn load(&mut self, load: Load) -> Result<()> {
        let (url, rate, seed) = (
            format!("http://{}/search", self.front_end),
            load.rate.to_string(),
            load.seed.to_string(),
        );
        let record = self.record();
        let mut arguments = vec!["load", "--url", &url, "--seconds", LOAD_SECONDS];
        arguments.extend(["--rate", &rate, "--seed", &seed, "--record", text(&record)?]);
        let process = start(
            "search-cluster",
            &format!("{}-load", self.name),
            &self.folder,
            &arguments,
        )?;
        self.load = Some(process);
        Ok(())
    }

    /// Disturbs the servers.
    pub(crate) async fn disturb(&self, how: &str) -> Result<()> {
        self.servers.control().disturb(how).await
    }

    /// What front end and servers have counted until now.
    pub(crate) async fn look(&self) -> Result<Sample> {
        let servers = self.servers.control().address().parse()?;
        let (front_end, servers) =
            tokio::try_join!(self.exposition(self.front_end), self.exposition(servers))?;
        let front = |name| series(&front_end, name).sum();
        let behind = |name| series(&servers, name).sum();
        Ok(Sample {
            calls: front("shard_read_calls_total"),
            attempts: front("shard_read_attempts_total"),
            wins: front("shard_read_wins_total"),
            busy: behind("shard_busy_seconds_total"),
            losers: behind("shard_losers_total"),
            survived: behind("shard_loser_survival_seconds_total"),
            queue: series(&servers, "shard_queue_depth").fold(0.0, f64::max),
        })
    }

    /// Ends the load, and reads what became of each query.
    pub(crate) async fn finish(mut self) -> Result<Vec<Query>> {
        let load = self.load.take().context("the load was never started")?;
        load.terminate(LOAD_ENDS_WITHIN).await?;
        let record = fs::read_to_string(self.record())?;
        record
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("not a query: {line}")))
            .collect()
    }

    fn record(&self) -> PathBuf {
        self.folder.join(format!("{}-queries.jsonl", self.name))
    }

    async fn exposition(&self, address: SocketAddr) -> Result<String> {
        let url = format!("http://{address}/metrics");
        let answer = self.http.get(url).send().await?.error_for_status()?;
        Ok(answer.text().await?)
    }
}
