//! Which replica leads.
//!
//! An own small implementation. The crates that were looked at say "leader" for longer than their lease while the API
//! server stalls, and tell nothing of *when* a renewal was sent, which is what the [`Fence`] needs.

use std::time::Duration;

use hedgerow_api::names::FIELD_MANAGER;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::caches::CacheSlot;
use super::fence::{BootTime, Fence};
use super::write::{OnWrite, WriteError, WriteKind, bounded};

/// Others may take the lease when they have seen no renewal for this long.
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// Without a successful renewal for this long the leader steps down. A write that began just before ends within
/// [`WRITE_TIMEOUT`](super::client::WRITE_TIMEOUT), that is before the lease may be taken.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// How often the lease is renewed, or looked at.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// What to do about a lease that RBAC denies.
const REMEDY: &str = "the chart's Role whose name ends in -own grants the Lease that it names under resourceNames: let that be the \
                      name under leaderElection.lease in the operator's configuration, and bind the Role to its service account";

/// A lease is not listed once a term, but looked at all the time.
const ANY_TERM: u64 = u64::MAX;

/// Whether this process leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Another one does, or nobody.
    Standby,
    /// This one does.
    Leading {
        /// Counts, from 1, how often this process has won.
        term: u64,
    },
}

impl Leadership {
    /// The term; 0 on standby.
    pub(super) fn term(self) -> u64 {
        match self {
            Self::Standby => 0,
            Self::Leading { term } => term,
        }
    }

    /// Whether this process leads.
    pub fn leads(self) -> bool {
        matches!(self, Self::Leading { .. })
    }
}

/// Where the lease is, and who asks for it.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// The name of the Lease, in the operator's namespace.
    pub name: String,
    /// Who this process is: the pod's name and something that no second process has.
    pub identity: String,
}

/// Competes for the lease.
pub(super) struct Candidate {
    api: Api<Lease>,
    settings: LeaseSettings,
    fence: Fence,
    on_write: OnWrite,
    leadership: watch::Sender<Leadership>,
    slot: CacheSlot,
    terms: u64,
    seen: Option<Seen>,
}

/// The lease as it was when it last changed.
struct Seen {
    lease: Lease,
    at: BootTime,
}

impl Seen {
    fn holder(&self) -> Option<&String> {
        self.lease.spec.as_ref()?.holder_identity.as_ref()
    }

    /// How long others must leave it alone; zero when its holder counts as dead.
    fn left(&self, now: BootTime) -> Duration {
        let seconds = self
            .lease
            .spec
            .as_ref()
            .and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.map_or(LEASE_DURATION, Duration::from_secs);
        duration.saturating_sub(now.since(self.at))
    }
}

/// Who holds the lease after an attempt.
enum Held {
    Kept,
    Taken,
    ByAnother,
}

/// What to do about the lease.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Create,
    Renew,
    Take,
    Wait,
}

impl Candidate {
    pub(super) fn new(
        api: Api<Lease>,
        settings: LeaseSettings,
        fence: Fence,
        on_write: OnWrite,
        leadership: watch::Sender<Leadership>,
        slot: CacheSlot,
    ) -> Self {
        Self {
            api,
            settings,
            fence,
            on_write,
            leadership,
            slot,
            terms: 0,
            seen: None,
        }
    }

    /// Competes until `release`, then gives the lease back so that another replica need not wait for it to run out.
    pub(super) async fn run(mut self, release: CancellationToken) {
        let mut next = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = release.cancelled() => break,
                () = sleep_until(next) => {}
            }
            let begun = Instant::now();
            // Not cut off by `release`: an attempt whose end nobody saw would leave the lease held.
            self.attempt().await;
            next = begun + self.pause(BootTime::now());
        }
        self.release().await;
    }

    /// Renews the lease or tries to win it, once.
    async fn attempt(&mut self) {
        let sent = BootTime::now();
        let result = timeout(RETRY_PERIOD.saturating_mul(2), self.compete(sent)).await;
        let result = result.unwrap_or(Err(WriteError::Timeout));
        self.tell(result.as_ref().err());
        match result {
            Ok(Held::Kept) => self.won(sent),
            Ok(Held::Taken) => {
                // Somebody else may have led in between, unseen: what is known is as old as on standby.
                self.leadership
                    .send_if_modified(|now| std::mem::replace(now, Leadership::Standby).leads());
                self.won(sent);
            }
            Ok(Held::ByAnother) => self.lost("another replica holds the lease"),
            Err(error) => {
                // What is stored is not known any longer.
                self.seen = self.seen.take().filter(|_| !error.is_conflict());
                if self.fence.check().is_err() {
                    self.lost("the lease was not renewed in time");
                }
            }
        }
    }

    /// Tells how it goes: a lease that may not be had is a mistake which only a person can mend, and without one nothing is
    /// done at all. So the operator does not become ready, and says what to do.
    fn tell(&mut self, error: Option<&WriteError>) {
        let lease = &self.settings.name;
        let Some(error) = error else {
            self.slot.listed(ANY_TERM);
            return;
        };
        let remedy = if error.is_forbidden() {
            Some(REMEDY)
        } else {
            error.remedy()
        };
        match remedy {
            Some(remedy) => {
                let message = format!("this replica cannot lead without Lease {lease}: {error}; {remedy}");
                error!(lease, "{message}");
                // A leader goes on while its last renewal holds: it may be let in again by then.
                if self.fence.check().is_err() {
                    self.slot.denied(message);
                } else {
                    self.slot.failed(message);
                }
            }
            None => {
                warn!(%error, lease, "lease not renewed");
                self.slot.failed(error.to_string());
            }
        }
    }

    async fn compete(&mut self, now: BootTime) -> Result<Held, WriteError> {
        let live = self.api.get_opt(&self.settings.name).await?;
        let step = match &live {
            None => Step::Create,
            Some(lease) => {
                self.see(lease, now);
                self.step(lease, now)
            }
        };
        let held = match step {
            Step::Wait => return Ok(Held::ByAnother),
            Step::Renew => Held::Kept,
            Step::Create | Step::Take => Held::Taken,
        };
        let written = match (step, live) {
            (Step::Create, _) | (_, None) => {
                let lease = self.lease(ObjectMeta::default(), None);
                self.api.create(&params(), &lease).await
            }
            // The resourceVersion that was read makes this a compare-and-swap.
            (_, Some(live)) => {
                let lease = self.lease(live.metadata, live.spec);
                self.api.replace(&self.settings.name, &params(), &lease).await
            }
        };
        let written = written.map_err(WriteError::from);
        (self.on_write)(
            WriteKind::Lease,
            written
                .as_ref()
                .map_or_else(WriteError::outcome, |_| WriteKind::OK),
        );
        let lease = written?;
        self.see(&lease, now);
        Ok(held)
    }

    fn see(&mut self, lease: &Lease, now: BootTime) {
        let version = |lease: &Lease| lease.metadata.resource_version.clone();
        let same = self
            .seen
            .as_ref()
            .is_some_and(|seen| version(&seen.lease) == version(lease));
        if !same {
            self.seen = Some(Seen {
                lease: lease.clone(),
                at: now,
            });
        }
    }

    /// A holder counts as dead when its lease has not changed for the lease's duration by our own clock; the times in
    /// the lease are those of another machine's clock.
    fn step(&self, lease: &Lease, now: BootTime) -> Step {
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder == self.settings.identity {
            return Step::Renew;
        }
        if holder.is_empty() {
            return Step::Take;
        }
        match &self.seen {
            Some(seen) if seen.left(now).is_zero() => Step::Take,
            _ => Step::Wait,
        }
    }

    /// How long after an attempt the next one begins: sooner than usual when a lease that nobody renews may be taken sooner.
    fn pause(&self, now: BootTime) -> Duration {
        let others = |seen: &&Seen| seen.holder() != Some(&self.settings.identity);
        let left = self.seen.as_ref().filter(others).map(|seen| seen.left(now));
        let left = left.filter(|left| !left.is_zero());
        left.map_or(RETRY_PERIOD, |left| left.min(RETRY_PERIOD))
    }

    /// The lease as this process holds it.
    fn lease(&self, mut metadata: ObjectMeta, before: Option<LeaseSpec>) -> Lease {
        let now = MicroTime(jiff::Timestamp::now());
        let before = before.unwrap_or_default();
        let kept = before.holder_identity.as_ref() == Some(&self.settings.identity);
        let transitions = before.lease_transitions.unwrap_or(0);
        metadata.name = Some(self.settings.name.clone());
        metadata.managed_fields = None;
        Lease {
            metadata,
            spec: Some(LeaseSpec {
                holder_identity: Some(self.settings.identity.clone()),
                lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
                acquire_time: before.acquire_time.filter(|_| kept).or_else(|| Some(now.clone())),
                renew_time: Some(now),
                lease_transitions: Some(if kept {
                    transitions
                } else {
                    transitions.saturating_add(1)
                }),
                ..LeaseSpec::default()
            }),
        }
    }

    fn won(&mut self, sent: BootTime) {
        self.fence.renewed(sent, RENEW_DEADLINE);
        if !self.leadership.borrow().leads() {
            self.terms += 1;
            info!(identity = self.settings.identity, term = self.terms, "leading");
            self.leadership
                .send_replace(Leadership::Leading { term: self.terms });
        }
    }

    fn lost(&mut self, why: &str) {
        self.fence.close();
        if self.leadership.borrow().leads() {
            warn!(identity = self.settings.identity, why, "no longer leading");
            self.leadership.send_replace(Leadership::Standby);
        }
    }

    async fn release(&mut self) {
        let led = self.leadership.borrow().leads();
        self.fence.close();
        self.leadership.send_replace(Leadership::Standby);
        let Some(seen) = self.seen.take().filter(|_| led) else {
            return;
        };
        let mut lease = seen.lease;
        lease.metadata.managed_fields = None;
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
        }
        let params = params();
        match bounded(self.api.replace(&self.settings.name, &params, &lease)).await {
            Ok(_) => info!(lease = self.settings.name, "lease released"),
            Err(error) => warn!(%error, "lease not released, it runs out by itself"),
        }
    }
}

fn params() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::caches::Caches;
    use super::*;

    /// Never reached by these tests.
    fn candidate() -> Candidate {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = kube::Config::new(http::Uri::from_static("https://127.0.0.1:1"));
        let client = kube::Client::try_from(config).unwrap();
        Candidate::new(
            Api::namespaced(client, "hedgerow-system"),
            LeaseSettings {
                name: "hedgerow".into(),
                identity: "me".into(),
            },
            Fence::closed(),
            Arc::new(|_, _| {}),
            watch::Sender::new(Leadership::Standby),
            Caches::default().slot("Lease", None),
        )
    }

    fn held_by(holder: Option<&str>, version: &str) -> Lease {
        Lease {
            metadata: ObjectMeta {
                resource_version: Some(version.into()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: holder.map(str::to_owned),
                lease_duration_seconds: Some(15),
                lease_transitions: Some(4),
                ..LeaseSpec::default()
            }),
        }
    }

    fn step(candidate: &mut Candidate, lease: &Lease, now: BootTime) -> Step {
        candidate.see(lease, now);
        candidate.step(lease, now)
    }

    #[tokio::test]
    async fn a_lease_that_changes_is_never_taken_however_old_its_times_are() {
        let mut candidate = candidate();
        let mut now = BootTime::now();
        for version in ["1", "2", "3"] {
            assert_eq!(
                step(&mut candidate, &held_by(Some("other"), version), now),
                Step::Wait
            );
            now = now.plus(Duration::from_secs(14));
        }
    }

    #[tokio::test]
    async fn a_lease_that_did_not_change_for_its_duration_is_taken() {
        let mut candidate = candidate();
        let lease = held_by(Some("other"), "1");
        let seen = BootTime::now();
        assert_eq!(step(&mut candidate, &lease, seen), Step::Wait);
        assert_eq!(
            step(&mut candidate, &lease, seen.plus(Duration::from_millis(14_999))),
            Step::Wait
        );
        assert_eq!(
            step(&mut candidate, &lease, seen.plus(Duration::from_secs(15))),
            Step::Take
        );
    }

    #[tokio::test]
    async fn a_lease_is_looked_at_when_it_may_be_taken() {
        let mut candidate = candidate();
        let now = BootTime::now();
        assert_eq!(candidate.pause(now), RETRY_PERIOD);
        candidate.see(&held_by(Some("other"), "1"), now);
        let pause = |seconds| candidate.pause(now.plus(Duration::from_secs(seconds)));
        assert_eq!((pause(0), pause(13)), (RETRY_PERIOD, RETRY_PERIOD));
        assert_eq!(pause(14), Duration::from_secs(1));
        // One that cannot be taken, since the API server does not answer, is not asked for without a pause.
        assert_eq!((pause(15), pause(60)), (RETRY_PERIOD, RETRY_PERIOD));
    }

    #[tokio::test]
    async fn a_leader_renews_as_often_as_ever() {
        let mut candidate = candidate();
        let now = BootTime::now();
        candidate.see(&held_by(Some("me"), "1"), now);
        assert_eq!(candidate.pause(now.plus(Duration::from_secs(14))), RETRY_PERIOD);
    }

    #[tokio::test]
    async fn a_lease_that_was_given_back_is_taken_at_once() {
        let mut candidate = candidate();
        for holder in [None, Some("")] {
            assert_eq!(
                step(&mut candidate, &held_by(holder, "1"), BootTime::now()),
                Step::Take
            );
        }
    }

    #[tokio::test]
    async fn taking_counts_a_transition_and_renewing_does_not() {
        let candidate = candidate();
        let transitions = |holder| {
            let lease = candidate.lease(ObjectMeta::default(), held_by(Some(holder), "1").spec);
            lease.spec.unwrap().lease_transitions
        };
        assert_eq!(transitions("other"), Some(5));
        assert_eq!(transitions("me"), Some(4));
    }

    /// A token may expire at any time, and a Role be taken away.
    #[tokio::test]
    async fn a_replica_that_the_api_server_does_not_let_in_is_not_ready_and_says_what_to_do() {
        for (code, reason, remedy) in [
            (401, "Unauthorized", "kubectl create token"),
            (403, "Forbidden", "leaderElection.lease"),
        ] {
            let caches = Caches::default();
            let mut candidate = Candidate {
                slot: caches.slot("Lease", None),
                ..candidate()
            };
            candidate.tell(None);
            assert!(caches.synced());
            let status = kube::core::Status::failure(reason, reason).with_code(code);
            candidate.tell(Some(&WriteError::Refused(status.boxed())));
            assert!(!caches.synced(), "{code}");
            assert!(caches.missing()[0].contains(remedy), "{:?}", caches.missing());
            candidate.tell(Some(&WriteError::Timeout));
            assert!(!caches.synced(), "{code}");
            candidate.tell(None);
            assert!(caches.synced(), "{code}");
            candidate.tell(Some(&WriteError::Timeout));
            assert!(
                caches.synced(),
                "what passes by itself does not make a replica unready"
            );
        }
    }

    #[tokio::test]
    async fn who_does_not_renew_in_time_steps_down() {
        let mut candidate = candidate();
        candidate.won(BootTime::now());
        assert!(candidate.leadership.borrow().leads());
        candidate.lost("test");
        assert!(!candidate.leadership.borrow().leads());
        assert!(candidate.fence.check().is_err());
        candidate.won(BootTime::now());
        assert_eq!(*candidate.leadership.borrow(), Leadership::Leading { term: 2 });
    }
}
