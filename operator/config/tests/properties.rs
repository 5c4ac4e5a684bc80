//! What holds for every document.

use std::time::Duration;

use hedgerow_config::{Identity, Limits, NativeDocument, Validity, json_schema};
use hedgerow_tuner::{Hedging, Orders, Reason, Timestamp};
use proptest::prelude::*;
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
    fn a_damaged_document_never_gives_a_delay_of_zero(
        document in any_document(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        keep in any::<prop::sample::Index>(),
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
        if let Ok(NativeDocument { hedging: Some(terms), .. }) = NativeDocument::parse(&bytes) {
            prop_assert!(terms.delay > Duration::ZERO && terms.budget.percent > 0.0 && terms.budget.percent <= 100.0);
        }
    }
}
