//! Durations as strings.

use std::time::Duration;

/// The grammar of a duration.
pub(super) const PATTERN: &str = r"^([0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m|h))+$";
/// The longest text of a duration. With the pattern it keeps every duration below what 64 bits of nanoseconds hold.
pub(super) const MAX_LENGTH: usize = 16;

/// A text that is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a duration: numbers with ms, s, m or h, such as 500ms, 30s or 1m30s")]
pub struct NotADuration;

/// Reads a duration such as `500ms`, `30s` or `1m30s`: numbers of up to 6 digits, and up to 3 after a point, each followed by
/// `ms`, `s`, `m` or `h`; at most 16 characters. Exact: no step goes through floating point.
///
/// # Errors
/// When the text is anything else: no unit, a sign, a space, another unit.
pub fn parse_duration(text: &str) -> Result<Duration, NotADuration> {
    if text.is_empty() || text.len() > MAX_LENGTH {
        return Err(NotADuration);
    }
    let mut nanos: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (part, after) = read_part(rest).ok_or(NotADuration)?;
        nanos = nanos.checked_add(part).ok_or(NotADuration)?;
        rest = after;
    }
    Ok(Duration::from_nanos(nanos))
}

/// One number with its unit, in nanoseconds, and what follows it.
fn read_part(text: &str) -> Option<(u64, &str)> {
    let (whole, rest) = split_digits(text, 6)?;
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest, 3)?,
        None => ("", rest),
    };
    let (nanos_per_thousandth, rest) = UNITS
        .iter()
        .find_map(|(unit, nanos)| Some((nanos, rest.strip_prefix(unit)?)))?;
    // `fraction` padded to three digits: ".5" is 500 thousandths.
    let thousandths: u64 = format!("{whole}{fraction:0<3}").parse().ok()?;
    Some((thousandths.checked_mul(*nanos_per_thousandth)?, rest))
}

/// The units and a thousandth of each in nanoseconds. `ms` stands before `m`, which it starts with.
const UNITS: [(&str, u64); 4] = [
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
];

/// The digits that `text` starts with, if there are 1 to `at_most`, and what follows them.
fn split_digits(text: &str, at_most: usize) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (1..=at_most).contains(&end).then(|| text.split_at(end))
}
