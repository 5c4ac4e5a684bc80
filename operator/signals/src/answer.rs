//! The decoder of answers. Pure, and strict: what the API does not promise is an error, never a number.

use std::collections::BTreeMap;
use std::fmt;

use hedgerow_tuner::UnknownReason;
use serde::de::{IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};

use crate::failure::{Failure, quote};
use crate::native::{Native, Written};

/// What a query gave.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    /// The elements of the instant vector; a scalar is one without labels.
    pub(crate) samples: Vec<Sample>,
    /// Remarks that do not concern completeness.
    pub(crate) infos: Vec<String>,
}

/// One element of an instant vector.
#[derive(Debug, PartialEq)]
pub(crate) struct Sample {
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// The time of evaluation on the server's clock, in seconds since the epoch.
    pub(crate) time: f64,
    /// Its value.
    pub(crate) value: Value,
}

/// What an element of an instant vector carries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A number. What does not parse is NaN.
    Number(f64),
    /// A native histogram.
    Histogram(Native),
}

/// The frame of every answer of the API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<T> {
    status: String,
    data: Option<T>,
    error_type: Option<String>,
    error: Option<String>,
    warnings: Option<Vec<String>>,
    infos: Option<Vec<String>>,
    #[serde(default)]
    is_partial: bool,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Element>),
    Scalar((f64, Number)),
    Matrix(IgnoredAny),
    String(IgnoredAny),
}

#[derive(Deserialize)]
struct Element {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    value: Option<(f64, Number)>,
    histogram: Option<(f64, Written)>,
}

/// A number as the API writes it, in a string: `"NaN"`, `"+Inf"`, `"1e-05"`. What is none is NaN.
pub(crate) struct Number(pub(crate) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number in a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Number, E> {
                Ok(Number(number(text)))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// A number as Prometheus writes one, in values and in `le`: `0.1`, `1e-05`, `1.0E-5`, `+Inf`, `inf`. Else NaN.
pub(crate) fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or(f64::NAN)
}

/// Decodes the answer to a query.
pub(crate) fn vector(body: &[u8]) -> Result<Answer, Failure> {
    let (data, infos) = data(body)?;
    let samples = match data {
        Data::Vector(elements) => elements.into_iter().map(sample).collect::<Result<_, _>>()?,
        Data::Scalar((time, Number(value))) => vec![Sample {
            labels: BTreeMap::new(),
            time,
            value: Value::Number(value),
        }],
        Data::Matrix(_) => return Err(unexpected_type("matrix")),
        Data::String(_) => return Err(unexpected_type("string")),
    };
    Ok(Answer { samples, infos })
}

/// Decodes the `data` of a complete, successful answer, and its `infos`.
pub(crate) fn data<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<(T, Vec<String>), Failure> {
    let envelope: Envelope<T> = serde_json::from_slice(body).map_err(|error| not_the_api(body, &error))?;
    if envelope.status != "success" {
        return Err(refused(
            envelope.error_type.as_deref().unwrap_or_default(),
            envelope.error.as_deref().unwrap_or_default(),
        ));
    }
    let warnings = envelope.warnings.unwrap_or_default();
    if envelope.is_partial || !warnings.is_empty() {
        return Err(incomplete(&warnings));
    }
    let data = envelope.data.ok_or_else(|| {
        Failure::new(
            UnknownReason::BadResponse,
            "the answer says success and carries no data",
        )
    })?;
    Ok((data, envelope.infos.unwrap_or_default()))
}

/// What warnings say, or without any that the answer is partial.
///
/// Those of PromQL itself about histograms concern what is stored, not who answered: the answer leaves out the series that
/// do not fit together.
fn incomplete(warnings: &[String]) -> Failure {
    let about = |parts: &[&str]| {
        let fits = |warning: &&String| parts.iter().any(|part| warning.contains(part));
        warnings.iter().find(fits).map(|warning| quote(warning))
    };
    if let Some(said) = about(&["mix of", "conflicting counter resets"]) {
        return Failure::new(
            UnknownReason::MixedBuckets,
            format!(
                "histograms of several kinds do not add up ({said}); give all instances one kind, classic or native. After \
                 a change of kind wait until the window has passed"
            ),
        );
    }
    if let Some(said) = about(&["histogram metric is not a counter"]) {
        return Failure::new(
            UnknownReason::NotAHistogram,
            format!(
                "what is counted can fall, so that it has no increase ({said}); name a cumulative histogram"
            ),
        );
    }
    let said = warnings
        .first()
        .map_or_else(|| "isPartial is set".to_owned(), |warning| quote(warning));
    Failure::new(
        UnknownReason::PartialResponse,
        format!("the source says that its answer is incomplete ({said}); look at its stores and replicas"),
    )
}

/// The error that an answer tells in the API's own words, when it does.
pub(crate) fn told_error(body: &[u8]) -> Option<(String, String)> {
    let envelope: Envelope<IgnoredAny> = serde_json::from_slice(body).ok()?;
    Some((envelope.error_type.unwrap_or_default(), envelope.error?))
}

/// The failure that the API calls `error_type`.
pub(crate) fn refused(error_type: &str, error: &str) -> Failure {
    let said = quote(error);
    if error.contains("unavailable with Prometheus Agent") {
        return Failure::new(
            UnknownReason::BackendCannotQuery,
            "the source is a Prometheus in agent mode, which forwards samples and cannot be queried; name the server \
             that it writes to",
        );
    }
    match error_type {
        "bad_data" | "execution" => Failure::new(
            UnknownReason::QueryInvalid,
            format!("the source refuses the query: {said}"),
        ),
        "timeout" | "canceled" => Failure::new(
            UnknownReason::Timeout,
            format!("the source gave the query up: {said}; see its query.timeout and load"),
        ),
        "unavailable" | "internal" => Failure::new(
            UnknownReason::Unavailable,
            format!("the source fails: {said}; see its log"),
        ),
        other => Failure::new(
            UnknownReason::BadResponse,
            format!(
                "the source reports an error of unknown type {:?}: {said}",
                quote(other)
            ),
        ),
    }
}

fn sample(element: Element) -> Result<Sample, Failure> {
    let (time, value) = match (element.value, element.histogram) {
        (Some((time, Number(value))), _) => (time, Value::Number(value)),
        (None, Some((time, histogram))) => (time, Value::Histogram(histogram.into())),
        (None, None) => {
            return Err(Failure::new(
                UnknownReason::BadResponse,
                "an element of the answer has neither value nor histogram",
            ));
        }
    };
    Ok(Sample {
        labels: element.metric,
        time,
        value,
    })
}

fn unexpected_type(name: &str) -> Failure {
    Failure::new(
        UnknownReason::BadResponse,
        format!("the answer is a {name} where an instant vector was asked for"),
    )
}

fn not_the_api(body: &[u8], error: &serde_json::Error) -> Failure {
    let message = if body.trim_ascii_start().starts_with(b"<") {
        "the answer is a web page, not JSON: the URL may lead to a login page or a user interface; give the base URL of \
         the Prometheus API"
            .to_owned()
    } else if error.is_eof() {
        format!(
            "the answer breaks off after {} bytes; a proxy between may cut it",
            body.len()
        )
    } else {
        // Without the parser's own words: they may repeat what was in the body.
        format!(
            "the answer is not what the Prometheus API promises (line {}, column {}); check the source's URL",
            error.line(),
            error.column()
        )
    };
    Failure::new(UnknownReason::BadResponse, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reason(body: &str) -> UnknownReason {
        vector(body.as_bytes()).unwrap_err().reason
    }

    #[test]
    fn values_are_numbers_in_strings() {
        let body = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"a":"1"},"value":[1700000000.5,"1e-05"]},
            {"metric":{},"value":[1,"+Inf"]},
            {"metric":{},"value":[1,"NaN"]},
            {"metric":{},"value":[1,"many"]}]}}"#;
        let samples = vector(body.as_bytes()).unwrap().samples;
        assert_eq!(samples[0].labels["a"], "1");
        assert_eq!(samples[0].time.to_bits(), 1_700_000_000.5_f64.to_bits());
        assert_eq!(samples[0].value, Value::Number(1e-5));
        assert_eq!(samples[1].value, Value::Number(f64::INFINITY));
        for sample in &samples[2..] {
            assert!(matches!(sample.value, Value::Number(value) if value.is_nan()));
        }
    }

    #[test]
    fn bounds_are_parsed_as_numbers_however_they_are_spelled() {
        for (spelled, value) in [
            ("1e-05", 1e-5),
            ("1.0E-5", 1e-5),
            ("0", 0.0),
            ("0.0", 0.0),
            ("+Inf", f64::INFINITY),
            ("inf", f64::INFINITY),
        ] {
            assert_eq!(number(spelled).total_cmp(&value), std::cmp::Ordering::Equal);
        }
        assert!(number("8.799e+01...1.000e+02").is_nan());
    }

    #[test]
    fn a_scalar_is_accepted_and_other_types_are_not() {
        let body = r#"{"status":"success","data":{"resultType":"scalar","result":[5,"7"]}}"#;
        assert_eq!(
            vector(body.as_bytes()).unwrap().samples[0].value,
            Value::Number(7.0)
        );
        for other in [
            r#"{"resultType":"matrix","result":[]}"#,
            r#"{"resultType":"string","result":[1,"a"]}"#,
        ] {
            let body = format!(r#"{{"status":"success","data":{other}}}"#);
            assert_eq!(reason(&body), UnknownReason::BadResponse);
        }
    }

    #[test]
    fn a_native_histogram_is_decoded_beside_numbers() {
        // As Prometheus 3.16 writes it (util/jsonutil/marshal.go), and one without observations.
        let body = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"a":"1"},"histogram":[1,{"count":"36","sum":"34.5","buckets":[
                [3,"-0.25","0.25","3"],[0,"0.25","0.5","12"],[0,"0.5","1","21"]]}]},
            {"metric":{},"histogram":[1,{"count":"0","sum":"0"}]},
            {"metric":{},"value":[1,"2"]}]}}"#;
        let samples = vector(body.as_bytes()).unwrap().samples;
        let Value::Histogram(histogram) = &samples[0].value else {
            panic!("{:?}", samples[0]);
        };
        assert_eq!((histogram.count, histogram.sum), (36.0, 34.5));
        let buckets: Vec<_> = histogram
            .buckets
            .iter()
            .map(|bucket| (bucket.lower, bucket.upper, bucket.calls))
            .collect();
        assert_eq!(buckets, [(-0.25, 0.25, 3.0), (0.25, 0.5, 12.0), (0.5, 1.0, 21.0)]);
        assert_eq!(samples[1].value, Value::Histogram(Native::default()));
        assert_eq!(samples[2].value, Value::Number(2.0));
    }

    #[test]
    fn warnings_and_partial_answers_are_unknown_while_infos_are_not() {
        let with = |extra: &str| {
            format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[]}},{extra}}}"#)
        };
        assert_eq!(
            reason(&with(r#""warnings":["a store is down"]"#)),
            UnknownReason::PartialResponse
        );
        assert_eq!(
            reason(&with(r#""isPartial":true"#)),
            UnknownReason::PartialResponse
        );
        let answer = vector(with(r#""infos":["not a counter"],"warnings":[]"#).as_bytes()).unwrap();
        assert_eq!(answer.infos.len(), 1);
    }

    #[test]
    fn warnings_about_histograms_that_do_not_add_up_are_no_missing_stores() {
        // The texts of Prometheus 3.16 (util/annotations/annotations.go).
        for (warning, expected) in [
            (
                "PromQL warning: vector contains a mix of classic and native histograms",
                UnknownReason::MixedBuckets,
            ),
            (
                "PromQL warning: encountered a mix of histograms and floats for aggregation",
                UnknownReason::MixedBuckets,
            ),
            (
                "PromQL warning: vector contains a mix of histograms with exponential and custom buckets schemas",
                UnknownReason::MixedBuckets,
            ),
            (
                "PromQL warning: this native histogram metric is not a counter: m",
                UnknownReason::NotAHistogram,
            ),
            ("PromQL warning: something new", UnknownReason::PartialResponse),
        ] {
            let body = format!(
                r#"{{"status":"success","data":{{"resultType":"vector","result":[]}},"warnings":["{warning}"]}}"#
            );
            let failure = vector(body.as_bytes()).unwrap_err();
            assert_eq!(failure.reason, expected, "{warning}");
            assert!(failure.may_be_one_culprit() && !failure.concerns_source());
        }
    }

    #[test]
    fn truncated_foreign_and_empty_bodies_are_bad_responses() {
        for body in [
            r#"{"status":"success","data":{"resultType":"vector","result":[{"me"#,
            "",
            "<html>login</html>",
            "[]",
            r#"{"status":"success"}"#,
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}"#,
        ] {
            let failure = vector(body.as_bytes()).unwrap_err();
            assert_eq!(failure.reason, UnknownReason::BadResponse);
            assert!(!failure.message.contains("login</html>"));
        }
    }

    #[test]
    fn an_error_in_the_apis_words_is_named_for_what_it_is() {
        let body =
            |kind: &str, text: &str| format!(r#"{{"status":"error","errorType":"{kind}","error":"{text}"}}"#);
        assert_eq!(
            reason(&body("bad_data", "parse error")),
            UnknownReason::QueryInvalid
        );
        assert_eq!(
            reason(&body("execution", "too many samples")),
            UnknownReason::QueryInvalid
        );
        assert_eq!(
            reason(&body("execution", "unavailable with Prometheus Agent")),
            UnknownReason::BackendCannotQuery
        );
        assert_eq!(
            reason(&body("timeout", "query timed out")),
            UnknownReason::Timeout
        );
        assert_eq!(reason(&body("internal", "x")), UnknownReason::Unavailable);
        assert_eq!(reason(&body("surprise", "x")), UnknownReason::BadResponse);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = vector(&body);
            let _ = told_error(&body);
        }

        #[test]
        fn no_damage_to_a_good_answer_makes_the_decoder_panic(cut in 0usize..150, byte in any::<u8>(), value in any::<String>()) {
            let mut body = serde_json::json!({"status": "success", "infos": [value], "data": {"resultType": "vector",
                "result": [{"metric": {"a": value}, "value": [1.5, value]}, {"metric": {}, "histogram": [1, {"count": value, "sum": "1", "buckets": [[0, "1", "2", value]]}]}]}})
            .to_string()
            .into_bytes();
            prop_assert!(vector(&body).is_ok());
            let place = cut.min(body.len() - 1);
            body[place] = byte;
            let _ = vector(&body);
            body.truncate(place);
            prop_assert!(vector(&body).is_err());
        }
    }
}
