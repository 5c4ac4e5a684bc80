//! The ranges and limits of a policy: one table, from which come the rules in the schema, their messages and the checks at
//! run time.

use std::time::Duration;

use kube::core::Rule;

use crate::text::{Decimal, DurationText, Expiry, Text, cel_string, parse_decimal, parse_duration};

/// A range of durations, both ends included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurationRange {
    pub(crate) min: &'static str,
    pub(crate) max: &'static str,
}

/// A range of decimals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecimalRange {
    pub(crate) min: &'static str,
    /// Whether `min` itself is in the range.
    pub(crate) from_min: bool,
    /// Included; `None` for no upper end.
    pub(crate) max: Option<&'static str>,
}

/// The range of an expiry, which may also be `never`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpiryRange(pub(crate) DurationRange);

/// A range of whole numbers, both ends included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntegerRange {
    pub(crate) min: i32,
    pub(crate) max: i32,
}

const fn durations(min: &'static str, max: &'static str) -> DurationRange {
    DurationRange { min, max }
}

const fn integers(min: i32, max: i32) -> IntegerRange {
    IntegerRange { min, max }
}

const fn above_zero(max: Option<&'static str>) -> DecimalRange {
    DecimalRange {
        min: "0",
        from_min: false,
        max,
    }
}

pub(crate) const INTERVAL: DurationRange = durations("5s", "10m");
pub(crate) const SATURATION_INTERVAL: DurationRange = durations("1s", "1m");
pub(crate) const MAX_STALENESS: DurationRange = durations("30s", "1h");
pub(crate) const EXPIRY: ExpiryRange = ExpiryRange(durations("10m", "24h"));
pub(crate) const DEADLINE: DurationRange = durations("1ms", "1h");
pub(crate) const WINDOW: DurationRange = durations("1m", "24h");
pub(crate) const DELAY: DurationRange = durations("1ms", "1h");
pub(crate) const DELAY_ADD: DurationRange = durations("0ms", "10m");
pub(crate) const SIGNAL_WINDOW: DurationRange = durations("30s", "1h");
pub(crate) const MAX_UNKNOWN: DurationRange = durations("10s", "10m");
pub(crate) const COOLDOWN: DurationRange = durations("1s", "30m");
pub(crate) const RAMP_STEP: DurationRange = durations("1s", "30m");

pub(crate) const PERCENTILE: DecimalRange = DecimalRange {
    min: "50",
    from_min: true,
    max: Some("99.99"),
};
pub(crate) const PERCENT: DecimalRange = above_zero(Some("100"));
pub(crate) const OFF_ABOVE: DecimalRange = above_zero(None);
pub(crate) const ON_BELOW: DecimalRange = above_zero(None);

pub(crate) const FAN_OUT: IntegerRange = integers(1, 100_000);
pub(crate) const MIN_SAMPLES: IntegerRange = integers(1, 1_000_000);
pub(crate) const MAX_ATTEMPTS: IntegerRange = integers(2, 5);
pub(crate) const MAX_CONCURRENT: IntegerRange = integers(1, 100_000);
pub(crate) const AT_LEAST: IntegerRange = integers(1, 1000);
pub(crate) const HDFS_THREADS: IntegerRange = integers(1, 10_000);
pub(crate) const MAX_PER_SECOND: IntegerRange = integers(1, 100_000);

pub(crate) const MAX_TARGETS: usize = 16;
pub(crate) const MAX_OUTPUTS: usize = 32;
pub(crate) const MAX_SIGNALS: usize = 8;
pub(crate) const MAX_LABELS: usize = 16;
pub(crate) const MAX_EXPRESSIONS: usize = 8;
pub(crate) const MAX_EXPRESSION_VALUES: usize = 16;
pub(crate) const MAX_OUTCOMES: usize = 16;

/// `delay.max` where neither it nor a deadline is said.
pub(crate) const DELAY_MAX_UNSAID: Duration = Duration::from_secs(10);

impl DurationRange {
    pub(crate) fn contains(self, value: Duration) -> bool {
        parse_duration(self.min).is_ok_and(|min| min <= value)
            && parse_duration(self.max).is_ok_and(|max| value <= max)
    }

    pub(crate) fn message(self) -> String {
        format!("must be from {} to {}", self.min, self.max)
    }

    fn cel(self) -> String {
        format!(
            "duration(self) >= duration('{}') && duration(self) <= duration('{}')",
            self.min, self.max
        )
    }
}

impl ExpiryRange {
    pub(crate) fn contains(self, value: Option<Duration>) -> bool {
        value.is_none_or(|value| self.0.contains(value))
    }

    pub(crate) fn message(self) -> String {
        format!("{}, or never", self.0.message())
    }
}

impl DecimalRange {
    pub(crate) fn contains(self, value: f64) -> bool {
        parse_decimal(self.min).is_ok_and(|min| min < value || (self.from_min && min <= value))
            && self
                .max
                .is_none_or(|max| parse_decimal(max).is_ok_and(|max| value <= max))
    }

    pub(crate) fn message(self) -> String {
        match (self.from_min, self.max) {
            (true, Some(max)) => format!("must be from {} to {max}", self.min),
            (true, None) => format!("must be {} or more", self.min),
            (false, Some(max)) => format!("must be above {}, at most {max}", self.min),
            (false, None) => format!("must be above {}", self.min),
        }
    }

    fn cel(self) -> String {
        let double = |text: &str| format!("double('{text}')");
        let lower = format!(
            "double(self) {} {}",
            if self.from_min { ">=" } else { ">" },
            double(self.min)
        );
        match self.max {
            Some(max) => format!("{lower} && double(self) <= {}", double(max)),
            None => lower,
        }
    }
}

impl IntegerRange {
    pub(crate) fn contains(self, value: i32) -> bool {
        (self.min..=self.max).contains(&value)
    }

    pub(crate) fn message(self) -> String {
        format!("must be from {} to {}", self.min, self.max)
    }
}

/// The rule of a range says nothing about a text that is not well-formed: the text's own rule does.
fn rule_for<T: Text>(cel: &str, message: String) -> Rule {
    let unreadable = T::PATTERN.map_or_else(String::new, |pattern| {
        format!("!self.matches({}) || ", cel_string(pattern))
    });
    Rule::new(format!("{unreadable}({cel})")).message(message.as_str())
}

impl From<DurationRange> for Rule {
    fn from(range: DurationRange) -> Self {
        rule_for::<DurationText>(&range.cel(), range.message())
    }
}

impl From<ExpiryRange> for Rule {
    fn from(range: ExpiryRange) -> Self {
        rule_for::<Expiry>(
            &format!("self == 'never' || ({})", range.0.cel()),
            range.message(),
        )
    }
}

impl From<DecimalRange> for Rule {
    fn from(range: DecimalRange) -> Self {
        rule_for::<Decimal>(&range.cel(), range.message())
    }
}
