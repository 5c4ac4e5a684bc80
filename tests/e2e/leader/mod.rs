//! Two replicas, one leader: another takes over in time, changes nothing by that, and who led before writes no more.
//!
//! The witness is the API server's audit log. It tells replicas apart by their tokens.

mod clock;
mod cut_off;
mod ended;
mod frozen;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hedgerow_tests::{AuditEvent, Link, Mark, Operator, OperatorOptions, Stalls, eventually, steadily};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::policy::{self, CONFIG_MAP, KEY, with};
use crate::scene::{SOON, Scene};
use crate::service::Service;
use crate::shared;

/// Another replica leads so soon after the leader was last there.
const TAKEOVER: SignedDuration = SignedDuration::from_secs(20);
/// Sooner than a lease that nobody gave back runs out.
const AT_ONCE: SignedDuration = SignedDuration::from_secs(10);
/// The longest that a write of the former leader takes which was begun in time.
const LAST_WRITE: SignedDuration = SignedDuration::from_secs(5);
/// Several evaluations long, and longer than a write may take.
const A_WHILE: Duration = Duration::from_secs(8);

/// A policy whose hedging stays off for minutes once it went off.
fn policy(name: &str) -> Value {
    let cooldown = "/spec/targets/0/saturation/cooldown";
    with(policy::policy(name), cooldown, json!("5m"))
}

/// Two replicas of one install, and one policy.
struct Replicas {
    /// Its operator is the one that leads at first.
    scene: Scene,
    standby: Operator,
    /// The leader's way to the API server.
    link: Link,
    stalls: Stalls,
}

/// When something began that is to be over in time.
struct Begun {
    at: Timestamp,
    stalled: Duration,
}

impl Replicas {
    async fn start(name: &str) -> Self {
        Self::with_standby(name, |standby| standby).await
    }

    /// With a standby that is started in some way of its own.
    async fn with_standby(
        name: &str,
        change: impl FnOnce(OperatorOptions<'_>) -> OperatorOptions<'_>,
    ) -> Self {
        let cluster = shared::cluster().await;
        let begun = cluster.audit().mark().unwrap();
        let namespace = shared::namespace(name).await;
        let home = shared::namespace(&format!("{name}-operator")).await;
        let service = Service::start().await;
        let prometheus = service.scraped().await;
        let link = cluster.link().await.unwrap();
        let install = OperatorOptions::new(cluster, &home, &[&namespace]).source(&prometheus.url());
        let leader = install.clone().through(&link).start().await.unwrap();
        let scene = Scene {
            audit: cluster.audit(),
            begun,
            namespace,
            service,
            prometheus,
            operator: leader,
        };
        scene.apply(&policy("kb")).await;
        scene.reason("Tuned").await;
        let standby = change(install).start().await.unwrap();
        let replicas = Self {
            scene,
            standby,
            link,
            stalls: Stalls::watch(),
        };
        replicas.is_quiet().await;
        assert!(replicas.scene.operator.leads().await.unwrap());
        assert!(!replicas.standby.leads().await.unwrap());
        replicas
    }

    /// Begins to take the time.
    fn begins(&self) -> Begun {
        Begun {
            at: Timestamp::now(),
            stalled: self.stalls.total(),
        }
    }

    /// How long the machine ran from then to `end`, or at least to now.
    fn ran(&self, begun: &Begun, end: Timestamp) -> SignedDuration {
        let stalled = self.stalls.total().saturating_sub(begun.stalled);
        end.duration_since(begun.at) - SignedDuration::try_from(stalled).unwrap()
    }

    /// Waits until nothing is left to be written, so that nothing is being written either.
    async fn is_quiet(&self) {
        self.scene
            .condition("kb", "HedgingDisabled", "False", "Hedging")
            .await;
        eventually("both are quiet", SOON, async || {
            let mark = self.scene.audit.mark()?;
            steadily("no writes", Duration::from_secs(3), async || {
                let writes = self.scene.writes(mark);
                ensure!(writes.is_empty(), "{writes:?}");
                Ok(())
            })
            .await
        })
        .await
        .unwrap();
    }

    /// Waits until the standby has won the lease; returns when, by the API server.
    async fn takeover(&self, since: Mark) -> Timestamp {
        eventually("the standby takes the lease", SOON, async || {
            let wins = self.writes_of(&self.standby, since)?;
            let win = wins.iter().find(|event| event.object_ref.resource == "leases");
            received(win.context("it does not")?)
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", self.standby.log_tail()))
    }

    /// What a replica has written, or tried to.
    fn writes_of(&self, replica: &Operator, since: Mark) -> Result<Vec<AuditEvent>> {
        let credential = replica.credential()?;
        let mut writes = self.scene.audit.writes_by(replica.user(), since)?;
        writes.retain(|event| event.credential() == Some(credential.as_str()));
        Ok(writes)
    }

    /// What clients read, byte for byte, without the two times that a renewal moves.
    async fn content(&self) -> String {
        let map = self
            .scene
            .namespace
            .api::<ConfigMap>()
            .get(CONFIG_MAP)
            .await
            .unwrap();
        let text = map.data.unwrap().remove(KEY).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        let times = ["issuedAt", "validUntil"].map(|field| document[field].as_str().unwrap().to_owned());
        times.iter().fold(text, |text, time| text.replace(time, ""))
    }

    /// The one that took over acts, and has not changed the document by that.
    async fn carries_on(&self, since: Mark, before: &str) {
        let asked = self.scene.prometheus.queries_answered().await.unwrap();
        eventually("the new leader evaluates", SOON, async || {
            ensure!(self.standby.leads().await?, "it does not act");
            let asked = self.scene.prometheus.queries_answered().await? - asked;
            ensure!(asked > 20, "it asked Prometheus {asked} times");
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(self.content().await, before);
        let writes = self.writes_of(&self.standby, since).unwrap();
        let mut maps = writes
            .iter()
            .filter(|event| event.object_ref.resource == "configmaps");
        assert!(maps.next().is_none(), "{writes:?}");
    }

    /// Hedging goes off for a while, by the one that took over, though its reason has passed.
    async fn is_switched_off_by_the_new_leader(&self, since: Mark) {
        self.scene.service.queue(80.0);
        self.scene.reason("Saturated").await;
        let writes = self.writes_of(&self.standby, since).unwrap();
        let off = |event: &AuditEvent| {
            let text = event.request_object["data"][KEY].as_str().unwrap_or_default();
            event.succeeded() && text.contains("Saturated")
        };
        assert!(writes.iter().any(off), "{writes:?}");
        self.scene.service.queue(3.0);
        self.scene.reason("CoolingDown").await;
    }

    /// Waits until the former leader knows that it leads no more, and longer than it would take to do harm.
    async fn former_leader_steps_down(&self) {
        let former = &self.scene.operator;
        eventually("the former leader steps down", SOON, async || {
            ensure!(!former.leads().await?, "it says that it leads");
            Ok(())
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", former.log_tail()));
        steadily("hedging stays off", A_WHILE, async || {
            let document = self.scene.document().await?;
            ensure!(document["enabled"] == false, "{document}");
            Ok(())
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", former.log_tail()));
        assert!(self.standby.leads().await.unwrap());
    }

    /// The promise: what the former leader sends after another took over was begun before, is received by `LAST_WRITE`
    /// unless the network kept it, and goes over nothing newer. Returns what was received later.
    fn late_writes_of_former_leader(&self, since: Mark, taken: Timestamp) -> Vec<AuditEvent> {
        let mut writes = self.writes_of(&self.scene.operator, since).unwrap();
        writes.retain(|event| received(event).unwrap() > taken);
        let newer = self.writes_of(&self.standby, since).unwrap();
        let over_newer = |write: &&AuditEvent| {
            let earlier = |other: &&AuditEvent| other.received < write.received && other.succeeded();
            let same = |other: &AuditEvent| other.object_ref == write.object_ref;
            // Nothing is there that a creation could go over.
            write.succeeded() && write.verb != "create" && newer.iter().filter(earlier).any(same)
        };
        let harm: Vec<_> = writes.iter().filter(over_newer).collect();
        assert!(harm.is_empty(), "written over what is newer: {harm:#?}");
        let stalled = SignedDuration::try_from(self.stalls.total()).unwrap();
        writes.retain(|event| received(event).unwrap() > taken + LAST_WRITE + stalled);
        writes
    }
}

fn received(event: &AuditEvent) -> Result<Timestamp> {
    Ok(event.received.parse()?)
}
