//! A Rust client that watches its ConfigMap through the API follows what the operator publishes there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use hedgerow_client::{Attempt, Hedger};
use hedgerow_tests::{
    Audit, AuditEvent, Cluster, Credentials, Mark, Namespace, eventually, scratch, steadily,
};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::policy::{CONFIG_MAP, KEY, policy};
use crate::scene::{SOON, Scene};
use crate::shared::{self, install_crd};

/// The ServiceAccount that the client runs as.
const CLIENT: &str = "front";
/// No primary answers before this.
const DEADLINE: Duration = Duration::from_secs(1);
/// 50 calls a second: at a budget of 10 % a hedge every 0.2 s.
const CALL: Duration = Duration::from_millis(20);
/// Long enough that a client which may hedge has done so many times.
const SOME_HEDGES: Duration = Duration::from_secs(2);
/// Far more than a watch takes to tell of a change, on a machine that is busy; a mounted file takes a minute.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

/// A client whose every call is slow, so that each is hedged as far as the document allows.
struct Client {
    hedger: Hedger,
    hedges: Arc<Hedges>,
    calls: AbortHandle,
    audit: Audit,
    /// Who it is in the audit log.
    user: String,
}

#[derive(Default)]
struct Hedges {
    count: AtomicU64,
    last: Mutex<Option<SystemTime>>,
}

impl Client {
    /// It may list and watch the one ConfigMap, and nothing else.
    async fn start(cluster: &Cluster, namespace: &Namespace) -> Self {
        let granted = json!({ "apiVersion": "v1", "kind": "List", "items": [
            { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": CLIENT } },
            { "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": CLIENT },
              "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CONFIG_MAP],
                          "verbs": ["list", "watch"] }] },
            { "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": CLIENT },
              "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": CLIENT },
              "subjects": [{ "kind": "ServiceAccount", "name": CLIENT, "namespace": namespace.name() }] },
        ]});
        namespace.apply(&granted.to_string()).await.unwrap();
        let kubeconfig = scratch("client").unwrap().join("kubeconfig");
        let admin = cluster.admin();
        let own: Credentials = admin
            .of_service_account(namespace.name(), CLIENT, kubeconfig)
            .await
            .unwrap();
        let hedger = Hedger::builder("shard-read")
            .deadline(DEADLINE)
            .follow_config_map(own.client().await.unwrap(), namespace.name(), CONFIG_MAP, KEY);
        let hedges = Arc::<Hedges>::default();
        let calls = tokio::spawn(call(hedger.clone(), Arc::clone(&hedges))).abort_handle();
        Self {
            hedger,
            hedges,
            calls,
            audit: cluster.audit(),
            user: format!("system:serviceaccount:{}:{CLIENT}", namespace.name()),
        }
    }

    /// Whether the document that it follows lets it hedge; `None` without one.
    fn may_hedge(&self) -> Option<bool> {
        self.hedger.document().map(|document| document.hedging.is_some())
    }

    /// Waits until it follows a document that says `on`, and returns when it was seen.
    async fn follows(&self, on: bool) -> SystemTime {
        let end = tokio::time::Instant::now() + SOON;
        // More often than `eventually` looks: the time is told.
        while self.may_hedge() != Some(on) {
            assert!(
                tokio::time::Instant::now() < end,
                "it is never told {}",
                if on { "to hedge" } else { "to stop" }
            );
            sleep(Duration::from_millis(2)).await;
        }
        SystemTime::now()
    }

    /// Waits until it has sent a hedge.
    async fn hedges(&self) {
        let before = self.hedges.count.load(Ordering::Relaxed);
        eventually("the client hedges", SOON, async || {
            ensure!(self.hedges.count.load(Ordering::Relaxed) > before, "not yet");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// It sends no hedge for some time.
    async fn hedges_no_more(&self) {
        let before = self.hedges.count.load(Ordering::Relaxed);
        steadily("the client does not hedge", SOME_HEDGES, async || {
            let more = self.hedges.count.load(Ordering::Relaxed) - before;
            ensure!(more == 0, "{more} hedges");
            Ok(())
        })
        .await
        .unwrap();
    }

    fn last_hedge(&self) -> Option<SystemTime> {
        *self.hedges.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it, and returns what it asked the API server: the log has a watch when it has ended.
    async fn end(self) -> Vec<AuditEvent> {
        let (audit, user) = (self.audit.clone(), self.user.clone());
        drop(self);
        eventually("its watch has ended", SOON, async || {
            let asked = asked(&audit, &user)?;
            ensure!(asked.iter().any(|event| event.verb == "watch"), "only {asked:?}");
            Ok(asked)
        })
        .await
        .unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.calls.abort();
    }
}

/// What a user has asked the API server so far.
fn asked(audit: &Audit, user: &str) -> Result<Vec<AuditEvent>> {
    audit.by(user, Mark::default())
}

fn verbs(events: &[AuditEvent]) -> Vec<&str> {
    events.iter().map(|event| event.verb.as_str()).collect()
}

/// Makes slow calls for ever.
async fn call(hedger: Hedger, hedges: Arc<Hedges>) {
    let mut tick = interval(CALL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tick.tick().await;
        let (hedger, hedges) = (hedger.clone(), Arc::clone(&hedges));
        tokio::spawn(async move {
            let attempt = |attempt: Attempt| {
                let hedges = Arc::clone(&hedges);
                async move {
                    if attempt.is_hedge() {
                        hedges.count.fetch_add(1, Ordering::Relaxed);
                        *hedges.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(SystemTime::now());
                    } else {
                        sleep(2 * DEADLINE).await;
                    }
                    Ok::<_, std::convert::Infallible>(())
                }
            };
            // A call that gives no answer in time is what it is about.
            let _ = hedger.call(2, attempt).await;
        });
    }
}

/// When the operator first sent a document with this reason since then.
fn written(scene: &Scene, reason: &str, since: SystemTime) -> Result<SystemTime> {
    let events = scene.audit.writes_by(scene.operator.user(), Mark::default())?;
    let says = |event: &&AuditEvent| {
        let text = event.request_object["data"][KEY].as_str().unwrap_or_default();
        let document = serde_json::from_str::<Value>(text).unwrap_or_default();
        event.object_ref.name == CONFIG_MAP && document["reason"] == reason
    };
    let received = |event: &AuditEvent| Ok(SystemTime::from(event.received.parse::<Timestamp>()?));
    let times: Result<Vec<_>> = events.iter().filter(says).map(received).collect();
    times?
        .into_iter()
        .find(|at| *at >= since)
        .context("no such document")
}

fn milliseconds(from: SystemTime, to: SystemTime) -> f64 {
    to.duration_since(from).unwrap_or_default().as_secs_f64() * 1000.0
}

#[tokio::test]
async fn a_client_that_watches_is_told_by_its_watch_to_stop_and_to_hedge_again() {
    let scene = Scene::start("watching").await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    let client = Client::start(shared::cluster().await, &scene.namespace).await;
    client.follows(true).await;
    client.hedges().await;

    let crossed = SystemTime::now();
    scene.service.queue(80.0);
    let seen_off = client.follows(false).await;
    let last_hedge = client.last_hedge().unwrap();
    client.hedges_no_more().await;
    let off = written(&scene, "Saturated", crossed).unwrap();
    let eased = SystemTime::now();
    scene.service.queue(3.0);
    let seen_on = client.follows(true).await;
    let on = written(&scene, "Ramping", eased).unwrap();
    client.hedges().await;

    println!(
        "the signal crossed its line; {:.0} ms later the operator sent the document; {:.0} ms later the client followed it \
         (its last hedge {:.0} ms before); back on, the client followed {:.0} ms after the document was sent",
        milliseconds(crossed, off),
        milliseconds(off, seen_off),
        milliseconds(last_hedge, seen_off),
        milliseconds(on, seen_on),
    );
    for (sent, seen) in [(off, seen_off), (on, seen_on)] {
        assert!(seen.duration_since(sent).unwrap_or_default() < TOLD_WITHIN);
    }
    // The witness that nothing else told it: it listed once, and both changes came by the watch that was open before.
    let asked = client.end().await;
    assert_eq!(verbs(&asked), ["list", "watch"], "{asked:?}");
    for event in &asked {
        let received: Timestamp = event.received.parse().unwrap();
        assert!(SystemTime::from(received) < crossed, "{event:?}");
    }
}

/// It has a control plane of its own, whose API server goes away.
#[tokio::test]
async fn without_the_api_the_last_document_holds_until_it_expires_and_no_longer() {
    let mut cluster = Cluster::start().await.unwrap();
    install_crd(&cluster).await;
    let namespace = cluster.namespace("unwatched").await.unwrap();
    let mut scene = Scene::set(&cluster, namespace, &[]).await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    let client = Client::start(&cluster, &scene.namespace).await;
    client.follows(true).await;
    client.hedges().await;
    let lists = || {
        let asked = asked(&client.audit, &client.user).unwrap();
        asked
            .iter()
            .filter(|event| event.verb == "list" && event.succeeded())
            .count()
    };
    assert_eq!(lists(), 1);

    // What it knows last is followed by other writes, and all of it is forgotten: it is told 410, and must list anew.
    scene.operator.kill().unwrap();
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "other" } });
    scene.apply(&other).await;
    cluster.kill_api_server().unwrap();
    cluster.forget_history().await.unwrap();
    steadily("the last document holds", SOME_HEDGES, async || {
        ensure!(client.may_hedge() == Some(true), "it is gone");
        Ok(())
    })
    .await
    .unwrap();
    client.hedges().await;
    cluster.start_api_server().await.unwrap();
    scene.operator.start().await.unwrap();
    scene.service.queue(80.0);
    client.follows(false).await;
    client.hedges_no_more().await;
    assert_eq!(lists(), 2);
    scene.service.queue(3.0);
    scene.reason("Tuned").await;
    client.follows(true).await;

    // The operator's document, cut short: policies cannot ask for so little.
    scene.operator.kill().unwrap();
    let until = SystemTime::now() + Duration::from_secs(10);
    let mut document = scene.document().await.unwrap();
    document["validUntil"] = Timestamp::try_from(until).unwrap().to_string().into();
    let short = json!({ "data": { KEY: document.to_string() } });
    let config_maps = scene.namespace.api::<ConfigMap>();
    let patch = Patch::Merge(&short);
    config_maps
        .patch(CONFIG_MAP, &PatchParams::default(), &patch)
        .await
        .unwrap();
    let shortened = until.duration_since(UNIX_EPOCH).unwrap().as_secs();
    eventually("the client follows that one", SOON, async || {
        let document = client.hedger.document().context("no document")?;
        let told = document.validity.valid_until.context("no end")?.as_millis() / 1000;
        ensure!(u64::try_from(told)? == shortened, "it holds until {told}");
        Ok(())
    })
    .await
    .unwrap();
    cluster.kill_api_server().unwrap();
    let gone = SystemTime::now();
    eventually("the document has expired", SOON, async || {
        ensure!(client.may_hedge().is_none(), "it still holds");
        Ok(())
    })
    .await
    .unwrap();
    assert!(SystemTime::now() >= until, "it holds until then");
    assert!(client.last_hedge() > Some(gone), "it hedged on without the API");
    client.hedges_no_more().await;
}
