//! How many calls are still unanswered after a time: `S(t)`.

use std::rc::Rc;

use crate::Histogram;
use crate::interpolation::Layout;
use crate::quantile::{Quantile, quantile};

/// The survival of a call or an attempt, interpolated within buckets as Prometheus does: `S` of the `q`-quantile is `1 - q`.
/// Times are in seconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Survival {
    /// `(time, calls answered by then)`, rising, the last time +Inf.
    pub(crate) knots: Vec<(f64, f64)>,
    /// The finite bucket bounds.
    pub(crate) bounds: Rc<[f64]>,
    /// How calls lie within buckets.
    pub(crate) layout: Layout,
    /// Calls that timed out, known only to be no shorter than the deadline.
    pub(crate) timeouts: f64,
    /// What one call may take in all.
    pub(crate) deadline: Option<f64>,
    /// Where some were cut short: how many are known to have got as far as each knot's bucket, those cut short within it by half.
    /// Otherwise empty: those unanswered at the knot before.
    pub(crate) at_risk: Vec<f64>,
}

impl Survival {
    /// What was observed, with `timeouts` more calls that never entered the histogram.
    pub(crate) fn observed(histogram: &Histogram, timeouts: f64, deadline: Option<f64>) -> Self {
        let mut knots = histogram.buckets().to_vec();
        if let Some((_, count)) = knots.last_mut() {
            *count += timeouts;
        }
        Self {
            bounds: finite_bounds(&knots),
            knots,
            layout: histogram.layout(),
            timeouts,
            deadline,
            at_risk: Vec::new(),
        }
    }

    /// All calls timed out; nothing else was counted.
    pub(crate) fn all_timed_out(timeouts: f64, deadline: f64) -> Self {
        Self {
            knots: vec![(deadline, 0.0), (f64::INFINITY, timeouts)],
            bounds: Rc::new([deadline]),
            layout: Layout::Classic,
            timeouts,
            deadline: Some(deadline),
            at_risk: Vec::new(),
        }
    }

    /// Calls, those that timed out included.
    pub(crate) fn calls(&self) -> f64 {
        self.knots.last().map_or(0.0, |&(_, calls)| calls)
    }

    /// Up to which time calls are told apart by how long they took: the last finite bucket bound; an exponential histogram
    /// has buckets for everything.
    pub(crate) fn reach(&self) -> f64 {
        match self.layout {
            Layout::Exponential => f64::INFINITY,
            Layout::Classic | Layout::Custom => self.bounds.last().copied().unwrap_or(0.0),
        }
    }

    /// The finite bucket bounds, rising.
    pub(crate) fn bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// The `q`-quantile. Where only timeouts lie beyond it, it is at least the deadline.
    pub(crate) fn quantile(&self, q: f64) -> Quantile {
        match quantile(q, &self.knots, self.layout) {
            Quantile::AtLeast(bound) => {
                let timed_out = q * self.calls() > self.calls() - self.timeouts;
                let deadline = self.deadline.filter(|_| timed_out).unwrap_or(bound);
                Quantile::AtLeast(bound.max(deadline))
            }
            Quantile::Estimate {
                seconds,
                bucket: (lower, upper),
            } => {
                let index = self.bounds.partition_point(|&bound| bound < upper);
                let lower = match index.checked_sub(1) {
                    Some(previous) => self.bounds[previous],
                    None => lower.min(0.0),
                };
                let upper = self.bounds.get(index).copied().unwrap_or(upper);
                Quantile::Estimate {
                    seconds,
                    bucket: (lower, upper),
                }
            }
        }
    }

    /// `S(t)`; `None` where the buckets do not say.
    pub(crate) fn at(&self, t: f64) -> Option<f64> {
        let (least, most) = self.range(t);
        (most - least < 1e-9).then_some(most)
    }

    /// The largest `S(t)` that the buckets allow.
    pub(crate) fn at_most(&self, t: f64) -> f64 {
        self.range(t).1
    }

    fn range(&self, t: f64) -> (f64, f64) {
        let calls = self.calls();
        if t <= 0.0 || calls <= 0.0 {
            return (1.0, 1.0);
        }
        let share = |unanswered: f64| (unanswered / calls).clamp(0.0, 1.0);
        let index = self.knots.partition_point(|&(time, _)| time < t);
        let (lower, below) = match index.checked_sub(1) {
            Some(previous) => self.knots[previous],
            None => (0.0, 0.0),
        };
        match self.knots.get(index) {
            Some(&(upper, answered)) if upper.is_finite() => {
                let within = self.layout.fraction((lower, upper), t);
                let unanswered = share(calls - (below + (answered - below) * within));
                (unanswered, unanswered)
            }
            _ => {
                let before_deadline = self.deadline.is_some_and(|deadline| t <= deadline);
                (
                    share(if before_deadline { self.timeouts } else { 0.0 }),
                    share(calls - below),
                )
            }
        }
    }

    /// How many calls, none of them cut short, would say as much about the `q`-quantile.
    pub(crate) fn worth(&self, q: f64) -> f64 {
        let variance = self.deviation(q).powi(2);
        match self.at_risk.is_empty() || variance <= 0.0 {
            true => self.calls(),
            false => (q * (1.0 - q) / variance).min(self.calls()),
        }
    }

    /// The standard deviation of the estimate of `S` at its `q`-quantile.
    ///
    /// Binomial; where attempts were cut short Greenwood's, `S^2` times the sum of `(1 - s) / (R s)` over the buckets, of which
    /// each is survived by a share `s` of the `R` at risk (M. Greenwood, The natural duration of cancer, 1926).
    pub(crate) fn deviation(&self, q: f64) -> f64 {
        let (calls, wanted) = (self.calls(), 1.0 - q);
        if self.at_risk.is_empty() {
            return (q * wanted / calls.max(1.0)).sqrt();
        }
        let (mut before, mut sum) = (1.0, 0.0);
        for (&(_, answered), &at_risk) in self.knots.iter().zip(&self.at_risk) {
            // Within the bucket of the quantile, as far as it.
            let here = (1.0 - answered / calls).max(wanted);
            let survived = here / before;
            if survived < 1.0 && at_risk > 0.0 {
                sum += (1.0 - survived) / (at_risk * survived);
            }
            before = here;
            if here <= wanted {
                break;
            }
        }
        wanted * sum.sqrt()
    }
}

/// The times of knots, of which the last alone is not finite.
pub(crate) fn finite_bounds(knots: &[(f64, f64)]) -> Rc<[f64]> {
    let finite = &knots[..knots.len().saturating_sub(1)];
    finite.iter().map(|&(bound, _)| bound).collect()
}

#[cfg(test)]
mod tests {
    use super::Survival;
    use crate::{Histogram, NativeBucket};

    #[test]
    fn the_survival_at_a_quantile_is_what_the_quantile_leaves() {
        let step = 2.0_f64.powf(0.125);
        let exponential = (-6..12).map(|index| NativeBucket {
            lower: step.powi(index),
            upper: step.powi(index + 1),
            calls: f64::from(20 + index),
        });
        let classic = [
            (0.0, 3.0),
            (0.1, 50.0),
            (0.7, 90.0),
            (2.0, 99.0),
            (f64::INFINITY, 100.0),
        ];
        for histogram in [
            Histogram::from_cumulative(classic, None, None).unwrap(),
            Histogram::from_native(exponential, None, 405.0).unwrap(),
        ] {
            let survival = Survival::observed(&histogram, 0.0, None);
            for q in [0.1, 0.33, 0.5, 0.75, 0.95, 0.97] {
                let time = survival.quantile(q).estimate().unwrap();
                let left = survival.at(time).unwrap();
                assert!((left - (1.0 - q)).abs() < 1e-12, "S({time}) = {left} at {q}");
            }
        }
    }

    #[test]
    fn without_any_cut_short_the_deviation_is_binomial() {
        // Greenwood's sum telescopes to it: 100 at risk, a tenth answered, then half.
        let knots = [(1.0, 10.0), (2.0, 55.0), (f64::INFINITY, 100.0)];
        let histogram = Histogram::from_cumulative(knots, None, None).unwrap();
        let mut survival = Survival::observed(&histogram, 0.0, None);
        let binomial = survival.deviation(0.4);
        survival.at_risk = vec![100.0, 90.0, 45.0];
        assert!((binomial - (0.24_f64 / 100.0).sqrt()).abs() < 1e-12);
        assert!((survival.deviation(0.4) - binomial).abs() < 1e-12);
    }

    #[test]
    fn beyond_the_last_bound_only_timeouts_are_known() {
        let histogram = Histogram::from_cumulative([(0.5, 90.0), (f64::INFINITY, 90.0)], None, None).unwrap();
        let survival = Survival::observed(&histogram, 10.0, Some(1.0));
        assert_eq!(survival.at(0.9), Some(0.1));
        assert_eq!(survival.at(1.1), None);
        assert!(survival.quantile(0.95).at_least() >= 1.0);
    }
}
