//! Answers of sources. The input is the body of one.

use std::sync::LazyLock;

use hedgerow_signals::bench::{self, Histograms};
use hedgerow_tuner::Alert;
use serde_json::Value;

use crate::buckets::holds_together;

/// What a failure may say at most, in characters: our own words and 200 of the source's.
const LONGEST_MESSAGE: usize = 1000;

static ASKED: LazyLock<Histograms> = LazyLock::new(|| Histograms::of(2));

pub(crate) fn check(body: &[u8]) {
    // `None` for what this reader is too strict about, such as numbers beyond f64 in fields that nobody reads.
    let json = serde_json::from_slice::<Value>(body).ok();
    match bench::numbers(body) {
        Ok(numbers) => {
            if let Some(json) = &json {
                is_complete(json);
                for (number, written) in numbers.iter().zip(written(json)) {
                    let same = number.to_bits() == written.to_bits() || (number.is_nan() && written.is_nan());
                    assert!(same, "{number} was written as {written}");
                }
                assert_eq!(numbers.len(), written(json).len(), "an element for each");
            }
            let cut = &body[..body.trim_ascii_end().len() - 1];
            assert!(bench::numbers(cut).is_err(), "what breaks off is no answer");
        }
        Err(why) => assert!(why.message.chars().count() <= LONGEST_MESSAGE, "{}", why.message),
    }
    for distribution in ASKED.distributions(body) {
        holds_together(&distribution);
    }
    let alert = bench::alert(body, "A");
    if let (Some(json), Ok(state)) = (&json, &alert) {
        is_complete(json);
        let states = states(json);
        let fires = states.iter().any(|state| state == "firing");
        assert_eq!(*state == Alert::Firing, fires, "of {states:?}");
    }
}

/// Only what says that it succeeded, and of nothing that is missing, is an answer.
fn is_complete(json: &Value) {
    assert_eq!(json["status"], "success");
    assert_ne!(json["isPartial"], true);
    let warnings = json["warnings"].as_array().map_or(0, Vec::len);
    assert_eq!(warnings, 0, "warnings in what is taken for an answer");
}

/// The numbers as an independent reader finds them; of a histogram its count.
fn written(json: &Value) -> Vec<f64> {
    let number = |pair: &Value| {
        pair[1]
            .as_str()
            .map(|text| text.trim().parse().unwrap_or(f64::NAN))
    };
    let count = |pair: &Value| {
        pair[1]["count"]
            .as_str()
            .map(|text| text.trim().parse().unwrap_or(f64::NAN))
    };
    let data = &json["data"];
    if data["resultType"] == "scalar" {
        return number(&data["result"]).into_iter().collect();
    }
    let elements = data["result"].as_array().into_iter().flatten();
    elements
        .filter_map(|element| number(&element["value"]).or_else(|| count(&element["histogram"])))
        .collect()
}

/// The states of all instances of the alert A.
fn states(json: &Value) -> Vec<String> {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    list(&json["data"], "groups")
        .iter()
        .flat_map(|group| list(group, "rules"))
        .filter(|rule| rule["name"] == "A" && rule["type"] == "alerting")
        .flat_map(|rule| list(&rule, "alerts"))
        .filter_map(|alert| alert["state"].as_str().map(str::to_owned))
        .collect()
}
