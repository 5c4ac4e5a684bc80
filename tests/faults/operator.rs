//! What happens to the operator itself.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use hedgerow_tests::{Act, Gate, Part, eventually, part, scratch, steadily};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::observer::{Observer, tell};
use crate::policy::{CONFIG_MAP, hasty as policy, with};
use crate::scene::{Scene, document};
use crate::shared;
use crate::stage::{SOON, now, says};

async fn until(scene: &Scene, reason: &str) {
    says(&scene.namespace, CONFIG_MAP, &[reason])
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", scene.operator.log_tail()));
}

fn observer(scene: &Scene) -> Observer {
    Observer::of(&scene.audit, &scene.namespace, CONFIG_MAP)
}

/// Its only replica, which follows itself without a wait for the lease of the one that was killed.
async fn alone(name: &str) -> Scene {
    Scene::with_operator(name, |operator| {
        operator.set("leaderElection", json!({ "enabled": false }))
    })
    .await
}

/// Kills it while there is much to write, at moments that are different each time and the same in each run.
async fn killed_at_random(times: u64) {
    let mut scene = alone("killed").await;
    scene.apply(&policy("kb")).await;
    until(&scene, "Tuned").await;
    let fault = now();
    let mut random = StdRng::seed_from_u64(7);
    for time in 0..times {
        scene.service.queue(if time % 2 == 0 { 80.0 } else { 3.0 });
        tokio::time::sleep(Duration::from_millis(random.random_range(0..3000))).await;
        scene.operator.kill().unwrap();
        scene.operator.start().await.unwrap();
    }
    scene.service.queue(80.0);
    until(&scene, "Saturated").await;
    scene.service.queue(3.0);
    until(&scene, "Tuned").await;
    // The service was well and was not by turns, so that only the ramp is judged, and that nothing was forgotten.
    let row = observer(&scene).judge(fault, fault).map(|(before, meanwhile)| {
        let after = meanwhile.last().unwrap_or(&before);
        format!(
            "| kill -9, {times} times | {before} | {} documents, each by the ramp | {after} |",
            meanwhile.len()
        )
    });
    tell(vec![("kill -9 at random", row)]);
}

#[tokio::test]
async fn ten_kills_at_random_skip_no_step_of_the_ramp() {
    killed_at_random(10).await;
}

#[tokio::test]
#[ignore = "takes minutes: make test-faults"]
async fn a_hundred_kills_at_random_skip_no_step_of_the_ramp() {
    killed_at_random(100).await;
}

/// An operator that never lives for longer than its source may be silent.
async fn killed_and_blind(name: &str, kills: u32) {
    let mut scene = alone(name).await;
    scene.apply(&policy("kb")).await;
    until(&scene, "Tuned").await;
    let fault = now();
    scene.prometheus.pause().unwrap();
    for kill in 0..kills {
        tokio::time::sleep(Duration::from_secs(10)).await;
        scene.operator.kill().unwrap();
        scene.operator.start().await.unwrap();
        // maxUnknown is 10 s; a few seconds go by before each process has read for the first time.
        let document = scene.document().await.unwrap();
        assert!(
            kill < 2 || document["enabled"] == false,
            "it hedges blind after {kill} kills: {document}"
        );
    }
    let good = now();
    scene.prometheus.resume().unwrap();
    until(&scene, "Tuned").await;
    let name = format!("kill -9 every 10 s, {kills} times, blind");
    tell(vec![(
        "killed and blind",
        observer(&scene).row(&name, fault, good),
    )]);
}

#[tokio::test]
async fn killed_every_10_s_it_does_not_hedge_blind() {
    killed_and_blind("killed-blind", 4).await;
}

#[tokio::test]
#[ignore = "takes ten minutes: make test-faults"]
async fn killed_every_10_s_for_10_minutes_it_does_not_hedge_blind() {
    killed_and_blind("killed-blind-long", 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_in_the_midst_of_a_write_leaves_a_whole_document() {
    let gate = Gate::start().await.unwrap();
    shared::cluster().await.behind(&gate).unwrap();
    let mut scene = Scene::with_operator("term", |operator| operator.through_gate(&gate)).await;
    scene.apply(&policy("kb")).await;
    until(&scene, "Tuned").await;
    let fault = now();
    let begun = Arc::new(Notify::new());
    let tell_begun = Arc::clone(&begun);
    gate.set(move |asked| {
        if asked.is_write() && asked.uri.path().contains("/configmaps") {
            tell_begun.notify_one();
            return Act::Late(Duration::from_secs(2));
        }
        Act::Pass
    });
    scene.service.queue(80.0);
    begun.notified().await;
    let status = scene.operator.stop().await.unwrap();
    assert!(status.success(), "{status}");
    gate.heal();
    scene.operator.start().await.unwrap();
    until(&scene, "Saturated").await;
    let good = now();
    scene.service.queue(3.0);
    until(&scene, "Tuned").await;
    tell(vec![(
        "SIGTERM in mid-write",
        observer(&scene).row("SIGTERM in mid-write", fault, good),
    )]);
}

#[tokio::test]
async fn frozen_for_30_s_it_goes_on_without_a_restart() {
    let scene = Scene::start("stopped").await;
    scene.apply(&policy("kb")).await;
    until(&scene, "Tuned").await;
    let fault = now();
    let pid = scene.operator.pid().unwrap();
    scene.operator.pause().unwrap();
    scene.service.queue(80.0);
    tokio::time::sleep(Duration::from_secs(30)).await;
    scene.operator.resume().unwrap();
    until(&scene, "Saturated").await;
    let good = now();
    scene.service.queue(3.0);
    until(&scene, "Tuned").await;
    assert_eq!(scene.operator.pid().unwrap(), pid);
    tell(vec![(
        "SIGSTOP for 30 s",
        observer(&scene).row("SIGSTOP for 30 s", fault, good),
    )]);
}

#[tokio::test]
async fn out_of_descriptors_it_recovers_when_there_are_some_again() {
    let scene = Scene::start("descriptors").await;
    scene.apply(&policy("kb")).await;
    until(&scene, "Tuned").await;
    let fault = now();
    let pid = scene.operator.pid().unwrap();
    // Those that are open stay so; no new one may be.
    limit_descriptors(pid, "8");
    scene.prometheus.pause().unwrap();
    tokio::time::sleep(Duration::from_secs(15)).await;
    scene.prometheus.resume().unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let good = now();
    limit_descriptors(pid, "1024");
    until(&scene, "Tuned").await;
    assert_eq!(scene.operator.pid().unwrap(), pid);
    tell(vec![(
        "descriptors used up",
        observer(&scene).row("descriptors used up", fault, good),
    )]);
}

fn limit_descriptors(pid: u32, soft: &str) {
    let status = Command::new("prlimit")
        .args([&format!("--pid={pid}"), &format!("--nofile={soft}:")])
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn what_a_newer_version_stored_makes_hedging_no_less_safe() {
    let mut scene = alone("back").await;
    scene.apply(&policy("kb")).await;
    until(&scene, "Tuned").await;
    scene.condition("kb", "HedgingDisabled", "False", "Hedging").await;
    scene.operator.kill().unwrap();
    let maps = scene.namespace.api::<ConfigMap>();
    let memory =
        maps.get(CONFIG_MAP).await.unwrap().metadata.annotations.unwrap()["hedgerow.dev/memory"].clone();
    let memory: Value = serde_json::from_str(&memory).unwrap();

    // Fields that this version does not know: it changes nothing.
    let mut newer = memory.clone();
    newer["shard-read"]["aFieldOfTheNextVersion"] = json!({ "a": [1] });
    remember(&scene, &newer).await;
    let mut stored = scene.policy("kb").await.unwrap();
    stored["status"]["targets"][0]["state"] = json!("AStateOfTheNextVersion");
    stored["status"]["targets"][0]["reason"] = json!("AReasonOfTheNextVersion");
    scene.namespace.replace_status(&stored.to_string()).await.unwrap();
    let before = scene.document().await.unwrap();
    scene.operator.start().await.unwrap();
    // The status is mended, which shows that it was at work.
    scene.condition("kb", "Ready", "True", "Published").await;
    steadily("nothing changes", Duration::from_secs(10), async || {
        let after = document(&scene.namespace, CONFIG_MAP, crate::policy::KEY).await?;
        ensure!(after["revision"] == before["revision"], "{before}, then {after}");
        Ok(())
    })
    .await
    .unwrap();

    // A state that this version does not know is none that it may go on from: off, and through the ramp.
    scene.operator.kill().unwrap();
    let mut newer = memory;
    newer["shard-read"]["phase"] = json!({ "aStateOfTheNextVersion": { "since": 1 } });
    remember(&scene, &newer).await;
    let good = now();
    scene.operator.start().await.unwrap();
    let back = eventually("it went off and came back", SOON, async || {
        let mut versions = observer(&scene).versions();
        versions.retain(|version| version.written >= good);
        let told: Vec<_> = versions.iter().map(ToString::to_string).collect();
        let steps: Vec<_> = versions
            .iter()
            .map(|version| version.hedging.map(|(_, percent)| percent))
            .collect();
        // What is remembered is lost with it, the count of revisions as well, which no client orders by.
        ensure!(steps == [None, Some(2.5), Some(5.0), Some(10.0)], "{told:?}");
        Ok(format!(
            "| rolled back over newer states | | {} | |",
            told.join("; ")
        ))
    });
    tell(vec![("rolled back over newer states", back.await)]);
}

async fn remember(scene: &Scene, memory: &Value) {
    let patch = json!({ "metadata": { "annotations": { "hedgerow.dev/memory": memory.to_string() } } });
    let maps = scene.namespace.api::<ConfigMap>();
    maps.patch(CONFIG_MAP, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_clock_that_is_moved_makes_hedging_no_less_safe() {
    let clock = scratch("moved-clock").unwrap().join("clock");
    std::fs::write(&clock, "+0").unwrap();
    let library = part(Part::LibFakeTime).unwrap();
    let scene = Scene::with_operator("moved-clock", |operator| {
        operator
            .env("LD_PRELOAD", &library)
            .env("FAKETIME_TIMESTAMP_FILE", &clock)
            .env("FAKETIME_NO_CACHE", "1")
            .env("DONT_FAKE_MONOTONIC", "1")
    })
    .await;
    let policy = with(
        policy("kb"),
        "/spec/targets/0/saturation/maxUnknown",
        json!("30s"),
    );
    scene.apply(&policy).await;
    until(&scene, "Tuned").await;
    let fault = now();
    for moved in ["+1h", "-1h", "+0"] {
        std::fs::write(&clock, moved).unwrap();
        tokio::time::sleep(Duration::from_secs(12)).await;
    }
    // It still does what it is for.
    scene.service.queue(80.0);
    until(&scene, "Saturated").await;
    scene.service.queue(3.0);
    until(&scene, "Tuned").await;
    // What was read before a step is too old after it, and a moment later readings are good again by the new clock.
    tell(vec![(
        "its clock moved",
        observer(&scene).row("its clock by an hour, and back", fault, fault),
    )]);
}
