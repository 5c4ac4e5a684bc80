//! What one look at the evidence says.

use crate::wilson;

/// What one look says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Look {
    pub(super) outcome: Outcome,
    /// The numbers, for people.
    pub(super) numbers: String,
}

/// Whether the evidence is beyond the line that a diagnosis draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Surely.
    Shown,
    /// It seems so, and chance would do.
    Unclear,
    /// It does not seem so.
    Refuted,
}

impl Outcome {
    /// Whether the share behind `successes` of `trials` is above `line`.
    pub(super) fn above(successes: f64, trials: f64, line: f64) -> Self {
        if wilson::lower(successes, trials) > line {
            Self::Shown
        } else if successes > line * trials {
            Self::Unclear
        } else {
            Self::Refuted
        }
    }

    /// Whether the share behind `successes` of `trials` is under `line`.
    pub(super) fn under(successes: f64, trials: f64, line: f64) -> Self {
        if wilson::upper(successes, trials) < line {
            Self::Shown
        } else if successes < line * trials {
            Self::Unclear
        } else {
            Self::Refuted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome;

    #[test]
    fn shown_is_more_than_seen() {
        // The 99 % bounds of 30 of 100 are 20.6 % and 41.5 %.
        let above = |line| Outcome::above(30.0, 100.0, line);
        assert_eq!(
            (above(0.2), above(0.21), above(0.3)),
            (Outcome::Shown, Outcome::Unclear, Outcome::Refuted)
        );
        let under = |line| Outcome::under(30.0, 100.0, line);
        assert_eq!(
            (under(0.42), under(0.41), under(0.3)),
            (Outcome::Shown, Outcome::Unclear, Outcome::Refuted)
        );
    }
}
