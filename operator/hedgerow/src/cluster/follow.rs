//! One watch, followed for as long as the process lives.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;
use tracing::warn;

use super::caches::CacheSlot;
use super::client::WATCH_SECONDS;
use super::lease::Leadership;

/// What a watch fills.
pub(super) trait Cache: Send + Sync {
    /// What is watched.
    type Object: Send;

    /// These are all the objects that there are in `namespace`, or in the cluster.
    fn listed(&self, namespace: Option<&str>, objects: Vec<Self::Object>);

    /// An object is new, or changed.
    fn applied(&self, object: Self::Object);

    /// An object is gone.
    fn deleted(&self, object: Self::Object);
}

/// The configuration that every watch starts from.
pub(super) fn watch_config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

/// What one watch watches.
pub(super) struct Source<T> {
    /// For people: the kind.
    pub(super) what: &'static str,
    /// The namespace; `None` is the whole cluster.
    pub(super) namespace: Option<String>,
    /// Begins the watch with a list.
    pub(super) begin: Box<dyn Fn() -> BoxStream<'static, watcher::Result<Event<T>>> + Send + Sync>,
}

/// Fills `cache` from `source`. Begins again with a list whenever this process wins the lease: what it knew as a
/// standby may be older than the last write of the leader before it.
pub(super) async fn follow<C: Cache>(
    source: Source<C::Object>,
    cache: &C,
    slot: CacheSlot,
    mut leadership: watch::Receiver<Leadership>,
) {
    loop {
        let term = leadership.borrow_and_update().term();
        let mut stream = (source.begin)().default_backoff().boxed();
        let mut found = Vec::new();
        loop {
            tokio::select! {
                () = new_term(&mut leadership, term) => break,
                event = stream.next() => match event {
                    Some(Ok(Event::Init)) => found.clear(),
                    Some(Ok(Event::InitApply(object))) => found.push(object),
                    Some(Ok(Event::InitDone)) => {
                        cache.listed(source.namespace.as_deref(), std::mem::take(&mut found));
                        slot.listed(term);
                    }
                    Some(Ok(Event::Apply(object))) => cache.applied(object),
                    Some(Ok(Event::Delete(object))) => cache.deleted(object),
                    Some(Err(error)) => {
                        warn!(what = source.what, namespace = source.namespace, %error, "watch failed, trying again");
                        slot.failed(error.to_string());
                    }
                    // A watcher never ends by itself; should it, begin again rather than go blind.
                    None => {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        break;
                    }
                },
            }
        }
    }
}

/// Waits until a term begins that is not `term`. Losing the lease begins none.
async fn new_term(leadership: &mut watch::Receiver<Leadership>, term: u64) {
    let newer = |now: &Leadership| now.term() > term;
    if leadership.wait_for(newer).await.is_err() {
        // The lease's task is gone, so there are no more terms; main sees its end and stops.
        std::future::pending::<()>().await;
    }
}
