//! Tells people what happened, as events of `events.k8s.io/v1`.
//!
//! Not with kube's `Recorder`, which repeats the first note of a reason for six minutes: here the note carries the
//! numbers of this one transition.

use hedgerow_api::HedgePolicy;
use hedgerow_api::names::FIELD_MANAGER;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use tracing::debug;

use super::name::{NamespacedName, PolicyKey};
use super::write::{WriteKind, Writer};

/// The longest note that the API takes, in bytes.
const LONGEST_NOTE: usize = 1024;

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

/// Writes events. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    writer: Writer,
    reporter: String,
}

impl Recorder {
    /// `reporter` is this process, by the pod's name.
    pub(super) fn new(client: Client, writer: Writer, reporter: String) -> Self {
        Self {
            client,
            writer,
            reporter,
        }
    }

    /// Tells something about a policy.
    pub async fn about_policy(&self, policy: &PolicyKey, uid: &str, notice: &Notice) {
        self.record(reference::<HedgePolicy>(policy, Some(uid)), notice)
            .await;
    }

    /// Tells something about the operator itself, on its pod.
    pub async fn about_operator(&self, pod: &NamespacedName, notice: &Notice) {
        self.record(reference::<Pod>(pod, None), notice).await;
    }

    /// Nothing rests on an event, so one that cannot be written is let go.
    async fn record(&self, regarding: ObjectReference, notice: &Notice) {
        let namespace = regarding.namespace.clone().unwrap_or_default();
        let event = self.event(regarding, notice);
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let request = api.create(&params, &event);
        if let Err(error) = self.writer.write(WriteKind::Event, request).await {
            debug!(%error, reason = notice.reason, "event not written");
        }
    }

    fn event(&self, regarding: ObjectReference, notice: &Notice) -> Event {
        Event {
            metadata: ObjectMeta {
                generate_name: Some(format!(
                    "{}.",
                    cut(regarding.name.as_deref().unwrap_or_default(), 200)
                )),
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

/// The longest part of `text` from its beginning that has at most `bytes` and ends between characters.
fn cut(text: &str, bytes: usize) -> &str {
    let end = text.floor_char_boundary(bytes);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("aé", 99), "aé");
    }
}
