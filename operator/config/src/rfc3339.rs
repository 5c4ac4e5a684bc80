//! Points in time as RFC 3339 strings in UTC, for `#[serde(with)]`.

use hedgerow_tuner::Timestamp;
use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// A point beyond what RFC 3339 can write (the years -9999 to 9999) becomes the nearest one that it can.
pub(crate) fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    let nearest = if at.as_millis() < 0 {
        jiff::Timestamp::MIN
    } else {
        jiff::Timestamp::MAX
    };
    serializer.collect_str(&jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or(nearest))
}

/// Fractions of a millisecond are cut off, so that a document never holds longer than it says.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse::<jiff::Timestamp>()
        .map(|at| Timestamp::from_millis(at.as_millisecond()))
        .map_err(|error| D::Error::custom(format_args!("{text:?} is no RFC 3339 time: {error}")))
}

/// The same for a time that may be left out.
pub(crate) mod option {
    use super::{Deserializer, Serializer, Timestamp};

    pub(crate) fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => super::serialize(at, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Called only where the field is present: a `null` is malformed, not "never expires".
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }
}
