//! Durations as the JSON of protocol buffers has them: seconds with up to nine digits after the point, and an `s`.

/// Writes milliseconds, with three digits where they are needed.
pub(super) fn write(ms: u64) -> String {
    match (ms / 1000, ms % 1000) {
        (secs, 0) => format!("{secs}s"),
        (secs, ms) => format!("{secs}.{ms:03}s"),
    }
}

/// Reads milliseconds, and cuts off what is below.
pub(super) fn parse(text: &str) -> Option<u64> {
    let number = text.strip_suffix('s')?;
    let (secs, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if secs.is_empty() || secs.len() > 12 || fraction.len() > 9 || !digits(secs) || !digits(fraction) {
        return None;
    }
    let millis: u64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    Some(secs.parse::<u64>().ok()? * 1000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_they_are_written() {
        for (ms, text) in [
            (0, "0s"),
            (1, "0.001s"),
            (512, "0.512s"),
            (1000, "1s"),
            (3_600_050, "3600.050s"),
        ] {
            assert_eq!(write(ms), text);
            assert_eq!(parse(text), Some(ms));
        }
        for (text, ms) in [
            ("0.9s", 900),
            ("1.000999999s", 1000),
            ("007s", 7000),
            ("0.0009s", 0),
        ] {
            assert_eq!(parse(text), Some(ms), "{text}");
        }
        for bad in [
            "",
            "s",
            "1",
            "1ms",
            "-1s",
            "1.s1",
            ".5s",
            "1.0000000001s",
            "9999999999999s",
            "1e3s",
            " 1s",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
