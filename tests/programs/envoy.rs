//! Envoy, as `examples/envoy` sets it up, on loopback.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hedgerow_tests::{Part, Process, eventually, free_port, http_client, part, scratch};
use serde_json::{Value, json};

use crate::attempts::{Attempt, Attempts, CALL, TAKES, new_call};
use crate::examples::example_data;
use crate::mounted::Mounted;
use crate::upstream;

const SOON: Duration = Duration::from_secs(60);

/// The name that `examples/envoy` gives its cluster.
pub(crate) const CLUSTER: &str = "kb-search";

/// An Envoy between the test and two hosts.
pub(crate) struct Envoy {
    process: Process,
    http: reqwest::Client,
    port: u16,
    admin: u16,
    attempts: Attempts,
}

/// A call through Envoy, when it is over.
#[derive(Debug)]
pub(crate) struct Call {
    /// The HTTP status.
    pub(crate) status: u16,
    /// When it was sent.
    pub(crate) sent: Instant,
    /// What the hosts saw of it.
    pub(crate) attempts: Vec<Attempt>,
}

impl Envoy {
    /// Starts it on the routes in `mounted`.
    pub(crate) async fn start(mounted: &Mounted) -> Self {
        let attempts = Attempts::default();
        let hosts = upstream::hosts(2, &attempts).await;
        let (port, admin) = (free_port().unwrap(), free_port().unwrap());
        let folder = scratch("envoy").unwrap();
        let bootstrap = folder.join("envoy.yaml");
        // JSON is YAML.
        fs::write(
            &bootstrap,
            here(port, admin, mounted.folder(), &hosts).to_string(),
        )
        .unwrap();
        let mut command = Command::new(part(Part::Envoy).unwrap());
        // Envoys of one machine share memory unless told not to. And by default they only warn of fields unknown to them.
        command.args(["--disable-hot-restart", "--reject-unknown-dynamic-fields"]);
        command.args(["--concurrency", "1", "--config-path"]);
        command.arg(&bootstrap);
        let process = Process::spawn("envoy", &command, &folder.join("envoy.log")).unwrap();
        let http = http_client(SOON).unwrap();
        let mut envoy = Self {
            process,
            http,
            port,
            admin,
            attempts,
        };
        eventually("Envoy is ready", SOON, async || {
            envoy.process.must_run()?;
            let ready = envoy.ask("/ready").await?;
            ensure!(ready.contains("LIVE"), "{ready}");
            Ok(())
        })
        .await
        .unwrap();
        envoy
    }

    /// A counter of the route discovery, such as `config_reload`.
    pub(crate) async fn routes(&self, counter: &str) -> u64 {
        self.counter(&format!("http.ingress.rds.hedged_routes.{counter}"))
            .await
            .unwrap()
    }

    /// Checks that it took on all routes that it was given.
    pub(crate) async fn has_refused_nothing(&self) {
        assert_eq!(self.routes("update_rejected").await, 0);
        assert_eq!(self.routes("update_failure").await, 0);
    }

    /// Waits until Envoy has taken on routes `times` times since its start.
    pub(crate) async fn takes_on(&self, times: u64) {
        eventually("Envoy takes on the routes", SOON, async || {
            let reloads = self
                .counter("http.ingress.rds.hedged_routes.config_reload")
                .await?;
            ensure!(reloads == times, "taken on {reloads} times, not {times}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Makes a call; its first attempt takes so many milliseconds at the host, the second so many, and so on.
    pub(crate) async fn call(&self, takes: &str) -> Call {
        let name = new_call();
        let sent = Instant::now();
        let answer = self
            .http
            .get(format!("http://127.0.0.1:{}/search", self.port))
            .header(CALL, &name)
            .header(TAKES, takes)
            .send()
            .await
            .unwrap();
        let status = answer.status().as_u16();
        answer.bytes().await.unwrap();
        // A host learns a moment later that it need not answer.
        let attempts = eventually("each attempt has ended", SOON, async || {
            let attempts = self.attempts.of(&name);
            let ended = |attempt: &Attempt| attempt.answered.or(attempt.cancelled).is_some();
            ensure!(attempts.iter().all(ended), "{attempts:?}");
            Ok(attempts)
        })
        .await
        .unwrap();
        Call {
            status,
            sent,
            attempts,
        }
    }

    async fn counter(&self, name: &str) -> Result<u64> {
        let stats = self.ask(&format!("/stats?filter=^{name}$")).await?;
        let value = stats
            .trim()
            .strip_prefix(name)
            .context(format!("no counter {name}: {stats}"))?;
        Ok(value.trim_start_matches(':').trim().parse()?)
    }

    async fn ask(&self, path: &str) -> Result<String> {
        let url = format!("http://127.0.0.1:{}{path}", self.admin);
        Ok(self.http.get(url).send().await?.text().await?)
    }
}

/// The example's bootstrap, with the addresses and the folder of this test and nothing else changed.
fn here(port: u16, admin: u16, mounted: &Path, hosts: &[SocketAddr]) -> Value {
    let text = example_data("envoy/bootstrap.yaml", "envoy.yaml");
    let mut bootstrap: Value =
        serde_saphyr::from_str(&text.replace("/etc/hedgerow", mounted.to_str().unwrap())).unwrap();
    let address = |address: SocketAddr| json!({ "socket_address": { "address": address.ip(), "port_value": address.port() } });
    let local = |port| address(SocketAddr::from(([127, 0, 0, 1], port)));
    bootstrap["admin"]["address"] = local(admin);
    bootstrap["static_resources"]["listeners"][0]["address"] = local(port);
    let cluster = &mut bootstrap["static_resources"]["clusters"][0];
    cluster["type"] = json!("STATIC");
    cluster["load_assignment"]["endpoints"][0]["lb_endpoints"] = hosts
        .iter()
        .map(|host| json!({ "endpoint": { "address": address(*host) } }))
        .collect();
    bootstrap
}
