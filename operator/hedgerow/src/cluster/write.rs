//! The one way to the API server's write side.

use std::sync::Arc;

use kube::core::Status;
use tokio::time::timeout;
use tracing::field::Empty;
use tracing::{Instrument, info_span};

use super::client::WRITE_TIMEOUT;
use super::fence::{Fence, NotLeading};
use crate::causes::with_causes;
use crate::heartbeat;
use crate::telemetry::TRACES;

/// What is written; the label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteKind {
    /// A ConfigMap that Hedgerow publishes.
    ConfigMap,
    /// The status of a policy.
    Status,
    /// An event.
    Event,
    /// The leader's lease.
    Lease,
    /// An annotation of a pod that mounts what was published.
    Nudge,
}

impl WriteKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::ConfigMap,
        Self::Status,
        Self::Event,
        Self::Lease,
        Self::Nudge,
    ];

    /// The outcome of a write that was done.
    pub const OK: &'static str = "ok";
    /// The outcome of an event that found no room.
    pub const DROPPED: &'static str = "dropped";
    /// The outcome for a pod beyond those that are nudged.
    pub const SKIPPED: &'static str = "skipped";

    /// Its name as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Status => "status",
            Self::Event => "event",
            Self::Lease => "lease",
            Self::Nudge => "nudge",
        }
    }
}

/// Told of every write with its outcome: [`WriteKind::OK`], [`WriteError::outcome`], [`WriteKind::DROPPED`] or
/// [`WriteKind::SKIPPED`].
pub type OnWrite = Arc<dyn Fn(WriteKind, &'static str) + Send + Sync>;

/// Why a write did not happen, or is not known to have happened.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Not sent.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// Sent, and not answered within [`WRITE_TIMEOUT`]: it may yet have happened.
    #[error("the API server did not answer within {} s", WRITE_TIMEOUT.as_secs())]
    Timeout,
    /// Refused.
    #[error("the API server refused: {}", .0.message)]
    Refused(Box<Status>),
    /// Not answered as the API promises, or not reached.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
}

/// What to do about a token that the API server does not take.
pub(super) const TOKEN_REMEDY: &str = "the token of the kubeconfig or the service account is expired, revoked or not known: create a new \
                            one (kubectl create token), or use the mounted one or a tokenFile, which is read again";

impl WriteError {
    /// Every outcome of a write that failed.
    pub const OUTCOMES: [&'static str; 5] = ["not_leading", "timeout", "conflict", "refused", "unreachable"];

    /// What a person can do about it, whatever it was that was asked for.
    pub(super) fn remedy(&self) -> Option<&'static str> {
        self.is_unauthorized().then_some(TOKEN_REMEDY)
    }

    /// What happened, and what to do where a person can.
    pub(super) fn with_remedy(&self) -> String {
        match self.remedy() {
            Some(remedy) => format!("{self}; {remedy}"),
            None => self.to_string(),
        }
    }

    /// A bounded name for metrics.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::NotLeading(_) => "not_leading",
            Self::Timeout => "timeout",
            Self::Refused(status) if status.is_conflict() => "conflict",
            Self::Refused(_) => "refused",
            Self::Unreachable(_) => "unreachable",
        }
    }

    /// Whether the API server says that it will never take this: too large, or against its schema. An admission policy may
    /// answer with the same code, and may be lifted.
    pub fn is_invalid(&self) -> bool {
        let denied = |status: &Status| status.message.contains("denied request");
        matches!(self, Self::Refused(status) if matches!(status.code, 400 | 413 | 422) && !denied(status))
    }

    /// Whether RBAC denies it.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused(status) if status.is_forbidden())
    }

    /// Whether the API server does not know who asks.
    pub(super) fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 401)
    }

    /// Whether the object is not there.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 404)
    }

    /// Whether the object is there already.
    pub(super) fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused(status) if status.is_already_exists())
    }

    /// Whether the object is another one, or changed since it was read.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused(status) if status.is_conflict())
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            other => Self::Unreachable(with_causes(&other)),
        }
    }
}

/// Sends writes: each behind the fence and within [`WRITE_TIMEOUT`].
#[derive(Clone)]
pub(super) struct Writer {
    fence: Fence,
    on_write: OnWrite,
}

impl Writer {
    pub(super) fn new(fence: Fence, on_write: OnWrite) -> Self {
        Self { fence, on_write }
    }

    /// Sends one write. The `request` must not retry by itself.
    pub(super) async fn write<T>(
        &self,
        kind: WriteKind,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        let span = info_span!(
            target: TRACES,
            "write",
            otel.kind = "client",
            object = kind.as_str(),
            outcome = Empty,
        );
        let result = match self.fence.check() {
            Ok(()) => bounded(request).instrument(span.clone()).await,
            Err(not_leading) => Err(not_leading.into()),
        };
        let outcome = result
            .as_ref()
            .map_or_else(WriteError::outcome, |_| WriteKind::OK);
        span.record("outcome", outcome);
        (self.on_write)(kind, outcome);
        result
    }

    /// Counts a write that was let go before it was begun.
    pub(super) fn dropped(&self, kind: WriteKind) {
        (self.on_write)(kind, WriteKind::DROPPED);
    }

    /// Counts so many writes that were not to be begun at all.
    pub(super) fn skipped(&self, kind: WriteKind, number: usize) {
        for _ in 0..number {
            (self.on_write)(kind, WriteKind::SKIPPED);
        }
    }
}

/// Waits for `request` no longer than [`WRITE_TIMEOUT`].
pub(super) async fn bounded<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
    let answer = timeout(WRITE_TIMEOUT, request).await;
    // However long the API server takes, whoever waits for it does move.
    heartbeat::beat();
    match answer {
        Ok(answer) => answer.map_err(WriteError::from),
        Err(_elapsed) => Err(WriteError::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn a_write_behind_a_closed_fence_is_not_sent() {
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&outcomes);
        let writer = Writer::new(
            Fence::closed(),
            Arc::new(move |kind, outcome| seen.lock().unwrap().push((kind, outcome))),
        );
        let request = async { panic!("sent although not leading") };
        let result: Result<(), _> = writer.write(WriteKind::Status, request).await;
        assert!(matches!(result, Err(WriteError::NotLeading(_))));
        assert_eq!(*outcomes.lock().unwrap(), [(WriteKind::Status, "not_leading")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_not_answered_is_given_up_after_five_seconds() {
        let writer = Writer::new(Fence::open(), Arc::new(|_, _| {}));
        let begun = tokio::time::Instant::now();
        let result: Result<(), _> = writer.write(WriteKind::ConfigMap, std::future::pending()).await;
        assert!(matches!(result, Err(WriteError::Timeout)));
        assert_eq!(begun.elapsed(), WRITE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_an_api_server_that_hangs_is_not_stuck() {
        let writer = Writer::new(Fence::open(), Arc::new(|_, _| {}));
        let heartbeats = heartbeat::Heartbeats::default();
        let work = async {
            // An hour of it.
            for _ in 0..720 {
                let result: Result<(), _> = writer.write(WriteKind::ConfigMap, std::future::pending()).await;
                assert!(matches!(result, Err(WriteError::Timeout)));
                assert_eq!(heartbeats.stuck(), [""; 0]);
            }
        };
        heartbeats.of("writer").accompany(work).await;
    }
}
