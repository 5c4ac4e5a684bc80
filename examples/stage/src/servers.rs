//! The replicas of the search cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hedgerow_tests::{Process, eventually};
use serde_json::Value;

use crate::{start, text};

/// The process that holds every replica. It ends when this is dropped.
#[derive(Debug)]
pub struct Servers {
    _process: Process,
    addresses: PathBuf,
    control: Control,
}

/// Where replicas are watched and disturbed.
#[derive(Clone, Debug)]
pub struct Control {
    address: String,
    /// Kept: to make one takes longer than some disturbances last.
    http: reqwest::Client,
}

impl Servers {
    /// Starts them with these further arguments, and waits until they listen.
    ///
    /// # Errors
    /// When they are not built, or do not listen in time.
    pub async fn start(name: &str, folder: &Path, arguments: &[&str]) -> Result<Self> {
        let addresses = folder.join(format!("{name}.json"));
        let arguments = [&["replicas", "--addresses", text(&addresses)?], arguments].concat();
        let process = start("search-cluster", name, folder, &arguments)?;
        let written = eventually("the replicas listen", Duration::from_secs(20), async || {
            Ok(serde_json::from_slice::<Value>(&fs::read(&addresses)?)?)
        })
        .await?;
        let control = written["control"]
            .as_str()
            .context("the replicas wrote no control address")?
            .to_owned();
        Ok(Self {
            _process: process,
            addresses,
            control: Control::new(control)?,
        })
    }

    /// The file of their addresses.
    pub fn addresses(&self) -> &Path {
        &self.addresses
    }

    /// Where they are watched and disturbed.
    pub const fn control(&self) -> &Control {
        &self.control
    }
}

impl Control {
    /// That of replicas at `address`, which is `HOST:PORT`.
    ///
    /// # Errors
    /// When there can be no HTTP client.
    pub fn new(address: String) -> Result<Self> {
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { address, http })
    }

    /// `HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Disturbs them: `latency=1.3&shard=0&replica=1`.
    ///
    /// # Errors
    /// When they refuse, or do not answer.
    pub async fn disturb(&self, how: &str) -> Result<()> {
        let url = format!("http://{}/control?{how}", self.address);
        let answer = self.http.post(url).send().await?;
        ensure!(
            answer.status().is_success(),
            "the replicas refuse {how}: {}",
            answer.text().await?
        );
        Ok(())
    }
}
