//! Why a call gave no answer, and why an attempt was not sent.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use thiserror::Error;

use crate::Kind;

/// Why a call gave no valid answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError<E> {
    /// No attempt gave a valid answer before the deadline.
    DeadlineExceeded {
        /// What attempts had returned by then; those that had not are left out.
        returned: Vec<Returned<E>>,
    },
    /// Every attempt returned something, and nothing of it was valid.
    NoValidAnswer {
        /// What each attempt returned, in the order of their returns.
        returned: Vec<Returned<E>>,
    },
    /// The call was to be sent again, without an attempt that was paid for (see [`Call::retry`](crate::Call::retry)).
    Refused(Blocked),
}

impl<E> CallError<E> {
    /// What each attempt returned, in the order of their returns.
    pub fn returned(&self) -> &[Returned<E>] {
        match self {
            Self::DeadlineExceeded { returned } | Self::NoValidAnswer { returned } => returned,
            Self::Refused(_) => &[],
        }
    }

    /// Whether the deadline ended the call.
    pub fn is_deadline(&self) -> bool {
        matches!(self, Self::DeadlineExceeded { .. })
    }
}

impl<E: Display> Display for CallError<E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DeadlineExceeded { .. } => "no valid answer before the deadline",
            Self::NoValidAnswer { .. } => "no attempt gave a valid answer",
            Self::Refused(blocked) => return write!(f, "not sent again: {blocked}"),
        })?;
        for (place, returned) in self.returned().iter().enumerate() {
            let before = if place == 0 { ": " } else { "; " };
            let Returned {
                number,
                after,
                problem,
                ..
            } = returned;
            write!(f, "{before}attempt {number} after {after:?}: {problem}")?;
        }
        Ok(())
    }
}

impl<E> From<DeadlineExceeded> for CallError<E> {
    fn from(_: DeadlineExceeded) -> Self {
        Self::DeadlineExceeded { returned: Vec::new() }
    }
}

/// The deadline passed before the call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no answer before the deadline")]
pub struct DeadlineExceeded;

/// What one attempt returned that was no valid answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned<E> {
    /// The attempt's number: 0 for the primary.
    pub number: usize,
    /// What kind of attempt it was.
    pub kind: Kind,
    /// How long it took, from its sending.
    pub after: Duration,
    /// What it was.
    pub problem: Problem<E>,
}

/// Why what an attempt returned is no valid answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem<E> {
    /// The attempt failed.
    Failed(E),
    /// It answered, and the caller's check found the answer invalid.
    Invalid(Invalid),
}

impl<E: Display> Display for Problem<E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "{error}"),
            Self::Invalid(invalid) => write!(f, "{invalid}"),
        }
    }
}

/// Why an answer is invalid, in the words of the caller's check: `503 Service Unavailable`, `version 40`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Invalid(Cow<'static, str>);

impl From<&'static str> for Invalid {
    fn from(why: &'static str) -> Self {
        Self(Cow::Borrowed(why))
    }
}

impl From<String> for Invalid {
    fn from(why: String) -> Self {
        Self(Cow::Owned(why))
    }
}

/// Why a hedge or a retry was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Blocked {
    /// The token bucket is empty.
    #[error("the budget is spent")]
    Budget,
    /// `maxConcurrent` hedges of this process are in flight.
    #[error("as many hedges as may be are in flight")]
    Concurrency,
    /// Less than `minRemainingMs` of the deadline is left.
    #[error("too little of the deadline is left")]
    Deadline,
    /// Every replica has an attempt of this call.
    #[error("there is no further replica")]
    Replicas,
    /// The call has had `maxAttempts` attempts, retries included.
    #[error("the call has had all its attempts")]
    Attempts,
    /// Hedging is off, or was turned off after the call began.
    #[error("hedging is off")]
    Off,
    /// The document expired after the call began.
    #[error("the document has expired")]
    Expired,
}

impl Blocked {
    pub(crate) const ALL: [Self; 7] = [
        Self::Budget,
        Self::Concurrency,
        Self::Deadline,
        Self::Replicas,
        Self::Attempts,
        Self::Off,
        Self::Expired,
    ];

    /// As the metrics say it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Concurrency => "concurrency",
            Self::Deadline => "deadline",
            Self::Replicas => "replicas",
            Self::Attempts => "attempts",
            Self::Off => "off",
            Self::Expired => "expired",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_each_attempt_returned() {
        let returned = |number, millis, problem| Returned {
            number,
            kind: Kind::Hedge,
            after: Duration::from_millis(millis),
            problem,
        };
        let error = CallError::NoValidAnswer {
            returned: vec![
                returned(0, 10, Problem::Failed("refused")),
                returned(2, 70, Problem::Invalid("version 40".into())),
            ],
        };
        assert_eq!(
            error.to_string(),
            "no attempt gave a valid answer: attempt 0 after 10ms: refused; attempt 2 after 70ms: version 40"
        );
        assert_eq!(
            CallError::<&str>::from(DeadlineExceeded).to_string(),
            "no valid answer before the deadline"
        );
    }
}
