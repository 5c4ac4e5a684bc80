//! One watch, followed for as long as the process lives.
//!
//! An own small loop over kube's list and watch. The `watcher` of kube 5.0 asks for one version for ever when the server
//! answers the start of a watch with a plain 410, and it does not tell that a watch works: an emergency stop rests on one.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::runtime::watcher::DefaultBackoff;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{error, info, warn};

use super::caches::{CacheSlot, News};
use super::client::WATCH_SECONDS;
use super::events::{Notice, Severity};
use super::lease::Leadership;
use super::name::NamespacedName;
use super::write::TOKEN_REMEDY;

/// How many objects a list asks for at once.
const PAGE: u32 = 500;

/// A watch that says nothing for longer than this is dead: the server ends it by itself before.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// A watch that ends later than this ends because it was asked for no longer.
const ENDS_BY_ITSELF: Duration = Duration::from_secs(WATCH_SECONDS as u64 - 5);

/// A watch that ends sooner than this is not begun again at once.
const SHORT: Duration = Duration::from_secs(1);

/// What a watch fills.
pub(super) trait Cache: Send + Sync {
    /// What is watched.
    type Object: Resource + Send;

    /// The names of all objects that are known.
    fn known(&self) -> Vec<NamespacedName>;

    /// The object of that name is like this now, or is gone.
    fn set(&self, name: NamespacedName, object: Option<Self::Object>);

    /// These are all the objects that there are in `namespace`, or in the cluster.
    fn listed(&self, namespace: Option<&str>, objects: Vec<Self::Object>) {
        let listed: BTreeSet<_> = objects
            .iter()
            .map(|object| NamespacedName::of(object.meta()))
            .collect();
        let covered = |name: &NamespacedName| namespace.is_none_or(|namespace| name.namespace == namespace);
        for name in self.known() {
            if covered(&name) && !listed.contains(&name) {
                self.set(name, None);
            }
        }
        for object in objects {
            self.set(NamespacedName::of(object.meta()), Some(object));
        }
    }
}

/// What one watch watches.
pub(super) struct Source<T> {
    /// For people: the kind.
    pub(super) what: &'static str,
    /// For people: what does not work while the watch does not.
    pub(super) matters: &'static str,
    /// The namespace; `None` is the whole cluster.
    pub(super) namespace: Option<String>,
    /// The same, to be asked.
    pub(super) api: Api<T>,
    /// Only objects with these labels.
    pub(super) labels: Option<String>,
    /// Only objects with these fields.
    pub(super) fields: Option<String>,
}

/// Tells people of a watch that does not work, and that it does again.
pub(super) type OnNews = Box<dyn Fn(&Notice) + Send + Sync>;

/// Fills `cache` from `source`. Begins again with a list whenever this process wins the lease: what it knew as a
/// standby may be older than the last write of the leader before it.
pub(super) async fn follow<C>(
    source: Source<C::Object>,
    cache: &C,
    slot: CacheSlot,
    mut leadership: watch::Receiver<Leadership>,
    on_news: OnNews,
) where
    C: Cache,
    C::Object: Clone + Debug + DeserializeOwned + 'static,
{
    loop {
        let term = leadership.borrow_and_update().term();
        let watching = Watching {
            source: &source,
            cache,
            slot: &slot,
            term,
            on_news: &on_news,
        };
        tokio::select! {
            () = new_term(&mut leadership, term) => {}
            never = watching.run() => match never {},
        }
    }
}

/// A watch in one term.
struct Watching<'a, C: Cache> {
    source: &'a Source<C::Object>,
    cache: &'a C,
    slot: &'a CacheSlot,
    term: u64,
    on_news: &'a OnNews,
}

impl<C> Watching<'_, C>
where
    C: Cache,
    C::Object: Clone + Debug + DeserializeOwned + 'static,
{
    /// Lists, then watches from there; and lists again when the server knows that version no longer, or not yet.
    async fn run(&self) -> Infallible {
        let mut back_off = DefaultBackoff::default();
        let mut version = None;
        // A watch that did not end by its own time may have been cut because the server was restored from before.
        let mut was_cut = false;
        loop {
            let begun = Instant::now();
            let is_watch = version.is_some() && !was_cut;
            let result = match &mut version {
                None => self.list().await.map(|listed| {
                    was_cut = false;
                    version = Some(listed);
                }),
                Some(known) if was_cut => self.is_behind(known).await.map(|behind| {
                    was_cut = false;
                    if behind {
                        version = None;
                    }
                }),
                Some(version) => self.watch(version).await,
            };
            was_cut |= is_watch && (result.is_err() || begun.elapsed() < ENDS_BY_ITSELF);
            match &result {
                Ok(()) if !is_watch || begun.elapsed() >= SHORT => continue,
                Ok(()) => {}
                Err(error) => {
                    let (what, namespace) = (self.source.what, self.source.namespace.as_deref());
                    let why = explained(error);
                    warn!(what, namespace, error = why, "watch failed, trying again");
                    self.tell(self.slot.failed(why));
                    if !resumes(error) {
                        version = None;
                    }
                }
            }
            sleep(back_off.next().unwrap_or(SHORT)).await;
        }
    }

    /// Takes in all that there is; returns the version to watch from.
    async fn list(&self) -> kube::Result<String> {
        let mut params = self.at_most(PAGE);
        let mut found = Vec::new();
        loop {
            let page = self.source.api.list(&params).await?;
            found.extend(page.items.into_iter().map(without_managers));
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                self.cache.listed(self.source.namespace.as_deref(), found);
                self.tell(self.slot.listed(self.term));
                return Ok(page.metadata.resource_version.unwrap_or_default());
            }
        }
    }

    /// Asks for so many of them at once.
    fn at_most(&self, limit: u32) -> ListParams {
        ListParams {
            label_selector: self.source.labels.clone(),
            field_selector: self.source.fields.clone(),
            limit: Some(limit),
            ..ListParams::default()
        }
    }

    /// Whether the server does not know `version` yet: a watch from there would be silent until it does, and an emergency
    /// stop would not be heard. Versions are numbers that grow (Kubernetes 1.35 promises it); others cannot be compared.
    async fn is_behind(&self, version: &str) -> kube::Result<bool> {
        let newest = self
            .source
            .api
            .list(&self.at_most(1))
            .await?
            .metadata
            .resource_version;
        let numbers = newest
            .unwrap_or_default()
            .parse::<u64>()
            .ok()
            .zip(version.parse::<u64>().ok());
        Ok(numbers.is_some_and(|(newest, known)| newest < known))
    }

    /// Takes in what changes after `version`, which it moves on, until the server ends the watch as it should.
    async fn watch(&self, version: &mut String) -> kube::Result<()> {
        let params = WatchParams {
            label_selector: self.source.labels.clone(),
            field_selector: self.source.fields.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            send_initial_events: false,
        };
        let mut events = pin!(self.source.api.watch(&params, version).await?);
        self.tell(self.slot.works());
        while let Ok(Some(event)) = timeout(SILENCE, events.next()).await {
            let (object, exists) = match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
                WatchEvent::Deleted(object) => (object, false),
                WatchEvent::Bookmark(bookmark) => {
                    *version = bookmark.metadata.resource_version;
                    self.tell(self.slot.works());
                    continue;
                }
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            };
            if let Some(changed) = &object.meta().resource_version {
                version.clone_from(changed);
            }
            let name = NamespacedName::of(object.meta());
            self.cache.set(name, exists.then(|| without_managers(object)));
            self.tell(self.slot.works());
        }
        Ok(())
    }

    fn tell(&self, news: Option<News>) {
        let Some(news) = news else { return };
        let Source { what, matters, .. } = self.source;
        let place = match &self.source.namespace {
            Some(namespace) => format!(" in namespace {namespace}"),
            None => String::new(),
        };
        let notice = match news {
            News::Fails => Notice {
                severity: Severity::Warning,
                reason: "WatchFailing",
                action: "Watch",
                note: format!(
                    "the watch of {what}{place} does not work: {matters}; see the log, and the operator's RBAC"
                ),
            },
            News::Works => Notice {
                severity: Severity::Normal,
                reason: "WatchWorks",
                action: "Watch",
                note: format!("the watch of {what}{place} works again"),
            },
        };
        match news {
            News::Fails => error!(what, "{}", notice.note),
            News::Works => info!(what, "{}", notice.note),
        }
        (self.on_news)(&notice);
    }
}

/// Nothing is decided by who wrote which field, and it is most of an object.
fn without_managers<T: Resource>(mut object: T) -> T {
    object.meta_mut().managed_fields = None;
    object
}

/// What happened, and what to do where a person can.
fn explained(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 401 => format!("{error}; {TOKEN_REMEDY}"),
        _ => error.to_string(),
    }
}

/// Whether a watch may go on from where it was: the server still knows that version, and nothing was sent that cannot be
/// read.
fn resumes(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code != 410,
        kube::Error::SerdeError(_) => false,
        _ => true,
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

#[cfg(test)]
mod tests;
