//! Lines of `key=value`, for clients that read Java's properties, and for any other.
//!
//! Source: the line format of
//! [`java.util.Properties.load`](https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/Properties.html#load(java.io.Reader)).

use std::fmt::{Display, Write};

use super::hedge::Hedge;
use super::place::Place;
use super::{Part, RenderError};
use crate::Terms;

/// What stands before each key.
///
/// The keys are those of the native document that are orders, with a point before what is nested: `enabled`, `reason`,
/// `deadlineMs`, `maxAttempts`, and when on `delayMs`, `minRemainingMs`, `budget.percent`, `budget.burst`,
/// `budget.minPerSecond` and `budget.maxConcurrent`. Times are whole milliseconds, rounded up. Off is `enabled=false`. There is
/// no time at which a document ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertiesPrefix {
    /// The prefix, to which a point is added where it has none at its end; `None` is none.
    pub prefix: Option<String>,
}

impl PropertiesPrefix {
    /// The prefix with its point.
    fn dotted(&self) -> String {
        match self.prefix.as_deref() {
            None | Some("") => String::new(),
            Some(prefix) if prefix.ends_with('.') => prefix.to_owned(),
            Some(prefix) => format!("{prefix}."),
        }
    }
}

impl Place for PropertiesPrefix {
    fn is_same(&self, other: &Self) -> bool {
        self.dotted() == other.dotted()
    }
}

pub(super) fn render(parts: &[Part<PropertiesPrefix>]) -> Result<String, RenderError> {
    let hedges = Hedge::of_all(parts)?;
    let mut blocks = Vec::new();
    for (at, (part, hedge)) in parts.iter().zip(hedges).enumerate() {
        if parts[..at]
            .iter()
            .all(|earlier| !earlier.place.is_same(&part.place))
        {
            blocks.push(block(part, hedge)?);
        }
    }
    Ok(blocks.join("\n"))
}

fn block(part: &Part<PropertiesPrefix>, hedge: Option<Hedge>) -> Result<String, RenderError> {
    let on = match (hedge, part.orders.hedging) {
        (Some(hedge), Some(hedging)) => {
            let terms = Terms::new(&hedging, &part.limits);
            Some((hedge, terms.map_err(|error| part.cannot(error.to_string()))?))
        }
        _ => None,
    };
    let mut lines = Lines {
        prefix: escaped(&part.place.dotted()),
        text: String::new(),
    };
    lines.push("enabled", on.is_some());
    lines.push("reason", part.orders.reason.as_str());
    if let Some((hedge, _)) = on {
        lines.push("delayMs", hedge.delay_ms);
    }
    if let Some(deadline) = part.limits.deadline_ms() {
        lines.push("deadlineMs", deadline);
    }
    if let Some((_, terms)) = on {
        lines.push("minRemainingMs", terms.min_remaining.as_micros().div_ceil(1000));
    }
    lines.push("maxAttempts", part.limits.max_attempts);
    if let Some((_, Terms { budget, .. })) = on {
        lines.push("budget.percent", budget.percent);
        lines.push("budget.burst", budget.burst);
        lines.push("budget.minPerSecond", budget.min_per_second);
        lines.push("budget.maxConcurrent", budget.max_concurrent);
    }
    Ok(lines.text)
}

struct Lines {
    prefix: String,
    text: String,
}

impl Lines {
    /// Adds a line. Keys and values are plain words and numbers; only a prefix needs care.
    fn push(&mut self, key: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{}{key}={value}", self.prefix);
    }
}

/// A key as `Properties.store` writes it: what would end it, begin a comment or be a blank stands after a backslash, and what
/// is not printable ASCII as UTF-16 in hexadecimal, for `load` may read Latin-1.
fn escaped(key: &str) -> String {
    let mut text = String::new();
    for c in key.chars() {
        match c {
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\u{c}' => text.push_str("\\f"),
            ' ' | '\\' | '=' | ':' | '#' | '!' => text.extend(['\\', c]),
            '!'..='~' => text.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
        }
    }
    text
}
