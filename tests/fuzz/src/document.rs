//! The document that clients read. The input is what is found where it should be.

use std::time::Duration;

use hedgerow_config::{NativeDocument, Terms};
use hedgerow_tuner::{Reason, Timestamp};
use serde_json::Value;

pub(crate) fn check(input: &[u8]) {
    let document = match NativeDocument::parse(input) {
        Ok(document) => document,
        Err(why) => {
            assert!(!why.to_string().is_empty());
            return;
        }
    };
    assert!(input.len() <= NativeDocument::LARGEST);
    assert!((2..=5).contains(&document.max_attempts));
    if let Some(terms) = &document.hedging {
        let json = serde_json::from_slice::<Value>(input).unwrap_or_default();
        assert!(
            json.is_null() || json["enabled"] == true,
            "on, and nobody said so"
        );
        let off = Reason::ALL
            .iter()
            .filter(|reason| !matches!(reason, Reason::Tuned | Reason::Ramping));
        assert!(
            off.clone().all(|off| off.as_str() != document.reason),
            "on for a reason to be off"
        );
        are_in_range(terms);
    }
    for now in [i64::MIN, 0, i64::MAX].map(Timestamp::from_millis) {
        let ends = document
            .validity
            .valid_until
            .is_some_and(|until| until.as_millis() <= now.as_millis());
        assert_eq!(document.is_expired(now), ends);
    }
    let _ = document.validity.renewal_at("uid");

    // A client that hands it on, and an operator that takes it over from another, change nothing.
    let written = document.to_json();
    match NativeDocument::parse(written.as_bytes()) {
        Ok(again) => assert!(
            again.same_content(&document) && again.validity == document.validity,
            "{written}"
        ),
        // What stood within the limit may be longer when it is indented.
        Err(why) => assert!(written.len() > NativeDocument::LARGEST, "{why} in {written}"),
    }
}

/// As the fields of [`Terms`] promise.
fn are_in_range(terms: &Terms) {
    let hour = Duration::from_secs(3600);
    let budget = terms.budget;
    assert!(!terms.delay.is_zero() && terms.delay <= hour, "{terms:?}");
    assert!(terms.min_remaining <= hour, "{terms:?}");
    assert!(budget.percent > 0.0 && budget.percent <= 100.0, "{terms:?}");
    assert!((1..=1_000_000).contains(&budget.burst), "{terms:?}");
    assert!((0.0..=1e9).contains(&budget.min_per_second), "{terms:?}");
    assert!((1..=100_000).contains(&budget.max_concurrent), "{terms:?}");
}
