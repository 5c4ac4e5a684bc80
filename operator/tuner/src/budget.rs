//! The budget that is published, when clients spend more than they are told.

use serde::{Deserialize, Serialize};

use crate::counted::Measurement;

/// Not less than this part of the budget is published.
const LEAST: f64 = 0.25;
/// A clean measurement gives back this part of it.
const BACK: f64 = 0.1;
/// Hedges beyond the budget by this factor, as a logarithm, are no chance and no saved tokens ...
const MARGIN: f64 = 0.25;
/// ... nor beyond it by so many standard deviations of their number.
const DEVIATIONS: f64 = 2.0;

/// The part of the budget that is published, in `[0.25, 1]`, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
pub(crate) struct BackOff(f64);

impl BackOff {
    /// The part, in `[0.25, 1]`.
    pub(crate) const fn part(self) -> f64 {
        self.0
    }

    /// Whether all of the budget is published.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_none(&self) -> bool {
        self.0 >= 1.0
    }

    /// After clients were seen to spend under a document that `allowed` this share of calls to be hedged: this part of the
    /// budget.
    ///
    /// Clients that spend `r` times what they are told are told `B / r`: `B_pub = B_pub x B / observed`. They then spend more
    /// than they are told, and no more than the budget, and that is left alone: cut again for chance, it would only ever
    /// fall. A measurement within what was allowed gives back, if it `may_rise`, a tenth of the budget.
    pub(crate) fn after(self, measured: &Measurement, allowed: f64, may_rise: bool) -> Self {
        let observed = measured.hedges / measured.calls;
        let budget = allowed / self.0;
        let margin = MARGIN.max(DEVIATIONS / measured.hedges.sqrt());
        if allowed <= 0.0 || !observed.is_finite() {
            self
        } else if (observed / budget).ln() > margin {
            Self::from(self.0 * budget / observed)
        } else if observed <= allowed && may_rise {
            Self::from(self.0 + BACK)
        } else {
            self
        }
    }
}

impl Default for BackOff {
    fn default() -> Self {
        Self(1.0)
    }
}

impl From<f64> for BackOff {
    /// Rounded down to thousandths. What cannot be is the nearest that can; what is no number, the least.
    fn from(part: f64) -> Self {
        Self(((part * 1e3 + 1e-6).floor() / 1e3).clamp(LEAST, 1.0).max(LEAST))
    }
}

impl From<BackOff> for f64 {
    fn from(back_off: BackOff) -> Self {
        back_off.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::BackOff;
    use crate::Timestamp;
    use crate::counted::Measurement;

    fn measured(hedges: f64) -> Measurement {
        Measurement {
            at: Timestamp::default(),
            window: Duration::ZERO,
            calls: 10_000.0,
            hedges,
            blocked: Some(0.0),
        }
    }

    #[test]
    fn clients_that_spend_more_are_told_less() {
        // Told 10 %, 20 % observed: half of it. Then told 5 %, 10 % observed: it stays at half of it.
        let half = BackOff::default().after(&measured(2000.0), 0.1, true);
        assert!((half.part() - 0.5).abs() < 1e-9, "{half:?}");
        assert_eq!(half.after(&measured(1000.0), 0.05, true), half);
        // In the ramp, told 2.5 % and 5 % observed: half as well.
        assert_eq!(BackOff::default().after(&measured(500.0), 0.025, false), half);
        // Ten times as much: not less than a quarter.
        assert!((BackOff::default().after(&measured(9000.0), 0.01, true).part() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn a_spending_within_the_budget_and_over_what_was_told_changes_nothing() {
        // Told 5 % of 10 %: 6, 8 and 12 % observed. B_pub x B / observed would be 8.3, 6.25 and 4.2 %.
        let half = BackOff::from(0.5);
        for hedges in [600.0, 800.0, 1200.0] {
            assert_eq!(half.after(&measured(hedges), 0.05, true), half);
        }
    }

    #[test]
    fn a_tenth_comes_back_with_each_clean_measurement() {
        let mut back_off = BackOff::from(0.75);
        for part in [0.85, 0.95, 1.0, 1.0] {
            back_off = back_off.after(&measured(500.0), 0.05, true);
            assert!((back_off.part() - part).abs() < 1e-9, "{back_off:?}");
        }
        let held = BackOff::from(0.75).after(&measured(500.0), 0.05, false);
        assert!((held.part() - 0.75).abs() < 1e-9, "{held:?}");
    }

    #[test]
    fn saved_tokens_and_chance_are_no_overspending() {
        // e^0.25 = 1.284: 12.8 % are within the margin of 10 %, 12.9 % are not.
        assert!(BackOff::default().after(&measured(1280.0), 0.1, true).is_none());
        assert!(!BackOff::default().after(&measured(1290.0), 0.1, true).is_none());
        // 16 hedges where 10 were told: ln 1.6 = 0.47 is under 2 / sqrt(16) = 0.5.
        assert!(BackOff::default().after(&measured(16.0), 0.001, true).is_none());
        assert!(!BackOff::default().after(&measured(18.0), 0.001, true).is_none());
    }

    #[test]
    fn what_is_stored_is_never_above_the_budget_nor_under_a_quarter() {
        for (stored, part) in [
            (7.0, 1.0),
            (-3.0, 0.25),
            (0.0, 0.25),
            (f64::NAN, 0.25),
            (f64::INFINITY, 1.0),
            (f64::NEG_INFINITY, 0.25),
            (0.6, 0.6),
        ] {
            assert!((BackOff::from(stored).part() - part).abs() < 1e-9, "{stored}");
        }
    }
}
