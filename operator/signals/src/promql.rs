//! The text of queries. Nothing that a policy says reaches a query but through the quoting here.

use std::fmt::Write as _;
use std::time::Duration;

use crate::{Operator, Requirement};

/// A PromQL string literal that means exactly `value`.
pub(crate) fn quoted(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 2);
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            // Prometheus takes the last one for bytes that are no text.
            c if c.is_control() || c == char::REPLACEMENT_CHARACTER => {
                // Writing to a String does not fail.
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// A regular expression (RE2) that matches exactly `value`.
fn regex_quoted(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(
            c,
            '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$'
        ) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// A string literal with a regular expression that matches exactly the `values`; Prometheus anchors it at both ends.
fn any_of<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    let alternatives: Vec<_> = values.into_iter().map(regex_quoted).collect();
    quoted(&alternatives.join("|"))
}

/// The matcher for a label that has one of the `values`.
pub(crate) fn is_one_of(label: &str, values: &[&str]) -> String {
    match values {
        [value] => format!("{label}={}", quoted(value)),
        values => format!("{label}=~{}", any_of(values.iter().copied())),
    }
}

/// The matcher for a requirement. No value at all is none of them: `In` then matches nothing, `NotIn` everything.
pub(crate) fn requirement(requirement: &Requirement) -> String {
    let key = &requirement.key;
    let values: Vec<_> = requirement.values.iter().map(String::as_str).collect();
    match (requirement.operator, values.as_slice()) {
        (Operator::Exists, _) => format!("{key}!=\"\""),
        // A value that matches nothing: a class without characters.
        (Operator::In, []) => format!("{key}=~\"[^\\\\s\\\\S]\""),
        (Operator::In, values) => is_one_of(key, values),
        (Operator::NotIn, []) => format!("{key}=~\".*\""),
        (Operator::NotIn, [value]) => format!("{key}!={}", quoted(value)),
        (Operator::NotIn, values) => format!("{key}!~{}", any_of(values.iter().copied())),
    }
}

/// An instant selector.
pub(crate) fn selector(metric: &str, matchers: &[String]) -> String {
    if matchers.is_empty() {
        metric.to_owned()
    } else {
        format!("{metric}{{{}}}", matchers.join(","))
    }
}

/// A duration as PromQL writes it: the largest unit that divides it, `90s`, `10m`, `1500ms`. At least 1 ms.
pub(crate) fn duration(duration: Duration) -> String {
    let millis = duration.as_millis().max(1);
    [(3_600_000, "h"), (60_000, "m"), (1_000, "s")]
        .into_iter()
        .find(|(unit, _)| millis.is_multiple_of(*unit))
        .map_or_else(
            || format!("{millis}ms"),
            |(unit, name)| format!("{}{name}", millis / unit),
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_cannot_break_out_of_its_string() {
        for (value, literal) in [
            ("kb", r#""kb""#),
            ("", r#""""#),
            (r#"a"} or vector(1) #"#, r#""a\"} or vector(1) #""#),
            (r"a\", r#""a\\""#),
            ("a\nb", r#""a\nb""#),
            ("a\r\tb\0", r#""a\r\tb\u0000""#),
            ("ü→🦔", r#""ü→🦔""#),
            ("a\u{fffd}", r#""a\ufffd""#),
            (".*", r#"".*""#),
        ] {
            assert_eq!(quoted(value), literal);
        }
    }

    #[test]
    fn a_value_cannot_become_a_pattern() {
        assert_eq!(is_one_of("l", &[".*"]), r#"l=".*""#);
        assert_eq!(is_one_of("l", &[".*", "b"]), r#"l=~"\\.\\*|b""#);
        assert_eq!(is_one_of("l", &["a|b", "c"]), r#"l=~"a\\|b|c""#);
        assert_eq!(is_one_of("l", &["", "c"]), r#"l=~"|c""#);
        assert_eq!(
            is_one_of("l", &[r#"x"}"#, r"\d", "a\nb"]),
            r#"l=~"x\"\\}|\\\\d|a\nb""#
        );
    }

    #[test]
    fn requirements_say_what_they_mean() {
        let text = |operator, values: &[&str]| {
            requirement(&Requirement {
                key: "code".into(),
                operator,
                values: values.iter().map(|&v| v.to_owned()).collect(),
            })
        };
        assert_eq!(text(Operator::Exists, &[]), r#"code!="""#);
        assert_eq!(text(Operator::In, &["200"]), r#"code="200""#);
        assert_eq!(text(Operator::In, &["200", "2.."]), r#"code=~"200|2\\.\\.""#);
        assert_eq!(text(Operator::NotIn, &["500"]), r#"code!="500""#);
        assert_eq!(text(Operator::NotIn, &["500", "503"]), r#"code!~"500|503""#);
        assert_eq!(text(Operator::In, &[]), r#"code=~"[^\\s\\S]""#);
        assert_eq!(text(Operator::NotIn, &[]), r#"code=~".*""#);
    }

    #[test]
    fn durations_are_written_in_their_largest_unit() {
        for (millis, text) in [
            (600_000, "10m"),
            (90_000, "90s"),
            (7_200_000, "2h"),
            (1_500, "1500ms"),
            (0, "1ms"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    proptest! {
        /// Read back as Go reads a string literal, a literal means its value, and it ends where it should.
        #[test]
        fn a_literal_reads_back_as_its_value(value in any::<String>()) {
            let literal = quoted(&value);
            let inner = &literal[1..literal.len() - 1];
            let mut read = String::new();
            let mut chars = inner.chars();
            while let Some(c) = chars.next() {
                prop_assert!(c != '"' && c != '\n');
                if c != '\\' {
                    read.push(c);
                    continue;
                }
                match chars.next().unwrap() {
                    'n' => read.push('\n'),
                    'r' => read.push('\r'),
                    't' => read.push('\t'),
                    'u' => {
                        let hex: String = chars.by_ref().take(4).collect();
                        read.push(char::from_u32(u32::from_str_radix(&hex, 16).unwrap()).unwrap());
                    }
                    other => read.push(other),
                }
            }
            prop_assert_eq!(read, value);
        }
    }
}
