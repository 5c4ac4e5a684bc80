//! Tells people what happened, as events of `events.k8s.io/v1`.
//!
//! Not with kube's `Recorder`, which repeats the first note of a reason for six minutes: here the note carries the
//! numbers of this one transition.
//!
//! Whoever tells something does not wait until it is written: an event must never be in the way of a document.

use std::sync::Arc;

use hedgerow_api::HedgePolicy;
use hedgerow_api::names::FIELD_MANAGER;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use tokio::sync::{Mutex, mpsc};
use tracing::debug;

use super::name::{NamespacedName, PolicyKey};
use super::write::{WriteKind, Writer};

/// The longest note that the API takes, in bytes.
const LONGEST_NOTE: usize = 1024;

/// So many events wait to be written; what is told beyond is let go.
const WAITING: usize = 1024;

/// Who reports, as events name it.
const CONTROLLER: &str = "hedgerow.dev/operator";

/// Something that happened: on transitions only, never for a state that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether somebody should look.
    pub severity: Severity,
    /// What happened: a documented name, the same as in conditions and metrics.
    pub reason: &'static str,
    /// What the operator did or tried: `Publish`, `Switch`, `Accept`.
    pub action: &'static str,
    /// For people, with the numbers.
    pub note: String,
}

/// Whether somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it is meant to be.
    Normal,
    /// Worth a look.
    Warning,
}

/// Takes events to be written. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    writer: Writer,
    reporter: String,
    told: mpsc::Sender<Event>,
    waiting: Arc<Mutex<mpsc::Receiver<Event>>>,
}

impl Recorder {
    /// `reporter` is this process, by the pod's name.
    pub(super) fn new(client: Client, writer: Writer, reporter: String) -> Self {
        let (told, waiting) = mpsc::channel(WAITING);
        Self {
            client,
            writer,
            reporter,
            told,
            waiting: Arc::new(Mutex::new(waiting)),
        }
    }

    /// Tells something about a policy.
    pub fn about_policy(&self, policy: &PolicyKey, uid: &str, notice: &Notice) {
        self.tell(reference::<HedgePolicy>(policy, Some(uid)), notice);
    }

    /// Tells something about the operator itself, on its pod.
    pub fn about_operator(&self, pod: &NamespacedName, notice: &Notice) {
        self.tell(reference::<Pod>(pod, None), notice);
    }

    /// Nothing rests on an event, so one for which there is no room is let go.
    fn tell(&self, regarding: ObjectReference, notice: &Notice) {
        if self.told.try_send(self.event(regarding, notice)).is_err() {
            self.writer.dropped(WriteKind::Event);
            debug!(reason = notice.reason, note = notice.note, "event dropped");
        }
    }

    /// Writes what is told, one after the other, for ever.
    pub(super) async fn run(&self) {
        let mut waiting = self.waiting.lock().await;
        while let Some(event) = waiting.recv().await {
            self.write(&event).await;
        }
    }

    /// Nor on this: one that cannot be written is let go.
    async fn write(&self, event: &Event) {
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let request = api.create(&params, event);
        if let Err(error) = self.writer.write(WriteKind::Event, request).await {
            debug!(%error, reason = event.reason, "event not written");
        }
    }

    fn event(&self, regarding: ObjectReference, notice: &Notice) -> Event {
        Event {
            metadata: ObjectMeta {
                generate_name: Some(name_prefix(regarding.name.as_deref().unwrap_or_default())),
                namespace: regarding.namespace.clone(),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(Timestamp::now())),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(cut(&self.reporter, 128).to_owned()),
            type_: Some(
                match notice.severity {
                    Severity::Normal => "Normal",
                    Severity::Warning => "Warning",
                }
                .to_owned(),
            ),
            reason: Some(notice.reason.to_owned()),
            action: Some(notice.action.to_owned()),
            note: Some(cut(&notice.note, LONGEST_NOTE).to_owned()),
            regarding: Some(regarding),
            ..Event::default()
        }
    }
}

fn reference<K: Resource<DynamicType = ()>>(name: &NamespacedName, uid: Option<&str>) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: Some(name.namespace.clone()),
        name: Some(name.name.clone()),
        uid: uid.map(str::to_owned),
        ..ObjectReference::default()
    }
}

/// The beginning of an event's name, which the server completes.
fn name_prefix(regarding: &str) -> String {
    let name = cut(regarding, 200).trim_end_matches(['.', '-']);
    format!("{name}-")
}

/// The longest part of `text` from its beginning that has at most `bytes` and ends between characters.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::fence::Fence;
    use super::*;

    #[tokio::test]
    async fn whoever_tells_something_does_not_wait_though_nothing_is_written() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = kube::Config::new(http::Uri::from_static("https://127.0.0.1:1"));
        let client = Client::try_from(config).unwrap();
        let dropped = Arc::new(std::sync::Mutex::new(Vec::new()));
        let writer = Writer::new(Fence::open(), {
            let dropped = Arc::clone(&dropped);
            Arc::new(move |kind, outcome| dropped.lock().unwrap().push((kind, outcome)))
        });
        let recorder = Recorder::new(client, writer, "hedgerow-0".to_owned());
        let notice = Notice {
            severity: Severity::Warning,
            reason: "Saturated",
            action: "Decide",
            note: "queue 51 is above 50".to_owned(),
        };
        for _ in 0..WAITING + 2 {
            recorder.about_policy(&PolicyKey::new("helpdesk", "kb"), "u", &notice);
        }
        assert_eq!(*dropped.lock().unwrap(), [(WriteKind::Event, "dropped"); 2]);
    }

    #[test]
    fn the_name_of_an_event_begins_with_what_it_is_about() {
        assert_eq!(name_prefix("kb"), "kb-");
        let long = format!("{}.{}", "a".repeat(199), "b".repeat(50));
        assert_eq!(name_prefix(&long), format!("{}-", "a".repeat(199)));
    }

    #[test]
    fn a_note_is_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("aé", 99), "aé");
    }
}
