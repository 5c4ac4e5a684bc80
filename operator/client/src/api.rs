//! Follows a document through the Kubernetes API.

use std::pin::pin;
use std::sync::Weak;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::document::{Followed, Found, now};

/// Shorter than the 240 s after which load balancers drop an idle connection without a word.
const WATCH_SECONDS: u32 = 200;

/// The pause before a list is asked for again, when a watch may not begin where the last one ended.
const ANEW: Duration = Duration::from_secs(1);

/// The HTTP status that says so.
const GONE: u16 = 410;

/// How often a document is looked at for its expiry while no call does.
const CLOCK: Duration = Duration::from_secs(10);

/// Takes in each change of one key of one ConfigMap, until nobody needs it any more. While the API cannot be reached
/// the last document holds, until it expires.
pub(crate) async fn follow(
    followed: Weak<Followed>,
    client: Client,
    namespace: String,
    name: String,
    key: String,
) {
    let config = watcher::Config::default()
        .fields(&format!("metadata.name={name}"))
        .timeout(WATCH_SECONDS);
    let api = Api::<ConfigMap>::namespaced(client, &namespace);
    let mut last = None;
    loop {
        let events = watcher(api.clone(), config.clone()).default_backoff();
        match follow_events(&followed, events, &key, &mut last).await {
            Ended::Unneeded => return,
            Ended::TooOld => sleep(ANEW).await,
        }
    }
}

/// Why a stream of events is followed no longer.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// Nobody needs the document any more, or there are no more events.
    Unneeded,
    /// The server no longer knows where the watch would begin. The watcher of kube 5.0 would ask for the same for ever.
    TooOld,
}

async fn follow_events(
    followed: &Weak<Followed>,
    events: impl Stream<Item = Result<Event<ConfigMap>, watcher::Error>>,
    key: &str,
    last: &mut Option<Found>,
) -> Ended {
    let mut events = pin!(events);
    let mut clock = interval(CLOCK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut listed = false;
    loop {
        let event = tokio::select! {
            event = events.next() => match event {
                Some(event) => Some(event),
                None => return Ended::Unneeded,
            },
            _ = clock.tick() => None,
        };
        let Some(followed) = followed.upgrade() else {
            return Ended::Unneeded;
        };
        let found = match event {
            None => None,
            Some(Ok(Event::Init)) => {
                listed = false;
                None
            }
            Some(Ok(Event::InitApply(config_map))) => {
                listed = true;
                Some(document(config_map, key))
            }
            Some(Ok(Event::Apply(config_map))) => Some(document(config_map, key)),
            // A list without the ConfigMap: it was deleted while nobody watched, or never there.
            Some(Ok(Event::InitDone)) => (!listed).then_some(Found::Missing),
            Some(Ok(Event::Delete(_))) => Some(Found::Missing),
            Some(Err(watcher::Error::WatchStartFailed(kube::Error::Api(status)))) if status.code == GONE => {
                return Ended::TooOld;
            }
            Some(Err(error)) => {
                tracing::warn!(target_name = %followed.target, %error, "cannot watch the ConfigMap");
                None
            }
        };
        if let Some(found) = found
            && last.as_ref() != Some(&found)
        {
            // Refused ones are logged and counted there; the next change is awaited in any case.
            let _ = followed.take_in(&found, now());
            *last = Some(found);
        }
        followed.expire(now());
    }
}

fn document(config_map: ConfigMap, key: &str) -> Found {
    match config_map.data.and_then(|mut data| data.remove(key)) {
        Some(text) => Found::Bytes(text.into_bytes()),
        None => Found::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use futures::stream;

    use crate::Metrics;
    use crate::metrics::Outcome;

    const KEY: &str = "shard-read.json";

    fn config_map(text: &str) -> ConfigMap {
        ConfigMap {
            data: Some([(KEY.to_owned(), text.to_owned())].into()),
            ..ConfigMap::default()
        }
    }

    fn good() -> ConfigMap {
        config_map(include_str!("../tests/document.json"))
    }

    /// What is followed after these events, and how often documents were missing.
    async fn after(events: Vec<Event<ConfigMap>>) -> (bool, u64) {
        let followed = Arc::new(Followed::new("t".to_owned(), Metrics::default().for_target("t")));
        let events = stream::iter(events.into_iter().map(Ok));
        let ended = follow_events(&Arc::downgrade(&followed), events, KEY, &mut None).await;
        assert_eq!(ended, Ended::Unneeded);
        (
            followed.current(now()).is_some(),
            followed.metrics.found(Outcome::Missing).get(),
        )
    }

    #[tokio::test]
    async fn a_listed_document_is_followed() {
        assert_eq!(
            after(vec![Event::Init, Event::InitApply(good()), Event::InitDone]).await,
            (true, 0)
        );
    }

    #[tokio::test]
    async fn a_list_without_the_config_map_means_that_it_is_missing() {
        assert_eq!(after(vec![Event::Init, Event::InitDone]).await, (false, 1));
    }

    #[tokio::test]
    async fn a_config_map_deleted_while_nobody_watched_is_missing_at_the_next_list() {
        let events = vec![
            Event::Init,
            Event::InitApply(good()),
            Event::InitDone,
            Event::Init,
            Event::InitDone,
        ];
        assert_eq!(after(events).await, (false, 1));
    }

    #[tokio::test]
    async fn a_watch_that_begins_anew_keeps_the_document_meanwhile() {
        assert_eq!(
            after(vec![
                Event::Init,
                Event::InitApply(good()),
                Event::InitDone,
                Event::Init
            ])
            .await,
            (true, 0)
        );
    }

    #[tokio::test]
    async fn a_deleted_config_map_is_missing() {
        assert_eq!(
            after(vec![Event::Apply(good()), Event::Delete(good())]).await,
            (false, 1)
        );
    }

    #[tokio::test]
    async fn a_key_that_went_is_missing() {
        assert_eq!(
            after(vec![Event::Apply(good()), Event::Apply(ConfigMap::default())]).await,
            (false, 1)
        );
    }
}
