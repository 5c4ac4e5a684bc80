//! A hedger: what a service keeps for one kind of call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_config::{DocumentError, NativeDocument};
use tokio::task::AbortHandle;

use crate::Metrics;
use crate::directory;
use crate::document::{Followed, Found, now};

/// Hedges one kind of call as its document says. Clone it freely: all clones share the document and its budget.
///
/// Make one for each document in a process, with [`Hedger::builder`]: a budget holds for the process, and two hedgers of
/// one document would spend it twice.
#[derive(Clone, Debug)]
pub struct Hedger {
    pub(crate) followed: Arc<Followed>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) on_failure: OnFailure,
    _follower: Option<Arc<Follower>>,
}

/// Ends the following task with the last clone.
#[derive(Debug)]
struct Follower(AbortHandle);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a hedger is made of.
#[derive(Debug)]
pub struct HedgerBuilder {
    target: String,
    metrics: Metrics,
    deadline: Option<Duration>,
    on_failure: OnFailure,
}

/// What a call does when an attempt gave no valid answer and no other is in flight.
///
/// Neither moves the time of the next hedge: an answer that comes early and is not valid is not slowness, and hedging
/// that answered to failure would multiply the load of a service that fails because it has too much of it. While other
/// attempts are in flight the call waits for them, and its next hedge comes at its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It ends at once. Retries, if any, are a matter of a layer around or inside, which draws on the same attempts and
    /// the same budget ([`Call::retry`](crate::Call::retry)).
    #[default]
    End,
    /// It asks the next replica at once, if attempts, budget and deadline allow a retry; else it ends at once.
    Retry,
}

impl Hedger {
    /// Begins a hedger for the calls of `target`. The name is the label `target` of its metrics.
    pub fn builder(target: impl Into<String>) -> HedgerBuilder {
        HedgerBuilder {
            target: target.into(),
            metrics: Metrics::default(),
            deadline: None,
            on_failure: OnFailure::End,
        }
    }

    /// The document in use now; `None` while there is none that may be followed. One that is there may still say off.
    pub fn document(&self) -> Option<Arc<NativeDocument>> {
        self.followed.current(now())
    }

    /// Permits of `maxConcurrent` that are out: hedges in flight, and those that lost and have not really ended (see
    /// [`Attempt::completion`](crate::Attempt::completion)).
    pub fn hedges_in_flight(&self) -> u32 {
        self.followed.in_flight()
    }
}

impl HedgerBuilder {
    /// Counts in these metrics. Without it nobody sees the counters.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = metrics.clone();
        self
    }

    /// What one call may take in all. It holds with and without a document; a document's own deadline can only make it
    /// shorter.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// What a call does when an attempt gave no valid answer and no other is in flight. Unset it ends.
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Follows the document in the file `key` of a mounted ConfigMap, and has read it once when this returns. Changes
    /// are seen as kubelet swaps them in, at the latest after 10 s.
    ///
    /// Needs a Tokio runtime, and ends with the last clone of the hedger.
    pub async fn follow_directory(self, directory: impl AsRef<Path>, key: impl Into<String>) -> Hedger {
        let (directory, key) = (directory.as_ref().to_owned(), key.into());
        let followed = self.followed();
        let first = directory::read(directory.join(&key)).await;
        // Refused ones are logged and counted there; a later one may be good.
        let _ = followed.take_in(&first, now());
        let task = tokio::spawn(directory::follow(
            Arc::downgrade(&followed),
            directory,
            key,
            first,
        ));
        self.build(followed, Some(task.abort_handle()))
    }

    /// Follows the document in a key of a ConfigMap through the Kubernetes API, by a watch on that one ConfigMap: it
    /// needs the verbs `list` and `watch` on it. Until the first answer it does not hedge; while the API cannot be
    /// reached the last document holds, until it expires.
    ///
    /// Needs a Tokio runtime, and ends with the last clone of the hedger.
    #[cfg(feature = "kube")]
    pub fn follow_config_map(
        self,
        client: kube::Client,
        namespace: impl Into<String>,
        name: impl Into<String>,
        key: impl Into<String>,
    ) -> Hedger {
        let followed = self.followed();
        let following = crate::api::follow(
            Arc::downgrade(&followed),
            client,
            namespace.into(),
            name.into(),
            key.into(),
        );
        let task = tokio::spawn(following);
        self.build(followed, Some(task.abort_handle()))
    }

    /// Follows the documents that you give it, for config that arrives on a way of your own. No call is hedged under an
    /// expired one; metrics show that it has expired from the next call on.
    pub fn follow_feed(self) -> (Hedger, Feed) {
        let followed = self.followed();
        let feed = Feed(Arc::clone(&followed));
        (self.build(followed, None), feed)
    }

    fn followed(&self) -> Arc<Followed> {
        Arc::new(Followed::new(
            self.target.clone(),
            self.metrics.for_target(&self.target),
        ))
    }

    fn build(self, followed: Arc<Followed>, task: Option<AbortHandle>) -> Hedger {
        Hedger {
            followed,
            deadline: self.deadline,
            on_failure: self.on_failure,
            _follower: task.map(|task| Arc::new(Follower(task))),
        }
    }
}

/// Gives a hedger its documents.
#[derive(Debug)]
pub struct Feed(Arc<Followed>);

impl Feed {
    /// The document is now this.
    ///
    /// # Errors
    /// When it cannot be followed. The hedger then does not hedge, whatever it was told before.
    pub fn update(&self, json: impl Into<Vec<u8>>) -> Result<(), DocumentError> {
        self.0.take_in(&Found::Bytes(json.into()), now())
    }

    /// There is no document any more: no hedging.
    pub fn withdraw(&self) {
        // Only a document can be refused.
        let _ = self.0.take_in(&Found::Missing, now());
    }
}
