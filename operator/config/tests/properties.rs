//! What holds for every document.

#![allow(clippy::unwrap_used)] // Helpers of tests.

use std::time::Duration;

use hedgerow_config::{DocumentError, Identity, Limits, NativeDocument, Terms, Validity, json_schema};
use hedgerow_tuner::{Hedging, Orders, Reason, Timestamp};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

fn any_hedging() -> impl Strategy<Value = Hedging> {
    let anything = || prop_oneof![0.0..4e6_f64, 0.0..0.01_f64, any::<f64>()];
    (
        anything(),
        anything(),
        prop_oneof![0.0..=100.0_f64, any::<f64>()],
        anything(),
    )
        .prop_map(|(delay_ms, min_remaining_ms, percent, min_per_second)| Hedging {
            delay_ms,
            min_remaining_ms,
            percent,
            min_per_second,
        })
}

/// A document of any orders, within what a policy may say.
fn any_document() -> impl Strategy<Value = NativeDocument> {
    let deadline = proptest::option::of((1_u64..=3_600_000).prop_map(Duration::from_millis));
    let validity = (0_i64..4_102_444_800_000, proptest::option::of(0_u64..100_000_000))
        .prop_map(|(at, life)| Validity::new(Timestamp::from_millis(at), life.map(Duration::from_millis)));
    let limits =
        (deadline, 2_u8..=5, 1_u32..=100_000).prop_map(|(deadline, max_attempts, max_concurrent)| Limits {
            deadline,
            max_attempts,
            max_concurrent,
        });
    // Half of them may hedge.
    let reason = prop_oneof![Just(Reason::Tuned), proptest::sample::select(Reason::ALL)];
    (
        proptest::option::of(any_hedging()),
        reason,
        limits,
        any::<u64>(),
        validity,
        "\\PC{0,20}",
    )
        .prop_map(|(hedging, reason, limits, revision, validity, target)| {
            let identity = Identity {
                policy: "ns/name".to_owned(),
                policy_uid: "uid".to_owned(),
                target,
            };
            NativeDocument::new(
                &identity,
                &Orders { hedging, reason },
                &limits,
                revision,
                validity,
            )
        })
}

/// Where a document has its fields.
const POINTERS: [&str; 18] = [
    "/apiVersion",
    "/policy",
    "/policyUID",
    "/target",
    "/revision",
    "/issuedAt",
    "/validUntil",
    "/enabled",
    "/reason",
    "/delayMs",
    "/deadlineMs",
    "/minRemainingMs",
    "/maxAttempts",
    "/budget",
    "/budget/percent",
    "/budget/burst",
    "/budget/minPerSecond",
    "/budget/maxConcurrent",
];

/// Any JSON, more often what some field of a document could be.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1_i64..200_000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-1.0..101.0_f64).prop_map(Value::from),
        "\\PC{0,10}".prop_map(Value::from),
        Just(Value::from("hedgerow.dev/v1")),
        Just(Value::from("9999-12-31T23:59:59.999999999Z")),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
        let fields = proptest::collection::hash_map("[a-zA-Z]{1,12}", inner, 0..4);
        prop_oneof![list, fields.prop_map(|fields| fields.into_iter().collect())]
    })
}

/// Sets a field of a document; `None` leaves it out.
fn set(json: &mut Value, pointer: &str, value: Option<Value>) {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let Some(Value::Object(parent)) = json.pointer_mut(parent) else {
        return;
    };
    match value {
        Some(value) => drop(parent.insert(field.to_owned(), value)),
        None => drop(parent.remove(field)),
    }
}

/// Refused, or such that a client may follow it: within the limits of a document, and the same when it is written again.
fn is_refused_or_within_limits(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(document) = NativeDocument::parse(bytes) else {
        return Ok(());
    };
    let hour = Duration::from_secs(3600);
    let is_time = |time: Duration| time > Duration::ZERO && time <= hour;
    prop_assert!((2..=5).contains(&document.max_attempts));
    prop_assert!(document.deadline.is_none_or(is_time));
    if let Some(Terms {
        delay,
        min_remaining,
        budget,
    }) = document.hedging
    {
        prop_assert!(is_time(delay) && min_remaining <= hour);
        prop_assert!(budget.percent > 0.0 && budget.percent <= 100.0);
        prop_assert!((1..=1_000_000).contains(&budget.burst));
        prop_assert!((0.0..=1e9).contains(&budget.min_per_second));
        prop_assert!((1..=100_000).contains(&budget.max_concurrent));
    }
    prop_assert_eq!(
        NativeDocument::parse(document.to_json().as_bytes()).unwrap(),
        document
    );
    Ok(())
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(document in any_document()) {
        prop_assert_eq!(&NativeDocument::parse(document.to_json().as_bytes()).unwrap(), &document);
    }

    #[test]
    fn what_is_written_fits_the_schema(document in any_document()) {
        let json: Value = serde_json::from_str(&document.to_json()).unwrap();
        prop_assert!(jsonschema::is_valid(&json_schema(), &json), "{json}");
    }

    #[test]
    fn an_enabled_document_has_a_delay_above_zero_and_an_off_one_has_none(document in any_document()) {
        let json: Value = serde_json::from_str(&document.to_json()).unwrap();
        if json["enabled"].as_bool().unwrap() {
            prop_assert!(json["delayMs"].as_f64().unwrap() > 0.0);
        } else {
            for field in ["delayMs", "minRemainingMs", "budget"] {
                prop_assert!(json.get(field).is_none(), "{field}");
            }
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = NativeDocument::parse(&bytes);
    }

    /// A document cut, or with some of its bytes replaced: nearer to what a broken writer leaves behind.
    #[test]
    fn a_damaged_document_is_refused_or_within_limits(
        document in any_document(),
        damage in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        keep in any::<Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = document.to_json().into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(keep.index(bytes.len()));
        }
        is_refused_or_within_limits(&bytes)?;
    }

    /// JSON with any values in the fields of a document, and with fields left out: nearer to what a person leaves behind.
    #[test]
    fn any_json_is_refused_or_within_limits(
        document in any_document(),
        values in proptest::collection::vec((any::<Index>(), proptest::option::of(any_value())), 0..4),
    ) {
        let mut json: Value = serde_json::from_str(&document.to_json()).unwrap();
        for (at, value) in values {
            set(&mut json, POINTERS[at.index(POINTERS.len())], value);
        }
        is_refused_or_within_limits(json.to_string().as_bytes())?;
    }

    /// Whatever else it says, also what this version would understand: what a newer one means by it cannot be known.
    #[test]
    fn no_document_of_a_newer_version_is_followed(document in any_document(), major in 2_u64..) {
        let mut json: Value = serde_json::from_str(&document.to_json()).unwrap();
        json["apiVersion"] = format!("hedgerow.dev/v{major}").into();
        let read = NativeDocument::parse(json.to_string().as_bytes());
        prop_assert!(matches!(read, Err(DocumentError::NewerVersion(_))));
    }

    #[test]
    fn unknown_fields_change_nothing(
        document in any_document(),
        name in "[a-z]{1,8}-[a-z]{1,8}",
        value in any_value(),
    ) {
        let mut json: Value = serde_json::from_str(&document.to_json()).unwrap();
        json[&name] = value.clone();
        if let Some(budget) = json.get_mut("budget") {
            budget[&name] = value;
        }
        prop_assert_eq!(NativeDocument::parse(json.to_string().as_bytes()).unwrap(), document);
    }
}
