//! The documents as they are written: golden files, the schema, and what a reader refuses.

#![allow(clippy::unwrap_used)] // Helpers of tests; clippy.toml allows it only inside the tests themselves.

mod committed;

use std::time::Duration;

use hedgerow_config::{DocumentError, Identity, Limits, NativeDocument, Validity, json_schema};
use hedgerow_tuner::{Hedging, Orders, Reason, Timestamp};
use serde_json::{Value, json};

use committed::assert_committed;

/// 2026-11-30T10:00:00Z.
const ISSUED: Timestamp = Timestamp::from_millis(1_796_032_800_000);

fn identity() -> Identity {
    Identity {
        policy: "helpdesk/kb-search".to_owned(),
        policy_uid: "0c6f9a52-7d0e-4c38-9a55-2f6f1f0f8f11".to_owned(),
        target: "shard-read".to_owned(),
    }
}

fn limits() -> Limits {
    Limits {
        deadline: Some(Duration::from_secs(1)),
        max_attempts: 2,
        max_concurrent: 100,
    }
}

fn hedging(percent: f64) -> Hedging {
    Hedging {
        delay_ms: 512.0,
        min_remaining_ms: 150.0,
        percent,
        min_per_second: 0.0,
    }
}

fn document(hedging: Option<Hedging>, reason: Reason) -> NativeDocument {
    let validity = Validity::new(ISSUED, Some(Duration::from_secs(3600)));
    NativeDocument::new(&identity(), &Orders { hedging, reason }, &limits(), 17, validity)
}

fn tuned() -> NativeDocument {
    document(Some(hedging(10.0)), Reason::Tuned)
}

/// The tuned document with one change to its JSON.
fn changed(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut json: Value = serde_json::from_str(&tuned().to_json()).unwrap();
    change(&mut json);
    json.to_string().into_bytes()
}

fn assert_fits_schema(json: &str) {
    let validator = jsonschema::validator_for(&json_schema()).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(&serde_json::from_str(json).unwrap())
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?} in {json}");
}

fn fits_schema(json: &[u8]) -> bool {
    jsonschema::is_valid(&json_schema(), &serde_json::from_slice(json).unwrap())
}

#[test]
fn the_documents_read_as_the_golden_files_and_fit_the_schema() {
    let never_expires = NativeDocument::new(
        &identity(),
        &Orders {
            hedging: Some(hedging(10.0)),
            reason: Reason::Tuned,
        },
        &Limits {
            deadline: None,
            ..limits()
        },
        17,
        Validity::new(ISSUED, None),
    );
    for (name, document) in [
        ("on", tuned()),
        ("ramping", document(Some(hedging(2.5)), Reason::Ramping)),
        ("off", document(None, Reason::Saturated)),
        ("without-deadline-or-expiry", never_expires),
    ] {
        let json = document.to_json();
        assert_committed(
            &format!("tests/golden/{name}.json"),
            &json,
            "HEDGEROW_BLESS=1 cargo test -p hedgerow-config",
        );
        assert_fits_schema(&json);
        assert_eq!(NativeDocument::parse(json.as_bytes()).unwrap(), document);
    }
}

#[test]
fn the_committed_schema_is_the_one_that_is_printed() {
    assert_committed(
        "../../crds/native-document.schema.json",
        &format!("{:#}\n", json_schema()),
        "cargo run -p hedgerow -- schema > crds/native-document.schema.json",
    );
    jsonschema::meta::validate(&json_schema()).unwrap();
}

#[test]
fn every_field_of_the_schema_is_described() {
    let schema = json_schema();
    for fields in [&schema["properties"], &schema["$defs"]["Budget"]["properties"]] {
        for (name, field) in fields.as_object().unwrap() {
            assert!(
                field["description"].as_str().is_some_and(|text| text.len() > 10),
                "{name} says nothing"
            );
        }
    }
}

#[test]
fn a_renewal_is_no_change_of_content() {
    let renewed = NativeDocument {
        revision: 18,
        validity: Validity::new(ISSUED.plus(Duration::from_secs(1800)), None),
        ..tuned()
    };
    assert!(tuned().same_content(&renewed));
}

#[test]
fn every_other_field_is_content() {
    let other_terms = document(
        Some(Hedging {
            delay_ms: 513.0,
            ..hedging(10.0)
        }),
        Reason::Tuned,
    );
    for other in [
        NativeDocument {
            identity: Identity {
                target: "other".to_owned(),
                ..identity()
            },
            ..tuned()
        },
        NativeDocument {
            reason: "Ramping".to_owned(),
            ..tuned()
        },
        NativeDocument {
            deadline: None,
            ..tuned()
        },
        NativeDocument {
            max_attempts: 3,
            ..tuned()
        },
        document(Some(hedging(5.0)), Reason::Tuned),
        document(None, Reason::Tuned),
        other_terms,
    ] {
        assert!(!tuned().same_content(&other), "{other:?}");
    }
}

#[test]
fn orders_that_no_client_could_follow_are_off() {
    for bad in [
        Hedging {
            delay_ms: 0.0,
            ..hedging(10.0)
        },
        Hedging {
            delay_ms: 0.000_4,
            ..hedging(10.0)
        },
        Hedging {
            delay_ms: -1.0,
            ..hedging(10.0)
        },
        Hedging {
            delay_ms: f64::NAN,
            ..hedging(10.0)
        },
        Hedging {
            delay_ms: f64::INFINITY,
            ..hedging(10.0)
        },
        Hedging {
            min_remaining_ms: f64::NAN,
            ..hedging(10.0)
        },
        Hedging {
            min_per_second: -0.5,
            ..hedging(10.0)
        },
        hedging(0.0),
        hedging(100.1),
        hedging(f64::NAN),
    ] {
        let document = document(Some(bad), Reason::Tuned);
        assert_eq!(
            (document.hedging, document.reason.as_str()),
            (None, "LatencyUnknown"),
            "{bad:?}"
        );
        assert_fits_schema(&document.to_json());
    }
}

#[test]
fn orders_that_hedge_for_a_reason_to_be_off_are_off() {
    for reason in Reason::ALL.iter().copied() {
        let document = document(Some(hedging(10.0)), reason);
        let may_hedge = matches!(reason, Reason::Tuned | Reason::Ramping);
        assert_eq!(document.hedging.is_some(), may_hedge, "{reason:?}");
        assert_eq!(document.reason, reason.as_str());
        assert_fits_schema(&document.to_json());
    }
}

#[test]
fn a_reader_ignores_fields_that_a_minor_version_adds() {
    let json = changed(|json| {
        json["hint"] = json!({ "new": true });
        json["budget"]["perHost"] = json!(3);
    });
    assert_eq!(NativeDocument::parse(&json).unwrap(), tuned());
    assert!(fits_schema(&json));
}

#[test]
fn a_reader_refuses_other_versions_by_name() {
    let newer =
        NativeDocument::parse(br#"{ "apiVersion": "hedgerow.dev/v2", "enabled": "perhaps" }"#).unwrap_err();
    assert!(matches!(newer, DocumentError::NewerVersion(version) if version == "hedgerow.dev/v2"));
    for foreign in [
        "",
        "v1",
        "hedgerow.dev/v1alpha1",
        "hedgerow.dev/v0",
        "hedgerow.dev/v1 ",
        "example.org/v1",
    ] {
        let json = changed(|json| json["apiVersion"] = json!(foreign));
        let error = NativeDocument::parse(&json).unwrap_err();
        assert!(
            matches!(error, DocumentError::ForeignVersion(_)),
            "{foreign:?}: {error}"
        );
    }
}

#[test]
fn an_enabled_document_needs_delay_remaining_time_and_budget() {
    for field in ["delayMs", "minRemainingMs", "budget"] {
        let json = changed(|json| drop(json.as_object_mut().unwrap().remove(field)));
        let error = NativeDocument::parse(&json).unwrap_err();
        assert!(
            matches!(error, DocumentError::MissingWhenEnabled(missing) if missing == field),
            "{error}"
        );
        assert!(!fits_schema(&json), "{field}");
    }
}

#[test]
fn a_reader_refuses_numbers_outside_their_range_and_so_does_the_schema() {
    for (pointer, value) in [
        ("/delayMs", json!(0)),
        ("/delayMs", json!(-512.0)),
        ("/delayMs", json!(3_600_001)),
        ("/delayMs", json!(1e308)),
        ("/delayMs", json!("512")),
        ("/delayMs", json!(null)),
        ("/deadlineMs", json!(0)),
        ("/deadlineMs", json!(null)),
        ("/minRemainingMs", json!(-1)),
        ("/maxAttempts", json!(1)),
        ("/maxAttempts", json!(6)),
        ("/maxAttempts", json!(300)),
        ("/revision", json!(-1)),
        ("/budget", json!(null)),
        ("/budget/percent", json!(0)),
        ("/budget/percent", json!(100.5)),
        ("/budget/burst", json!(0)),
        ("/budget/minPerSecond", json!(-1)),
        ("/budget/maxConcurrent", json!(0)),
        ("/enabled", json!("true")),
        ("/validUntil", json!(null)),
        ("/issuedAt", json!(1_796_032_800)),
    ] {
        let json = changed(|json| *json.pointer_mut(pointer).unwrap() = value.clone());
        assert!(NativeDocument::parse(&json).is_err(), "{pointer} = {value}");
        assert!(!fits_schema(&json), "the schema accepts {pointer} = {value}");
    }
}

#[test]
fn a_reader_refuses_times_that_are_none() {
    for bad in [
        "",
        "tomorrow",
        "2026-11-30",
        "2026-11-30T10:00:00",
        "2026-13-30T10:00:00Z",
    ] {
        let json = changed(|json| json["validUntil"] = json!(bad));
        assert!(
            matches!(NativeDocument::parse(&json), Err(DocumentError::Malformed(_))),
            "{bad:?}"
        );
    }
}

#[test]
fn a_time_may_carry_an_offset_and_a_fraction_never_prolongs_it() {
    let json = changed(|json| json["validUntil"] = json!("2026-11-30T12:00:00.0009+01:00"));
    let until = NativeDocument::parse(&json).unwrap().validity.valid_until;
    assert_eq!(until, Some(ISSUED.plus(Duration::from_secs(3600))));
}

#[test]
fn what_is_left_out_without_need_is_malformed() {
    for field in [
        "apiVersion",
        "policy",
        "policyUID",
        "target",
        "revision",
        "issuedAt",
        "enabled",
        "reason",
        "maxAttempts",
    ] {
        let json = changed(|json| drop(json.as_object_mut().unwrap().remove(field)));
        assert!(
            matches!(NativeDocument::parse(&json), Err(DocumentError::Malformed(_))),
            "{field}"
        );
        assert!(!fits_schema(&json), "{field}");
    }
}

#[test]
fn an_enabled_document_whose_reason_is_one_to_be_off_is_refused() {
    for reason in Reason::ALL
        .iter()
        .filter(|reason| !matches!(reason, Reason::Tuned | Reason::Ramping))
    {
        let json = changed(|json| json["reason"] = json!(reason.as_str()));
        let error = NativeDocument::parse(&json).unwrap_err();
        assert!(matches!(error, DocumentError::EnabledAndOff(said) if said == reason.as_str()));
        assert!(!fits_schema(&json), "{reason:?}");
    }
    // Names that a later version may add.
    let json = changed(|json| json["reason"] = json!("TunedAnew"));
    assert!(NativeDocument::parse(&json).unwrap().hedging.is_some());
}

#[test]
fn what_is_longer_than_any_document_is_none() {
    let mut json = tuned().to_json().into_bytes();
    json.resize(NativeDocument::LARGEST, b' ');
    assert!(NativeDocument::parse(&json).is_ok());
    json.push(b' ');
    assert!(matches!(
        NativeDocument::parse(&json),
        Err(DocumentError::TooLong(65_537))
    ));
}

#[test]
fn an_off_document_stays_off_whatever_else_it_says() {
    let json = changed(|json| json["enabled"] = json!(false));
    assert_eq!(NativeDocument::parse(&json).unwrap().hedging, None);
    assert!(!fits_schema(&json), "an off document with a delay");
}
