//! Documents that are switched off without anyone to render them.

use std::collections::BTreeMap;

use hedgerow_api::names::OFF_FORM_SUFFIX;
use hedgerow_config::{NativeDocument, Validity};
use hedgerow_tuner::{Memory, Reason, Timestamp};

/// A document of an output that is ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Retired {
    /// The off document.
    pub(super) text: String,
    /// When it may be deleted; `None` is never.
    pub(super) until: Option<Timestamp>,
}

/// Every document off, for `reason`. One that says so already stays as it is, unless it would expire: an off document is
/// renewed when half its life is over. One that cannot be read stays: clients do not hedge by it. A document of another
/// system becomes its off form, which stands beside it.
pub(super) fn all(
    documents: &BTreeMap<String, String>,
    reason: Reason,
    now: Timestamp,
) -> BTreeMap<String, String> {
    let native = |text: &String| {
        NativeDocument::parse(text.as_bytes()).map_or_else(
            |_| text.clone(),
            |document| switched_off(document, reason, now, text),
        )
    };
    let mut off = with_off_forms(documents);
    for (key, text) in documents {
        if !off.contains_key(key) {
            off.insert(key.clone(), native(text));
        }
    }
    off
}

/// The documents of other systems, each off, with their off forms: also where a person has taken the document away.
fn with_off_forms(documents: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut off = BTreeMap::new();
    for (off_key, text) in documents {
        let Some(key) = off_key.strip_suffix(OFF_FORM_SUFFIX) else {
            continue;
        };
        off.insert(key.to_owned(), text.clone());
        off.insert(off_key.clone(), text.clone());
    }
    off
}

/// What is remembered of targets whose documents were all switched off: that they are. Else a target that comes back to its
/// policy, or a policy that is mended, would go on at full budget. What this changes counts as written at `written`.
pub(super) fn remembered(memory: &BTreeMap<String, Memory>, written: Timestamp) -> BTreeMap<String, Memory> {
    let mut memory = memory.clone();
    for target in memory.values_mut().filter(|target| target.lets_hedge()) {
        target.went_off();
        target.written = written;
    }
    memory
}

/// The documents that must stay for now, off: a document is deleted only when every client that read it before has seen
/// it expire. Those of other systems never are, and stay with their off forms. What is neither is left out.
pub(super) fn retired(documents: &BTreeMap<String, String>, now: Timestamp) -> BTreeMap<String, Retired> {
    let others = with_off_forms(documents);
    let native = documents.iter().filter(|(key, _)| !others.contains_key(*key));
    let native = native.filter_map(|(key, text)| Some((key.clone(), retire(text, now)?)));
    let mut kept: BTreeMap<String, Retired> = native.collect();
    kept.extend(
        others
            .into_iter()
            .map(|(key, text)| (key, Retired { text, until: None })),
    );
    kept
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hedgerow_config::{Identity, Limits};
    use hedgerow_tuner::{Hedging, Orders};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const HOUR: Duration = Duration::from_secs(3600);

    fn text(hedging: Option<Hedging>, reason: Reason, expiry: Option<Duration>) -> String {
        let identity = Identity {
            policy: "helpdesk/kb".into(),
            policy_uid: "u".into(),
            target: "t".into(),
        };
        let limits = Limits {
            deadline: None,
            max_attempts: 2,
            max_concurrent: 100,
        };
        let validity = Validity::new(NOW, expiry);
        NativeDocument::new(&identity, &Orders { hedging, reason }, &limits, 7, validity).to_json()
    }

    fn on(expiry: Option<Duration>) -> String {
        let hedging = Hedging {
            delay_ms: 512.0,
            min_remaining_ms: 150.0,
            percent: 10.0,
            min_per_second: 0.0,
        };
        text(Some(hedging), Reason::Tuned, expiry)
    }

    fn parse(text: &str) -> NativeDocument {
        NativeDocument::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_document_that_lets_hedge_is_written_off_for_as_long_as_it_could_have_held() {
        let later = NOW.plus(HOUR / 4);
        let retired = retire(&on(Some(HOUR)), later).unwrap();
        assert_eq!(retired.until, Some(later.plus(HOUR)));
        let off = parse(&retired.text);
        assert_eq!(
            (off.hedging, off.reason.as_str(), off.revision),
            (None, "Stopped", 8)
        );
        assert_eq!(off.validity, Validity::new(later, Some(HOUR)));
    }

    #[test]
    fn an_off_document_stays_as_it_is_until_it_expires() {
        let off = text(None, Reason::Saturated, Some(HOUR));
        let retired = retire(&off, NOW.plus(HOUR / 2)).unwrap();
        assert_eq!((retired.text, retired.until), (off.clone(), Some(NOW.plus(HOUR))));
        assert_eq!(retire(&off, NOW.plus(HOUR)), None);
    }

    #[test]
    fn a_document_that_never_expires_stays_off_for_ever() {
        let retired = retire(&on(None), NOW).unwrap();
        assert_eq!(retired.until, None);
        assert_eq!(retire(&retired.text, NOW.plus(HOUR * 1000)), Some(retired));
    }

    #[test]
    fn what_is_no_document_may_be_deleted() {
        assert_eq!(retire("what?", NOW), None);
    }

    #[test]
    fn switching_off_again_changes_nothing_until_a_renewal_is_due() {
        let documents = BTreeMap::from([
            ("k".to_owned(), on(Some(HOUR))),
            ("notes".to_owned(), "what?".to_owned()),
        ]);
        let off = all(&documents, Reason::Invalid, NOW);
        assert_eq!(parse(&off["k"]).reason, "Invalid");
        assert_eq!(off["notes"], "what?");
        assert_eq!(all(&off, Reason::Invalid, NOW.plus(HOUR / 4)), off);

        let later = NOW.plus(HOUR);
        let renewed = parse(&all(&off, Reason::Invalid, later)["k"]);
        assert_eq!(renewed.validity, Validity::new(later, Some(HOUR)));
        assert_eq!(renewed.revision, 8, "a renewal is no change of content");
    }
}
