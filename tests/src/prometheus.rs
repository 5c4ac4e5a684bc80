//! Prometheus.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{Part, Process, eventually, free_port, http_client, part, scratch};

const READY_WITHIN: Duration = Duration::from_secs(60);

/// A Prometheus that scrapes what a test serves. Stops when dropped.
#[derive(Debug)]
pub struct Prometheus {
    folder: PathBuf,
    listen: IpAddr,
    port: u16,
    http: reqwest::Client,
    process: Option<Process>,
}

/// What a [`Prometheus`] scrapes and evaluates.
#[derive(Clone, Debug)]
pub struct PrometheusOptions {
    jobs: Vec<(String, SocketAddr)>,
    alerts: Vec<(String, String)>,
    rules: Vec<PathBuf>,
    honor_labels: bool,
    listen: IpAddr,
    folder: Option<PathBuf>,
}

impl PrometheusOptions {
    /// Nothing yet, every second.
    #[expect(clippy::new_without_default, reason = "reads better where it is used")]
    pub const fn new() -> Self {
        Self {
            jobs: Vec::new(),
            alerts: Vec::new(),
            rules: Vec::new(),
            honor_labels: false,
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            folder: None,
        }
    }

    /// Scrapes `/metrics` at `address` as the job `name`.
    #[must_use]
    pub fn job(mut self, name: &str, address: SocketAddr) -> Self {
        self.jobs.push((name.to_owned(), address));
        self
    }

    /// Has an alerting rule `name` that fires at once when `expression` is true.
    #[must_use]
    pub fn alert(mut self, name: &str, expression: &str) -> Self {
        self.alerts.push((name.to_owned(), expression.to_owned()));
        self
    }

    /// Evaluates this rule file too.
    #[must_use]
    pub fn rules(mut self, file: PathBuf) -> Self {
        self.rules.push(file);
        self
    }

    /// Keeps labels as they are exposed, where they are also those of a scrape.
    #[must_use]
    pub const fn honor_labels(mut self) -> Self {
        self.honor_labels = true;
        self
    }

    /// Listens on this address of the machine instead of loopback: for pods, [`Node::HOST`](crate::Node::HOST).
    #[must_use]
    pub const fn listen(mut self, address: IpAddr) -> Self {
        self.listen = address;
        self
    }

    /// Keeps data and logs in `folder`.
    #[must_use]
    pub fn folder(mut self, folder: PathBuf) -> Self {
        self.folder = Some(folder);
        self
    }

    /// Starts it, and waits until it is ready.
    ///
    /// # Errors
    /// When it is not built, ends, or is not ready in time.
    pub async fn start(self) -> Result<Prometheus> {
        let folder = self.folder.clone().map_or_else(|| scratch("prometheus"), Ok)?;
        fs::create_dir_all(&folder)?;
        // JSON is YAML.
        fs::write(folder.join("prometheus.yml"), self.config().to_string())?;
        fs::write(folder.join("alerts.yml"), self.own_rules().to_string())?;
        let http = http_client(Duration::from_secs(5))?;
        let mut prometheus = Prometheus {
            folder,
            listen: self.listen,
            port: free_port()?,
            http,
            process: None,
        };
        prometheus.start().await?;
        Ok(prometheus)
    }

    fn config(&self) -> Value {
        let job = |(name, address): &(String, SocketAddr)| {
            json!({
                "job_name": name, "honor_labels": self.honor_labels,
                "static_configs": [{ "targets": [address.to_string()] }],
            })
        };
        let own = PathBuf::from("alerts.yml");
        let rules: Vec<&PathBuf> = self.rules.iter().chain([&own]).collect();
        json!({
            "global": { "scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s" },
            "rule_files": rules,
            "scrape_configs": self.jobs.iter().map(job).collect::<Vec<_>>(),
        })
    }

    fn own_rules(&self) -> Value {
        let rule = |(name, expression): &(String, String)| json!({ "alert": name, "expr": expression });
        json!({ "groups": [{ "name": "tests", "rules": self.alerts.iter().map(rule).collect::<Vec<_>>() }] })
    }
}

impl Prometheus {
    /// Its base URL: the same after a [`stop`](Self::stop) and a [`start`](Self::start).
    pub fn url(&self) -> String {
        format!("http://{}:{}", self.listen, self.port)
    }

    /// Starts it again after a stop, with the data that it had, and waits until it is ready.
    ///
    /// # Errors
    /// When it runs already, ends, or is not ready in time.
    pub async fn start(&mut self) -> Result<()> {
        if self.process.is_some() {
            bail!("Prometheus runs already");
        }
        let mut command = Command::new(part(Part::Prometheus)?);
        command
            .arg(format!(
                "--config.file={}",
                self.folder.join("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                self.folder.join("data").display()
            ))
            .arg(format!("--web.listen-address={}:{}", self.listen, self.port));
        let mut process = Process::spawn("prometheus", &command, &self.folder.join("prometheus.log"))?;
        eventually("Prometheus is ready", READY_WITHIN, async || {
            process.must_run()?;
            self.get("/-/ready").await.map(|_| ())
        })
        .await?;
        self.process = Some(process);
        Ok(())
    }

    /// Stops it: connections to it are refused.
    ///
    /// # Errors
    /// When it does not run or does not end.
    pub async fn stop(&mut self) -> Result<()> {
        let process = self.process.take().context("Prometheus does not run")?;
        process.terminate(Duration::from_secs(30)).await?;
        Ok(())
    }

    /// Where data and logs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Freezes it: connections to it are accepted and nothing is answered.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// How many requests its query API (`/api/v1/query`) has answered since it started.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn queries_answered(&self) -> Result<u64> {
        let metrics = self.get("/metrics").await?;
        let of_queries = |line: &&str| {
            line.starts_with("prometheus_http_requests_total{") && line.contains("handler=\"/api/v1/query\"")
        };
        let counts = metrics
            .lines()
            .filter(of_queries)
            .filter_map(|line| line.rsplit(' ').next());
        counts
            .map(|count| {
                count
                    .parse::<u64>()
                    .with_context(|| format!("not a count: {count}"))
            })
            .sum()
    }

    /// The values of an instant query, by their labels' JSON.
    ///
    /// # Errors
    /// When it is refused or Prometheus does not answer.
    pub async fn query(&self, expression: &str) -> Result<Vec<(Value, f64)>> {
        let url = format!("{}/api/v1/query", self.url());
        let answer = self.http.post(url).form(&[("query", expression)]).send().await?;
        let answer: Value = answer.error_for_status()?.json().await?;
        let series = answer["data"]["result"]
            .as_array()
            .context("the answer is no vector")?;
        let value = |series: &Value| {
            let value = series["value"][1].as_str()?.parse().ok()?;
            Some((series["metric"].clone(), value))
        };
        series
            .iter()
            .map(|one| value(one).with_context(|| format!("no sample: {one}")))
            .collect()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        self.process
            .as_ref()
            .context("Prometheus does not run")?
            .signal(signal)
    }

    async fn get(&self, path: &str) -> Result<String> {
        let answer = self.http.get(format!("{}{path}", self.url())).send().await?;
        Ok(answer.error_for_status()?.text().await?)
    }
}
