//! The kinds of text in a policy.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use kube::core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{NotADecimal, NotADuration, decimal, duration, parse_decimal, parse_duration};

/// A string with a grammar.
pub trait Text {
    /// The regular expression that the whole text matches; `None` when any text of a fit length will do.
    const PATTERN: Option<&'static str>;
    /// The longest text, in characters.
    const MAX_LENGTH: usize;
    /// What the text must be, for somebody whose text is not: a sentence that follows the field's name.
    const ADVICE: &'static str;

    /// The text as written.
    fn as_str(&self) -> &str;

    /// Whether the text matches the pattern, whatever its length.
    fn matches_pattern(&self) -> bool;

    /// Whether the text keeps to the grammar.
    fn is_well_formed(&self) -> bool {
        (1..=Self::MAX_LENGTH).contains(&self.as_str().chars().count()) && self.matches_pattern()
    }
}

/// Declares a text type: a transparent string that decodes whatever is there, so that a bad text is an error of a field with
/// a name and not of the whole object.
macro_rules! text {
    ($(#[$meta:meta])* $name:ident, $pattern:expr, at most $max:expr, $advice:expr) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl Text for $name {
            const PATTERN: Option<&'static str> = $pattern;
            const MAX_LENGTH: usize = $max;
            const ADVICE: &'static str = $advice;

            fn as_str(&self) -> &str {
                &self.0
            }

            fn matches_pattern(&self) -> bool {
                static PATTERN: std::sync::LazyLock<Option<regex_lite::Regex>> =
                    std::sync::LazyLock::new(|| $pattern.and_then(|pattern| regex_lite::Regex::new(pattern).ok()));
                PATTERN.as_ref().is_none_or(|pattern| pattern.is_match(&self.0))
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                text_schema::<Self>()
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

/// The schema carries the pattern twice: as `pattern` for tools that know no CEL, and as a rule whose message says what to
/// write instead.
fn text_schema<T: Text>() -> Schema {
    let mut schema = json_schema!({ "type": "string", "minLength": 1, "maxLength": T::MAX_LENGTH });
    if let Some(pattern) = T::PATTERN {
        let rule = Rule::new(format!("self.matches({})", cel_string(pattern))).message(T::ADVICE);
        schema.insert("pattern".to_owned(), pattern.into());
        schema.insert("x-kubernetes-validations".to_owned(), serde_json::json!([rule]));
    }
    schema
}

/// A CEL literal of a text that holds no quote of its own; raw, so that a pattern's backslashes stay as they are.
pub(crate) fn cel_string(text: &str) -> String {
    format!("r'{text}'")
}

text! {
    /// A name by which things are told apart within a policy.
    Name, Some("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), at most 63,
    "must be lower-case letters, digits and -, starting and ending with a letter or digit, such as shard-read"
}
text! {
    /// The name of a metric, without labels.
    MetricName, Some("^[a-zA-Z_:][a-zA-Z0-9_:]*$"), at most 200,
    "must be the name of a metric alone: letters, digits, _ and :, not starting with a digit; its labels go into matchLabels"
}
text! {
    /// The name of a label of a metric.
    LabelName, Some("^[a-zA-Z_][a-zA-Z0-9_]*$"), at most 128,
    "must be the name of a label: letters, digits and _, not starting with a digit"
}
text! {
    /// The value of a label of a metric. It may hold anything: it is quoted wherever it is used.
    LabelValue, None, at most 256, "must not be empty, and have at most 256 characters"
}
text! {
    /// The name of an alerting rule. It may hold anything: it is compared, never put into a query.
    AlertName, None, at most 200, "must not be empty, and have at most 200 characters"
}
text! {
    /// The name of a preset. Which there are is for the field to say.
    PresetName, None, at most 63, "must be the name of a preset"
}
text! {
    /// The name of a ConfigMap.
    ConfigMapName, Some(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"), at most 253,
    "must be the name of a ConfigMap: lower-case letters, digits, - and ., such as kb-hedging"
}
text! {
    /// A key of a ConfigMap.
    ConfigMapKey, Some("^[-._a-zA-Z0-9]+$"), at most 248,
    "must be a key of a ConfigMap: letters, digits, -, _ and ., such as shard-read.json"
}
text! {
    /// A key of a ConfigMap that is not ours: it may be as long as Kubernetes allows.
    BaseKey, Some("^[-._a-zA-Z0-9]+$"), at most 253,
    "must be a key of a ConfigMap: letters, digits, -, _ and ., such as rds.yaml"
}
text! {
    /// The value of a label of a pod. It goes into a selector, where a comma would begin another requirement.
    PodLabelValue, Some("^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$"), at most 63,
    "must be the value of a label of pods: letters, digits, -, _ and ., starting and ending with a letter or digit"
}
text! {
    /// How another system calls something. It may hold anything: it is quoted wherever it is written.
    SystemName, None, at most 253, "must not be empty, and have at most 253 characters"
}
text! {
    /// The name of a keyspace or table of Cassandra.
    CassandraName, Some("^[a-zA-Z0-9_]+$"), at most 48,
    "must be the name of a keyspace or table: letters, digits and _, at most 48"
}
text! {
    /// What stands before the key of a property.
    PropertyPrefix, Some("^[-._a-zA-Z0-9]+$"), at most 128,
    "must be letters, digits, -, _ and ., at most 128"
}
text! {
    /// A duration as written; see [`parse_duration`].
    DurationText, Some(duration::PATTERN), at most duration::MAX_LENGTH,
    "must be a duration such as 500ms, 30s or 1m30s"
}
text! {
    /// A decimal as written; see [`parse_decimal`].
    Decimal, Some(decimal::PATTERN), at most 16, "must be a decimal in quotes, such as \"99.9\""
}
text! {
    /// How long a document is valid: a duration as written, or `never`.
    Expiry, Some(r"^(never|([0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m|h))+)$"), at most duration::MAX_LENGTH,
    "must be a duration such as 1h, or never"
}

impl DurationText {
    /// The duration that the text says.
    ///
    /// # Errors
    /// When the text is no duration; never after `validate`.
    pub fn parse(&self) -> Result<Duration, NotADuration> {
        parse_duration(self)
    }
}

impl Decimal {
    /// The number that the text says.
    ///
    /// # Errors
    /// When the text is no decimal; never after `validate`.
    pub fn parse(&self) -> Result<f64, NotADecimal> {
        parse_decimal(self)
    }

    /// The number in millionths, for what must be exact.
    pub(crate) fn millionths(&self) -> Result<u64, NotADecimal> {
        decimal::parse_millionths(self)
    }
}

impl Expiry {
    /// The duration that the text says; `None` for `never`.
    ///
    /// # Errors
    /// When the text is neither; never after `validate`.
    pub fn parse(&self) -> Result<Option<Duration>, NotADuration> {
        match self.as_str() {
            "never" => Ok(None),
            text => parse_duration(text).map(Some),
        }
    }
}
