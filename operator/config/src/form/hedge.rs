//! Orders as systems of other makers can be told them.

use hedgerow_tuner::Reason;

use super::place::Place;
use super::{Part, RenderError};
use crate::Limits;

/// The longest delay that a policy may order, in milliseconds.
const LONGEST_MS: f64 = 3_600_000.0;

/// How to hedge, checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hedge {
    /// The delay in whole milliseconds, rounded up: 1 to 3,600,000.
    ///
    /// Envoy, Kitex, Node and .NET keep timers in whole milliseconds and cut off what is below, which would hedge earlier
    /// than ordered, and at once under 1 ms.
    pub(super) delay_ms: u32,
    /// Hedges per call at most, the primary not included: 1 to 4.
    pub(super) hedges: u32,
    /// Hedges per 100 calls, in `(0, 100]`.
    pub(super) percent: f64,
}

impl Hedge {
    /// What a part orders; `None` is off, and so is what hedges for a reason to be off.
    pub(super) fn of<P>(part: &Part<P>) -> Result<Option<Self>, RenderError> {
        let Some(hedging) = part.orders.hedging else {
            return Ok(None);
        };
        if !matches!(part.orders.reason, Reason::Tuned | Reason::Ramping) {
            return Ok(None);
        }
        let delay_ms = hedging.delay_ms;
        if !(delay_ms > 0.0 && delay_ms <= LONGEST_MS) {
            return Err(part.cannot(format!(
                "a delay of {delay_ms} ms is not above 0 and at most an hour"
            )));
        }
        if !(hedging.percent > 0.0 && hedging.percent <= 100.0) {
            return Err(part.cannot(format!(
                "a budget of {} % is not above 0 and at most 100",
                hedging.percent
            )));
        }
        let attempts = part.limits.max_attempts;
        if !(2..=5).contains(&attempts) {
            return Err(part.cannot(format!("maxAttempts is {attempts}, but must be 2 to 5")));
        }
        Ok(Some(Self {
            delay_ms: delay_ms.ceil() as u32,
            hedges: u32::from(attempts) - 1,
            percent: hedging.percent,
        }))
    }

    /// What each part orders. Two parts in one place, of which one hedges, would overwrite each other.
    pub(super) fn of_all<P: Place>(parts: &[Part<P>]) -> Result<Vec<Option<Self>>, RenderError> {
        let hedges = parts.iter().map(Self::of).collect::<Result<Vec<_>, _>>()?;
        for (at, part) in parts.iter().enumerate() {
            let earlier = parts[..at]
                .iter()
                .position(|earlier| earlier.place.is_same(&part.place));
            if let Some(earlier) = earlier
                && (hedges[earlier].is_some() || hedges[at].is_some())
            {
                return Err(part.cannot(format!(
                    "the target {} has the same place in the document: publish one of the two",
                    parts[earlier].target
                )));
            }
        }
        Ok(hedges)
    }
}

impl<P> Part<P> {
    /// The error that says what the system cannot be told.
    pub(super) fn cannot(&self, problem: impl Into<String>) -> RenderError {
        RenderError::Orders {
            target: self.target.clone(),
            problem: problem.into(),
        }
    }
}

impl Limits {
    /// The deadline in whole milliseconds, rounded up; `None` where there is none.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        let ms = self.deadline?.as_nanos().div_ceil(1_000_000);
        u64::try_from(ms).ok().filter(|ms| *ms > 0)
    }
}
