//! The operator as a process of this machine, by what the chart made: its account's rights, its configuration.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hedgerow_tests::{
    Build, Cluster, Output, Process, eventually, free_port, hedgerow, http_client, scratch,
};
use serde_json::{Value, json};

/// Values by which it listens where others do not.
pub(crate) fn listening() -> Value {
    let (port, explain) = (free_port().unwrap(), free_port().unwrap());
    json!({ "listen": { "address": "127.0.0.1", "port": port, "explainPort": explain } })
}

/// Runs it as the ServiceAccount `account` of `home` with this configuration file, and waits until it is ready.
pub(crate) async fn run(cluster: &Cluster, home: &str, account: &str, config: &str) -> Process {
    let folder = scratch("operator").unwrap();
    let file = folder.join("operator.yaml");
    // What a pod is told by its ServiceAccount's files.
    std::fs::write(&file, format!("namespace: {home}\n{config}")).unwrap();
    let credentials = cluster
        .admin()
        .of_service_account(home, account, folder.join("kubeconfig"))
        .await
        .unwrap();
    let mut command = Command::new(hedgerow(Build::Debug).unwrap());
    command
        .args(["run", "--log-format", "text", "--config"])
        .arg(&file)
        .env("KUBECONFIG", credentials.kubeconfig());
    let mut process = Process::spawn("hedgerow", &command, &folder.join("operator.log")).unwrap();
    let config: Value = serde_saphyr::from_str(config).unwrap();
    let ready = format!("http://{}/readyz", config["listen"]["address"].as_str().unwrap());
    let http = http_client(Duration::from_secs(5)).unwrap();
    let waited = eventually("the operator is ready", Duration::from_secs(60), async || {
        process.must_run()?;
        let answer = http.get(&ready).send().await?;
        ensure!(answer.status().is_success(), "{}", answer.text().await?);
        Ok(())
    });
    waited.await.with_context(|| process.log_tail()).unwrap();
    process
}

/// Runs `hedgerow check` as a ServiceAccount, and returns what it said.
pub(crate) async fn check(
    cluster: &Cluster,
    home: &str,
    account: &str,
    arguments: &[&str],
) -> Result<Output> {
    let kubeconfig = scratch("check")?.join("kubeconfig");
    let credentials = cluster
        .admin()
        .of_service_account(home, account, kubeconfig)
        .await?;
    let output = tokio::process::Command::new(hedgerow(Build::Debug)?)
        .args(arguments)
        .env("KUBECONFIG", credentials.kubeconfig())
        .kill_on_drop(true)
        .output()
        .await?;
    Ok(output.into())
}
