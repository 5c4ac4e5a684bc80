//! Times as .NET writes them.

use std::fmt;

/// A `TimeSpan`: ticks of 100 ns, below zero too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimeSpan(i64);

const TICKS_PER_MS: i64 = 10_000;
const TICKS_PER_SECOND: i64 = 1000 * TICKS_PER_MS;

impl TimeSpan {
    pub(super) const ZERO: Self = Self::from_millis(0);

    pub(super) const fn from_millis(ms: u32) -> Self {
        Self(ms as i64 * TICKS_PER_MS)
    }

    pub(super) const fn times(self, factor: u32) -> Self {
        Self(self.0.saturating_mul(factor as i64))
    }

    /// Reads what `TimeSpan.Parse` does: `d`, `[d.]hh:mm[:ss[.fffffff]]` or `d:hh:mm:ss[.fffffff]`, with a sign.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
        let fields: Vec<&str> = text.split(':').collect();
        let (days, hours, minutes, seconds) = match *fields.as_slice() {
            [days] => (days, "0", "0", "0"),
            [hours, minutes] => with_days(hours, minutes, "0"),
            [hours, minutes, seconds] => with_days(hours, minutes, seconds),
            [days, hours, minutes, seconds] => (days, hours, minutes, seconds),
            _ => return None,
        };
        let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
        if fraction.len() > 7 {
            return None;
        }
        let days = number(days, 10_000_000)?;
        let hours = days * 24 + number(hours, 23)?;
        let minutes = hours * 60 + number(minutes, 59)?;
        let seconds = minutes * 60 + number(seconds, 59)?;
        let ticks = number(&format!("{fraction:0<7}"), TICKS_PER_SECOND)?;
        (!fraction.is_empty()).then(|| Self(sign * (seconds * TICKS_PER_SECOND + ticks)))
    }
}

impl fmt::Display for TimeSpan {
    /// `[-][d.]hh:mm:ss[.fffffff]`, .NET's own constant format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ticks) = (self.0.abs() / TICKS_PER_SECOND, self.0.abs() % TICKS_PER_SECOND);
        let (minutes, hours) = (seconds / 60, seconds / 3600);
        if self.0 < 0 {
            f.write_str("-")?;
        }
        if hours >= 24 {
            write!(f, "{}.", hours / 24)?;
        }
        write!(f, "{:02}:{:02}:{:02}", hours % 24, minutes % 60, seconds % 60)?;
        if ticks > 0 {
            write!(f, ".{ticks:07}")?;
        }
        Ok(())
    }
}

fn with_days<'a>(hours: &'a str, minutes: &'a str, seconds: &'a str) -> (&'a str, &'a str, &'a str, &'a str) {
    let (days, hours) = hours.split_once('.').unwrap_or(("0", hours));
    (days, hours, minutes, seconds)
}

fn number(digits: &str, most: i64) -> Option<i64> {
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| all_digits && *number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from the table of `TimeSpan.Parse` in .NET's documentation, and by hand.
    #[test]
    fn times_are_read_as_dotnet_reads_them() {
        for (text, ticks) in [
            ("0", 0),
            ("14", 14 * 864_000_000_000),
            ("1:2:3", 37_230_000_000),
            ("0:0:0.250", 2_500_000),
            ("10.20:30:40.50", 9_378_405_000_000),
            ("99.23:59:59.9999999", 86_399_999_999_999),
            ("00:00:01", 10_000_000),
            ("01:30", 54_000_000_000),
            ("-00:00:00.0010000", -10_000),
            ("1:00:00:00", 864_000_000_000),
        ] {
            assert_eq!(TimeSpan::parse(text), Some(TimeSpan(ticks)), "{text}");
        }
        for bad in [
            "",
            "-",
            "1s",
            "0.5",
            "24:00",
            "00:60",
            "00:00:60",
            "00:00:00.",
            "00:00:00.12345678",
            "1:2:3:4:5",
            "--1",
            "+1",
            "0023:0059:0059x",
            "99999999999999999999",
        ] {
            assert_eq!(TimeSpan::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn times_are_written_in_the_constant_format() {
        for (ms, text) in [
            (512, "00:00:00.5120000"),
            (1000, "00:00:01"),
            (3_600_000, "01:00:00"),
            (86_400_000, "1.00:00:00"),
            (90_061_001, "1.01:01:01.0010000"),
        ] {
            assert_eq!(TimeSpan::from_millis(ms).to_string(), text);
            assert_eq!(TimeSpan::parse(text), Some(TimeSpan::from_millis(ms)));
        }
        assert_eq!(TimeSpan(-10_000).to_string(), "-00:00:00.0010000");
    }
}
