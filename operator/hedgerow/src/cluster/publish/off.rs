//! Documents that are switched off without anyone to render them.

use std::collections::BTreeMap;

use hedgerow_config::{NativeDocument, Validity};
use hedgerow_tuner::{Reason, Timestamp};

/// A document of an output that is ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Retired {
    /// The off document.
    pub(super) text: String,
    /// When it may be deleted; `None` is never.
    pub(super) until: Option<Timestamp>,
}

/// Every document off, for `reason`. One that says so already stays as it is, unless it would expire: an off document is
/// renewed when half its life is over. One that cannot be read stays: clients do not hedge by it.
pub(super) fn all(
    documents: &BTreeMap<String, String>,
    reason: Reason,
    now: Timestamp,
) -> BTreeMap<String, String> {
    let off = |text: &String| {
        NativeDocument::parse(text.as_bytes()).map_or_else(
            |_| text.clone(),
            |document| switched_off(document, reason, now, text),
        )
    };
    documents
        .iter()
        .map(|(key, text)| (key.clone(), off(text)))
        .collect()
}

/// The documents that must stay for now, off: a document is deleted only when every client that read it before has seen
/// it expire. What is no native document is left out.
pub(super) fn retired(documents: &BTreeMap<String, String>, now: Timestamp) -> BTreeMap<String, Retired> {
    let kept = documents
        .iter()
        .filter_map(|(key, text)| Some((key.clone(), retire(text, now)?)));
    kept.collect()
}

/// One document that its policy no longer names; `None` when it may be deleted.
pub(super) fn retire(text: &str, now: Timestamp) -> Option<Retired> {
    let document = NativeDocument::parse(text.as_bytes()).ok()?;
    if document.hedging.is_none() {
        // Off already: it ends with its own validity.
        let until = document.validity.valid_until;
        return until.is_none_or(|until| until > now).then(|| Retired {
            text: text.to_owned(),
            until,
        });
    }
    let off = turn_off(document, Reason::Stopped, now);
    Some(Retired {
        until: off.validity.valid_until,
        text: off.to_json(),
    })
}

fn switched_off(document: NativeDocument, reason: Reason, now: Timestamp, text: &str) -> String {
    let is_off = document.hedging.is_none() && document.reason == reason.as_str();
    let renewal_due = document.validity.renewal_due(now, &document.identity.policy_uid);
    match (is_off, renewal_due) {
        (true, false) => text.to_owned(),
        (true, true) => renewed(document, now).to_json(),
        (false, _) => turn_off(document, reason, now).to_json(),
    }
}

fn turn_off(document: NativeDocument, reason: Reason, now: Timestamp) -> NativeDocument {
    NativeDocument {
        hedging: None,
        reason: reason.as_str().to_owned(),
        revision: document.revision.saturating_add(1),
        ..renewed(document, now)
    }
}

/// Valid from now, for as long as it was before.
fn renewed(document: NativeDocument, now: Timestamp) -> NativeDocument {
    let before = document.validity;
    let lifetime = before.valid_until.map(|until| until.since(before.issued_at));
    NativeDocument {
        validity: Validity::new(now, lifetime),
        ..document
    }
}
