//! A release on a node, from its install to its uninstall and back: in pods, as people run it.

use std::fs::read_to_string;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use hedgerow_tests::{
    HelmVersion, Image, Part, Process, Release, eventually, free_port, http_client, part, repository,
    scratch, steadily,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::client::{is_hedge, last_hedge};
use crate::policy::{CONFIG_MAP, KEY};
use crate::stage::{NAMESPACE, POLICY, SOON, Stage, values};

const IMAGES: [Image; 4] = [
    Image::Operator,
    Image::MountedClient,
    Image::SearchCluster,
    Image::Prometheus,
];

#[tokio::test]
#[ignore = "needs root and the images: make test-node"]
async fn a_release_lives_from_its_install_to_its_uninstall_and_back() {
    let Some(node) = crate::node(&IMAGES).await else {
        return;
    };
    let stage = Stage::set(node).await;
    answers_as_documented(&stage);
    stage.apply_policy().await;

    is_seen_from_outside(&stage).await;
    outlives_its_leader(&stage).await;
    outlives_an_upgrade_and_its_rollback(&stage).await;
    leaves_documents_that_expire(&stage).await;
    comes_back(&stage).await;
}

/// The commands of `docs/install.md` that want pods, `helm test` among them.
fn answers_as_documented(stage: &Stage) {
    let bin = scratch("bin").unwrap();
    symlink(stage.kubectl.program(), bin.join("kubectl")).unwrap();
    symlink(part(Part::Helm3).unwrap(), bin.join("helm")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let page = read_to_string(repository().join("docs/install.md")).unwrap();
    let block = page
        .split("```console\n")
        .filter_map(|rest| rest.split("```").next())
        .find(|block| block.contains("helm test"))
        .unwrap();
    let commands = block.lines().map(|line| line.strip_prefix("$ ").unwrap());
    for command in commands {
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", command])
            .env("PATH", &path)
            .env("HOME", &bin)
            .env("KUBECONFIG", stage.node.kubeconfig())
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
    }
}

async fn is_seen_from_outside(stage: &Stage) {
    let row: Value = serde_json::from_str(&stage.hedge_says("status -A -o json").await).unwrap();
    let target = &row["targets"][0];
    assert_eq!(
        (&target["reason"], &target["hedging"]),
        (&json!("Tuned"), &json!("yes")),
        "{row}"
    );

    let leader = stage.leader().await.unwrap();
    let explained = stage
        .hedge_says(&format!("explain {POLICY} -n {NAMESPACE}"))
        .await;
    let from = format!("the leading replica, pod {}/{leader}", Release::HOME);
    assert!(
        explained.contains(&from),
        "no port-forward to {leader}: {explained}"
    );

    let found = stage.hedge_says("doctor").await;
    for well in ["CRD", "operator", "rights", "policy helpdesk/kb-search"] {
        let line = found.lines().find(|line| line.contains(well));
        assert!(line.is_some_and(|line| line.starts_with("ok")), "{well}: {found}");
    }
    shows_its_page(stage, &leader).await;
}

/// The status page, by the port-forward that its documentation names.
async fn shows_its_page(stage: &Stage, leader: &str) {
    let port = free_port().unwrap();
    let mut command = Command::new(stage.kubectl.program());
    command
        .args([
            "--kubeconfig",
            stage.node.kubeconfig().to_str().unwrap(),
            "-n",
            Release::HOME,
        ])
        .args(["port-forward", &format!("pod/{leader}"), &format!("{port}:8082")])
        .stdin(Stdio::null());
    let log = scratch("port-forward").unwrap().join("log");
    let _forward = Process::spawn("port-forward", &command, &log).unwrap();
    let http = http_client(SOON).unwrap();
    eventually("the page shows the policy", SOON, async || {
        let page = http.get(format!("http://localhost:{port}/")).send().await?;
        let page = page.error_for_status()?.text().await?;
        ensure!(page.contains("helpdesk/kb-search"), "it is {page}");
        Ok(())
    })
    .await
    .unwrap();
}

/// What clients are told, but the times that a renewal moves.
async fn content(stage: &Stage) -> anyhow::Result<Value> {
    let mut document = stage.document().await?;
    for time in ["issuedAt", "validUntil"] {
        document[time].take();
    }
    Ok(document)
}

async fn keeps(stage: &Stage, before: &Value) {
    steadily("the document is as it was", Duration::from_secs(8), async || {
        let now = content(stage).await?;
        ensure!(now == *before, "it says {now}, said {before}");
        Ok(())
    })
    .await
    .unwrap();
}

/// Waits until a pod that was not there before explains the policy: so it leads, and has read the signals itself.
async fn is_led_by_another(stage: &Stage, before: &str) {
    let explain = format!("explain {POLICY} -n {NAMESPACE} -o json");
    eventually("another replica leads", SOON, async || {
        let explained: Value = serde_json::from_str(&stage.hedge(&explain).await.stdout)?;
        let from = explained["from"].as_str().context("it does not say from whom")?;
        ensure!(
            from.starts_with("the leading replica") && !from.contains(before),
            "it is from {from}"
        );
        Ok(())
    })
    .await
    .unwrap();
}

async fn outlives_its_leader(stage: &Stage) {
    let (before, leader) = (content(stage).await.unwrap(), stage.leader().await.unwrap());
    let delete = ["-n", Release::HOME, "delete", "pod", &leader];
    stage.kubectl.run(&delete).await.unwrap();
    is_led_by_another(stage, &leader).await;
    keeps(stage, &before).await;
}

async fn outlives_an_upgrade_and_its_rollback(stage: &Stage) {
    let before = content(stage).await.unwrap();
    let leader = stage.leader().await.unwrap();
    let mut changed = values();
    changed["propagation"] = json!("80s");
    stage.release.upgrade(&changed).await.unwrap();
    is_led_by_another(stage, &leader).await;
    keeps(stage, &before).await;

    let leader = stage.leader().await.unwrap();
    let rollback = ["rollback", "hedgerow", "1", "--wait", "--timeout=3m"];
    stage.release.helm(&rollback).await.unwrap();
    is_led_by_another(stage, &leader).await;
    keeps(stage, &before).await;
    stage.client_hedges().await;
}

async fn leaves_documents_that_expire(stage: &Stage) {
    let before = stage.config_map().await.unwrap();
    let uninstall = ["uninstall", "hedgerow", "--wait", "--timeout=2m"];
    let said = stage.release.helm(&uninstall).await.unwrap();
    assert!(
        said.contains("hedgepolicies.hedgerow.dev"),
        "it does not tell what is kept: {said}"
    );
    eventually("no replica is left", SOON, async || {
        let get = [
            "-n",
            Release::HOME,
            "get",
            "pods",
            "-o",
            "name",
            "-l",
            "app.kubernetes.io/name=hedgerow",
        ];
        let left = stage.kubectl.run(&get).await?;
        ensure!(left.is_empty(), "there are {left}");
        Ok(())
    })
    .await
    .unwrap();
    let get = ["-n", NAMESPACE, "get", "hedgepolicy", POLICY, "-o", "name"];
    stage.kubectl.run(&get).await.unwrap();
    assert_eq!(stage.config_map().await.unwrap(), before, "documents stay");
    stage.client_hedges().await;
    let found = stage.hedge("doctor").await;
    assert_eq!(found.code, Some(1), "doctor finds an operator: {found:?}");

    // No document may expire sooner than after ten minutes: the test lets them pass.
    let expiry = Timestamp::now() + SignedDuration::from_secs(15);
    let mut document = stage.document().await.unwrap();
    document["validUntil"] = json!(format!("{expiry:.0}"));
    let patch = json!({ "data": { KEY: document.to_string() } }).to_string();
    let patch = [
        "-n",
        NAMESPACE,
        "patch",
        "configmap",
        CONFIG_MAP,
        "--type=merge",
        "-p",
        &patch,
    ];
    stage.kubectl.run(&patch).await.unwrap();
    stage.hurry_client("expiry").await;
    eventually("the client has no document", SOON, async || {
        let told = stage.client_said().await?;
        let document = told
            .iter()
            .rfind(|line| !is_hedge(line))
            .context("it says nothing")?;
        ensure!(document["enabled"] == false, "it follows {document}");
        Ok(())
    })
    .await
    .unwrap();
    let told = stage.client_said().await.unwrap();
    let expired = expiry.as_duration().as_secs_f64();
    // A call that began before ends within its deadline of a second.
    assert!(last_hedge(&told).unwrap() < expired + 1.0, "{told:?}");
    steadily("it hedges no more", Duration::from_secs(5), async || {
        let now = last_hedge(&stage.client_said().await?);
        ensure!(now.is_some_and(|at| at < expired + 1.0), "it hedged at {now:?}");
        Ok(())
    })
    .await
    .unwrap();
}

async fn comes_back(stage: &Stage) {
    let left = stage.config_map().await.unwrap();
    Release::install(&stage.node, HelmVersion::V4, &values())
        .await
        .unwrap();
    eventually("the document is renewed", SOON, async || {
        let document = stage.document().await?;
        let until: Timestamp = document["validUntil"].as_str().context("no time")?.parse()?;
        ensure!(
            document["enabled"] == true && until > Timestamp::now(),
            "it says {document}"
        );
        Ok(())
    })
    .await
    .unwrap();
    let now = stage.config_map().await.unwrap();
    assert_eq!(
        now["metadata"]["uid"], left["metadata"]["uid"],
        "it is the same ConfigMap"
    );
    stage.hurry_client("return").await;
    stage.client_hedges().await;
}
