//! The programs of a release's pods, as processes of this machine: by the chart's rights and configuration.

use std::fs;
use std::process::Command as Start;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::output::{Output, output_of};
use crate::{Build, Cluster, Process, eventually, hedgerow, http_client, scratch};

/// Runs the operator as the ServiceAccount `account` of `home` with this configuration file, and waits until it is ready.
///
/// # Errors
/// When the account does not exist, or the operator ends or is not ready within a minute; with the end of its log.
pub async fn run_installed(cluster: &Cluster, home: &str, account: &str, config: &str) -> Result<Process> {
    let folder = scratch("operator")?;
    let file = folder.join("operator.yaml");
    // What a pod is told by its ServiceAccount's files.
    fs::write(&file, format!("namespace: {home}\n{config}"))?;
    let credentials = cluster
        .admin()
        .of_service_account(home, account, folder.join("kubeconfig"))
        .await?;
    let mut command = Start::new(hedgerow(Build::Debug)?);
    command
        .args(["run", "--log-format", "text", "--config"])
        .arg(&file)
        .env("KUBECONFIG", credentials.kubeconfig());
    let mut process = Process::spawn("hedgerow", &command, &folder.join("operator.log"))?;
    let config: Value = serde_saphyr::from_str(config)?;
    let address = config["listen"]["address"]
        .as_str()
        .context("listen.address is not said")?;
    let ready = format!("http://{address}/readyz");
    let http = http_client(Duration::from_secs(5))?;
    let waited = eventually("the operator is ready", Duration::from_secs(60), async || {
        process.must_run()?;
        let answer = http.get(&ready).send().await?;
        ensure!(answer.status().is_success(), "{}", answer.text().await?);
        Ok(())
    });
    waited.await.with_context(|| process.log_tail())?;
    Ok(process)
}

/// Runs `hedgerow` to its end as a ServiceAccount, as the pod of `helm test` does, and returns what it said.
///
/// # Errors
/// When the account does not exist, or it cannot be run.
pub async fn run_as(cluster: &Cluster, home: &str, account: &str, arguments: &[&str]) -> Result<Output> {
    let kubeconfig = scratch("as")?.join("kubeconfig");
    let credentials = cluster
        .admin()
        .of_service_account(home, account, kubeconfig)
        .await?;
    let mut command = Command::new(hedgerow(Build::Debug)?);
    command
        .args(arguments)
        .env("KUBECONFIG", credentials.kubeconfig());
    output_of(command, "").await
}
