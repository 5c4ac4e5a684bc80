//! What one look at the evidence says.

use crate::wilson;

/// What one look says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look<N> {
    pub(super) outcome: Outcome,
    /// The numbers, put into words only when they are told: most looks show nothing.
    pub(super) numbers: N,
}

/// Whether the evidence is beyond the line that a diagnosis draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Surely.
    Shown,
    /// Chance alone would do.
    Unclear,
    /// It is surely not: what was shown ends with nothing less, so that a share near the line does not come and go.
    Refuted,
}

impl Outcome {
    /// Whether the share behind `successes` of `trials` is above `line`.
    pub(super) fn above(successes: f64, trials: f64, line: f64) -> Self {
        if wilson::lower(successes, trials) > line {
            Self::Shown
        } else if wilson::upper(successes, trials) < line {
            Self::Refuted
        } else {
            Self::Unclear
        }
    }

    /// Whether the share behind `successes` of `trials` is under `line`.
    pub(super) fn under(successes: f64, trials: f64, line: f64) -> Self {
        match Self::above(successes, trials, line) {
            Self::Shown => Self::Refuted,
            Self::Refuted => Self::Shown,
            Self::Unclear => Self::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome;

    #[test]
    fn shown_and_refuted_are_more_than_seen() {
        // The 99 % bounds of 30 of 100 are 20.6 % and 41.5 %.
        let above = |line| Outcome::above(30.0, 100.0, line);
        let outcomes = [
            Outcome::Shown,
            Outcome::Unclear,
            Outcome::Unclear,
            Outcome::Refuted,
        ];
        assert_eq!([0.2, 0.21, 0.41, 0.42].map(above), outcomes);
        let under = |line| Outcome::under(30.0, 100.0, line);
        assert_eq!([0.42, 0.41, 0.21, 0.2].map(under), outcomes);
    }
}
