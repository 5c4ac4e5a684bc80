//! Why a request gave no answer.

use std::time::Duration;

use hedgerow_tuner::{Unknown, UnknownReason};

/// The most that is repeated of a source's own error text, in characters.
const LONGEST_QUOTE: usize = 200;

/// Why a request gave no answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    /// The bounded name.
    pub(crate) reason: UnknownReason,
    /// What came back and what to do. Never a body.
    pub(crate) message: String,
    /// How long the source asks us to wait.
    pub(crate) retry_after: Option<Duration>,
    /// Whether the source does not have what was called (status 404).
    pub(crate) not_there: bool,
}

impl Failure {
    pub(crate) fn new(reason: UnknownReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            retry_after: None,
            not_there: false,
        }
    }

    /// Whether it may be the fault of one of the label sets asked for, so that halving the batch finds it.
    pub(crate) fn may_be_one_culprit(&self) -> bool {
        matches!(
            self.reason,
            UnknownReason::QueryInvalid
                | UnknownReason::ResponseTooLarge
                | UnknownReason::PartialResponse
                | UnknownReason::MixedBuckets
                | UnknownReason::NotAHistogram
        )
    }

    /// Whether asking the same again soon is a waste.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(
            self.reason,
            UnknownReason::QueryInvalid | UnknownReason::ResponseTooLarge
        )
    }

    /// Whether it says that the source itself is not well, whatever it is asked.
    pub(crate) fn concerns_source(&self) -> bool {
        matches!(
            self.reason,
            UnknownReason::Unauthorized
                | UnknownReason::BadResponse
                | UnknownReason::BackendCannotQuery
                | UnknownReason::Throttled
                | UnknownReason::Unavailable
                | UnknownReason::Timeout
        )
    }

    /// The reading for `asked`.
    pub(crate) fn reading(&self, asked: &str) -> Unknown {
        Unknown::new(self.reason, format!("{asked}: {}", self.message))
    }
}

/// The beginning of a source's own error text, on one line.
pub(crate) fn quote(text: &str) -> String {
    let mut quote = String::new();
    for (length, c) in text.trim().chars().enumerate() {
        if length == LONGEST_QUOTE {
            quote.push('…');
            break;
        }
        quote.push(if c.is_control() { ' ' } else { c });
    }
    quote
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_two_hundred_characters_are_quoted() {
        let quoted = quote(&"ü".repeat(500));
        assert_eq!(quoted.chars().count(), 201);
        assert_eq!(quote("  a\nb "), "a b");
    }
}
