//! Durations and decimals as strings.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail as a test may")]

use std::time::Duration;

use hedgerow_api::text::{
    AlertName, ConfigMapKey, ConfigMapName, Decimal, DurationText, Expiry, LabelName, LabelValue, MetricName,
    Name, Text, parse_decimal, parse_duration,
};
use proptest::prelude::*;

#[test]
fn a_duration_is_the_sum_of_its_parts() {
    for (text, nanos) in [
        ("0ms", 0),
        ("500ms", 500_000_000),
        ("0.001ms", 1_000),
        ("1.5s", 1_500_000_000),
        ("1m30s", 90_000_000_000),
        ("1h2m3s4ms", 3_723_004_000_000),
        ("30s30s", 60_000_000_000),
        ("0.25h", 900_000_000_000),
        ("007m", 420_000_000_000),
    ] {
        assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
    }
}

#[test]
fn the_longest_duration_does_not_overflow() {
    assert_eq!(
        parse_duration("999999h999999h9h"),
        Ok(Duration::from_secs((999_999 * 2 + 9) * 3600))
    );
}

#[test]
fn what_is_no_duration_is_refused() {
    for text in [
        "",
        "30",
        "s",
        "-30s",
        "+30s",
        "1d",
        "1 s",
        " 1s",
        "1s ",
        "1.s",
        ".5s",
        "1e3s",
        "1.0001s",
        "1000000s",
        "1ss",
        "1s\n",
        "١s",
        "1m1m1m1m1m1m1m1m1m",
    ] {
        assert!(parse_duration(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_decimal_is_the_number_that_it_says() {
    for (text, value) in [
        ("0", 0.0),
        ("95", 95.0),
        ("99.99", 99.99),
        ("007.50", 7.5),
        ("999999999.999999", 999_999_999.999_999),
    ] {
        assert_eq!(
            parse_decimal(text).map(f64::to_bits),
            Ok(f64::to_bits(value)),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_decimal_is_refused() {
    for text in [
        "",
        ".",
        "1.",
        ".5",
        "-1",
        "+1",
        "1e1",
        "1_000",
        "inf",
        "NaN",
        "1.0000001",
        "1000000000",
        " 1",
        "1\n",
        "1.2.3",
        "0x1",
        "٣",
    ] {
        assert!(parse_decimal(text).is_err(), "{text:?}");
    }
}

#[test]
fn only_never_and_durations_are_expiries() {
    assert_eq!(Expiry::from("never").parse(), Ok(None));
    assert_eq!(Expiry::from("1h").parse(), Ok(Some(Duration::from_secs(3600))));
    assert!(Expiry::from("Never").parse().is_err());
}

/// A pattern that does not compile would let everything pass.
#[test]
fn every_pattern_refuses_something() {
    assert!(!Name::from("A").is_well_formed());
    assert!(!MetricName::from("a{}").is_well_formed());
    assert!(!LabelName::from("a-b").is_well_formed());
    assert!(!ConfigMapName::from("A").is_well_formed());
    assert!(!ConfigMapKey::from("a/b").is_well_formed());
    assert!(!DurationText::from("1").is_well_formed());
    assert!(!Decimal::from("x").is_well_formed());
    assert!(!Expiry::from("x").is_well_formed());
}

#[test]
fn a_text_is_measured_in_characters_as_the_schema_does() {
    assert!(LabelValue::from("é".repeat(256)).is_well_formed());
    assert!(!LabelValue::from("é".repeat(257)).is_well_formed());
    assert!(!AlertName::from("").is_well_formed());
}

proptest! {
    /// The parser and the pattern in the schema are two descriptions of one grammar.
    #[test]
    fn a_duration_parses_exactly_when_the_schema_matches_it(text in "[0-9.msh]{0,18}") {
        prop_assert_eq!(parse_duration(&text).is_ok(), DurationText::from(text.as_str()).is_well_formed(), "{}", text);
    }

    #[test]
    fn every_text_of_the_pattern_is_a_duration(text in r"([0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m|h)){1,2}") {
        prop_assert_eq!(parse_duration(&text).is_ok(), text.len() <= 16, "{}", text);
    }

    #[test]
    fn a_decimal_parses_exactly_when_the_schema_matches_it(text in "[0-9.e-]{0,17}") {
        prop_assert_eq!(parse_decimal(&text).is_ok(), Decimal::from(text.as_str()).is_well_formed(), "{}", text);
    }

    #[test]
    fn decimals_compare_as_they_read(a in 0..10u64.pow(15), b in 0..10u64.pow(15)) {
        let text = |millionths: u64| format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
        let (x, y) = (parse_decimal(&text(a)).unwrap(), parse_decimal(&text(b)).unwrap());
        prop_assert_eq!(x.partial_cmp(&y), Some(a.cmp(&b)));
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = (parse_duration(&text), parse_decimal(&text));
    }
}
