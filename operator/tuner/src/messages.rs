//! Numbers as people read them.

use std::time::Duration;

/// A duration as policies write it: `10m`, `1h30m`, `2m5s`, `250ms`.
pub(crate) fn duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 {
        return if millis == 0 {
            "0s".to_owned()
        } else {
            format!("{millis}ms")
        };
    }
    let parts = [
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    parts
        .iter()
        .filter(|&&(amount, _)| amount > 0)
        .map(|(amount, unit)| format!("{amount}{unit}"))
        .collect()
}

/// Seconds as milliseconds: `512 ms`, `1.5 ms`.
pub(crate) fn milliseconds(seconds: f64) -> String {
    format!("{} ms", number(seconds * 1e3))
}

/// A number with as many digits as it deserves, as messages, status and tables write it: none after the point from 100 on,
/// one from 10 on, two from 1 on, at most four under 1; no trailing zeros. What nobody could count by its power of ten:
/// `1.8e308`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size.is_finite() && size >= 1e15 {
        return format!("{value:.1e}");
    }
    if size.is_finite() && value.fract().abs() <= 0.0 {
        // Most are whole, and a whole number is written many times faster than a fraction.
        return format!("{}", value as i64);
    }
    let digits = match size {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    if digits == 0 {
        text
    } else {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A share as a percentage: `8 %`.
pub(crate) fn share(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// The name of a quantile: `p95`, `p99.9`.
pub(crate) fn percentile(quantile: f64) -> String {
    format!("p{}", number(quantile * 100.0))
}

#[cfg(test)]
mod tests {
    use super::{duration, milliseconds, number, percentile, share};
    use std::time::Duration;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(duration(Duration::from_secs(600)), "10m");
        assert_eq!(duration(Duration::from_secs(3725)), "1h2m5s");
        assert_eq!(duration(Duration::from_millis(250)), "250ms");
        assert_eq!(milliseconds(0.5123), "512 ms");
        assert_eq!(milliseconds(0.0015), "1.5 ms");
        assert_eq!([number(61.0), number(0.012), number(0.0)], ["61", "0.012", "0"]);
        assert_eq!([number(f64::MAX), number(-2e15)], ["1.8e308", "-2.0e15"]);
        assert_eq!(share(0.08), "8 %");
        assert_eq!([percentile(0.95), percentile(0.999)], ["p95", "p99.9"]);
    }
}
