//! Attempts that were cut short.

use crate::Histogram;
use crate::interpolation::Layout;
use crate::survival::{Survival, finite_bounds};

/// At risk below this share of all is a rounding error: increases are no whole numbers.
const NOBODY: f64 = 1e-9;

impl Survival {
    /// The survival of attempts of which some were `cancelled`, each after it had run for so long: Kaplan and Meier's product
    /// of the shares that survive each bucket, where those cut short within it count by half (the actuarial estimate).
    ///
    /// To drop them would make the delay spiral down: attempts past it are what hedging cuts short. An attempt that timed out
    /// stays at risk throughout. Where all that are left were cut short the estimate ends: what lies beyond is not known.
    pub(crate) fn censored(
        answered: Option<&Histogram>,
        cancelled: &Histogram,
        timeouts: f64,
        deadline: Option<f64>,
    ) -> Self {
        let bounds = union(answered.map_or(&[], Histogram::buckets), cancelled.buckets());
        let attempts = answered.map_or(0.0, Histogram::count) + cancelled.count() + timeouts;
        let mut at_risk = Vec::with_capacity(bounds.len());
        let mut knots = Vec::with_capacity(bounds.len());
        let (mut survival, mut left) = (1.0, attempts);
        let (mut answered_before, mut cancelled_before) = (0.0, 0.0);
        for &bound in bounds.iter().filter(|bound| bound.is_finite()) {
            let answered_by = answered.map_or(0.0, |answered| answered.calls_within(bound));
            let cancelled_by = cancelled.calls_within(bound);
            let (answers, cancels) = (answered_by - answered_before, cancelled_by - cancelled_before);
            let exposed = left - cancels / 2.0;
            left -= answers + cancels;
            let somebody_left = left > NOBODY * attempts;
            if answers <= 0.0 && !somebody_left {
                break;
            }
            if exposed > 0.0 {
                survival *= (1.0 - answers / exposed).clamp(0.0, 1.0);
            }
            knots.push((bound, attempts * (1.0 - survival)));
            at_risk.push(exposed);
            if !somebody_left {
                break;
            }
            (answered_before, cancelled_before) = (answered_by, cancelled_by);
        }
        knots.push((f64::INFINITY, attempts));
        at_risk.push(left.max(0.0));
        Self {
            bounds: finite_bounds(&knots),
            knots,
            layout: answered.map_or(Layout::Classic, Histogram::layout),
            timeouts,
            deadline,
            at_risk,
        }
    }
}

/// The bounds of both, rising, each once.
fn union(left: &[(f64, f64)], right: &[(f64, f64)]) -> Vec<f64> {
    let mut bounds: Vec<f64> = left.iter().chain(right).map(|&(bound, _)| bound).collect();
    bounds.sort_by(f64::total_cmp);
    bounds.dedup();
    bounds
}

#[cfg(test)]
mod tests {
    use crate::survival::Survival;
    use crate::{Histogram, Quantile};

    const INF: f64 = f64::INFINITY;

    fn histogram(buckets: &[(f64, f64)]) -> Histogram {
        Histogram::from_cumulative(buckets.iter().copied(), None, None).unwrap()
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn the_cut_short_are_at_risk_until_then() {
        // Of 100 at risk 20 answer by 1 s. Of 80 then 10 answer and 20 are cut short: of 70 exposed 60 survive. Of 50 then 10
        // and 20: of 40 exposed 30 survive.
        let answered = histogram(&[(1.0, 20.0), (2.0, 30.0), (4.0, 40.0), (INF, 60.0)]);
        let cancelled = histogram(&[(1.0, 0.0), (2.0, 20.0), (4.0, 40.0), (INF, 40.0)]);
        let survival = Survival::censored(Some(&answered), &cancelled, 0.0, None);
        let at_two = 0.8 * 60.0 / 70.0;
        for (time, expected) in [(1.0, 0.8), (2.0, at_two), (4.0, at_two * 0.75)] {
            assert_near(survival.at(time).unwrap(), expected);
        }
        assert_near(survival.calls(), 100.0);
        // Greenwood at 2 s: the square of S times 20 / (100 x 80) + 10 / (70 x 60).
        let sum: f64 = 20.0 / 8000.0 + 10.0 / 4200.0;
        assert_near(survival.deviation(1.0 - at_two), at_two * sum.sqrt());
        // Dropping the cancelled would say 0.5 at 2 s.
        assert!(
            survival.quantile(0.4).at_least()
                > Survival::observed(&answered, 0.0, None).quantile(0.4).at_least()
        );
    }

    #[test]
    fn timeouts_stay_at_risk() {
        // 20 of 120 answer by 1 s: S = 100 / 120. Then of 100 - 10 exposed 10 answer.
        let answered = histogram(&[(1.0, 20.0), (2.0, 30.0), (INF, 60.0)]);
        let cancelled = histogram(&[(1.0, 0.0), (2.0, 20.0), (INF, 40.0)]);
        let survival = Survival::censored(Some(&answered), &cancelled, 20.0, Some(3.0));
        assert_near(survival.at(1.0).unwrap(), 100.0 / 120.0);
        assert_near(survival.at(2.0).unwrap(), 100.0 / 120.0 * 80.0 / 90.0);
    }

    #[test]
    fn the_estimate_ends_with_the_last_attempt_that_is_known() {
        // Half answer by 1 s, the rest are cut short by 2 s: what they would have taken is not known.
        let answered = histogram(&[(1.0, 50.0), (2.0, 50.0), (8.0, 50.0), (INF, 50.0)]);
        let cancelled = histogram(&[(1.0, 0.0), (2.0, 50.0), (8.0, 50.0), (INF, 50.0)]);
        let survival = Survival::censored(Some(&answered), &cancelled, 0.0, None);
        assert_eq!(survival.quantile(0.95), Quantile::AtLeast(1.0));
        assert_eq!(survival.at(4.0), None);
        // Nothing but attempts that were cut short says nothing.
        let survival = Survival::censored(None, &cancelled, 0.0, None);
        assert_eq!(survival.quantile(0.95), Quantile::AtLeast(1.0));
    }

    #[test]
    fn bounds_that_only_one_of_them_has_are_interpolated() {
        let answered = histogram(&[(1.0, 50.0), (3.0, 100.0), (INF, 100.0)]);
        let cancelled = histogram(&[(2.0, 0.0), (3.0, 20.0), (INF, 20.0)]);
        // Nobody is cut short before 2 s, by when 75 of 120 answer; then 25 of 45 - 10.
        let survival = Survival::censored(Some(&answered), &cancelled, 0.0, None);
        assert_near(survival.at(2.0).unwrap(), 45.0 / 120.0);
        assert_near(survival.at(3.0).unwrap(), 45.0 / 120.0 * 10.0 / 35.0);
    }
}
