//! Strings with a grammar. They are kept as written, so that what a person applied is what they get back; each type knows
//! its pattern, its length and what to tell somebody who got it wrong. The schema and the check at run time both use these.

mod decimal;
mod duration;
mod kinds;

pub use decimal::{NotADecimal, parse_decimal};
pub use duration::{NotADuration, parse_duration};
pub(crate) use kinds::cel_string;
pub use kinds::{
    AlertName, BaseKey, CassandraName, ConfigMapKey, ConfigMapName, Decimal, DurationText, Expiry, LabelName,
    LabelValue, MetricName, Name, PodLabelValue, PresetName, PropertyPrefix, SystemName, Text,
};
