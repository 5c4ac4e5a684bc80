//! How many calls are still unanswered after a time: `S(t)`.

use crate::Histogram;
use crate::quantile::{Quantile, quantile};

/// The survival of a call or an attempt, linear within buckets as Prometheus interpolates. Times are in seconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Survival {
    /// `(time, calls answered by then)`, rising, the last time +Inf.
    knots: Vec<(f64, f64)>,
    /// The finite bucket bounds.
    bounds: Vec<f64>,
    /// Calls that timed out, known only to be no shorter than the deadline.
    timeouts: f64,
    /// What one call may take in all.
    deadline: Option<f64>,
}

/// How a part of the calls in a distribution was hedged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hedged {
    /// The delay in seconds.
    pub(crate) delay: f64,
    /// The budget in hedges per call.
    pub(crate) budget: f64,
    /// This part of all calls, in `(0, 1]`.
    pub(crate) part: f64,
}

impl Survival {
    /// What was observed, with `timeouts` more calls that never entered the histogram.
    pub(crate) fn observed(histogram: &Histogram, timeouts: f64, deadline: Option<f64>) -> Self {
        let mut knots = histogram.buckets().to_vec();
        if let Some((_, count)) = knots.last_mut() {
            *count += timeouts;
        }
        let bounds = knots
            .iter()
            .map(|&(bound, _)| bound)
            .filter(|bound| bound.is_finite())
            .collect();
        Self {
            knots,
            bounds,
            timeouts,
            deadline,
        }
    }

    /// All calls timed out; nothing else was counted.
    pub(crate) fn all_timed_out(timeouts: f64, deadline: f64) -> Self {
        Self {
            knots: vec![(deadline, 0.0), (f64::INFINITY, timeouts)],
            bounds: vec![deadline],
            timeouts,
            deadline: Some(deadline),
        }
    }

    /// Calls, those that timed out included.
    pub(crate) fn calls(&self) -> f64 {
        self.knots.last().map_or(0.0, |&(_, calls)| calls)
    }

    /// The last finite bucket bound.
    pub(crate) fn last_bound(&self) -> f64 {
        self.bounds.last().copied().unwrap_or(0.0)
    }

    /// The finite bucket bounds, rising.
    pub(crate) fn bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// The `q`-quantile. Where only timeouts lie beyond it, it is at least the deadline.
    pub(crate) fn quantile(&self, q: f64) -> Quantile {
        match quantile(q, &self.knots) {
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
                let within = if upper > lower {
                    (t - lower) / (upper - lower)
                } else {
                    1.0
                };
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

    /// The survival of one attempt, when this is that of calls of which parts were hedged; smallest delay first.
    ///
    /// Up to the smallest delay a call is its first attempt. Above it `S_L(t) = S(t) (1 - sum of p a (1 - S(t-d)))` over
    /// the parts `p`, solved upwards at the bucket bounds for an `S` that never rises. `a`, the share of the calls past
    /// the delay that were hedged, is at most `min(1, B / S(d))`: so `S` and the delay come out too high, not too low.
    pub(crate) fn of_attempt(&self, parts: &[Hedged]) -> Self {
        let calls = self.calls();
        let Some(limit) = parts.first().map(|part| part.delay).filter(|_| calls > 0.0) else {
            return self.clone();
        };
        let weighed: Vec<_> = parts
            .iter()
            .map(|part| (part.delay, part.part * self.most_hedged(part)))
            .collect();
        let mut solved = self.clone();
        solved.knots.retain(|&(time, _)| time < limit);
        let mut last = (limit, self.at_most(limit));
        solved
            .knots
            .extend([(limit, calls * (1.0 - last.1)), (f64::INFINITY, calls)]);
        for &(bound, answered) in self
            .knots
            .iter()
            .filter(|knot| knot.0 > limit && knot.0.is_finite())
        {
            let still_waiting = |here: f64| {
                let answered_by_hedge = |&(delay, weight): &(f64, f64)| {
                    let after = bound - delay;
                    let unanswered = match after - last.0 {
                        // Within the stretch that is being solved: between its two ends.
                        within if within > 0.0 => last.1 + (here - last.1) * within / (bound - last.0),
                        _ => solved.at_most(after),
                    };
                    weight * (1.0 - unanswered)
                };
                1.0 - weighed.iter().map(answered_by_hedge).sum::<f64>()
            };
            last = (bound, solve(1.0 - answered / calls, last.1, still_waiting));
            solved
                .knots
                .insert(solved.knots.len() - 1, (bound, calls * (1.0 - last.1)));
        }
        solved
    }

    /// The largest share of the calls past the delay that the budget lets be hedged.
    fn most_hedged(&self, part: &Hedged) -> f64 {
        let past_delay = self.at_most(part.delay);
        if past_delay > 0.0 {
            (part.budget / past_delay).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }
}

/// The `x` in `[least, most]` with `x * factor(x) = least`, where `x * factor(x)` rises and `factor` is at most 1; `most`
/// when there is none.
fn solve(least: f64, most: f64, factor: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (least, most.max(least));
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if middle * factor(middle) < least {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::{Hedged, Survival};
    use crate::Histogram;

    const BOUNDS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2];

    /// Attempts whose survival is linear, from 1 at 0 to 0 at 1.25 s.
    fn attempt(t: f64) -> f64 {
        (1.0 - t.max(0.0) / 1.25).max(0.0)
    }

    fn survival(of_call: impl Fn(f64) -> f64) -> Survival {
        let buckets = BOUNDS
            .iter()
            .map(|&bound| (bound, 1000.0 * (1.0 - of_call(bound))));
        let histogram = Histogram::from_cumulative(buckets.chain([(f64::INFINITY, 1000.0)]), None, None);
        Survival::observed(&histogram.unwrap(), 0.0, None)
    }

    fn assert_is_attempts(found: &Survival) {
        for bound in BOUNDS {
            let (found, expected) = (found.at_most(bound), attempt(bound));
            assert!(
                (found - expected).abs() < 1e-9,
                "S({bound}) is {expected}, not {found}"
            );
        }
    }

    #[test]
    fn attempts_are_recovered_from_hedged_calls() {
        // d = 0.4: S(d) = 0.68; a budget of 0.34 hedges half of the calls that pass it.
        let calls = survival(|t| attempt(t) * (1.0 - 0.5 * (1.0 - attempt(t - 0.4))));
        assert_is_attempts(&calls.of_attempt(&[Hedged {
            delay: 0.4,
            budget: 0.34,
            part: 1.0,
        }]));
    }

    #[test]
    fn attempts_are_recovered_from_calls_hedged_in_different_ways() {
        // A quarter of the calls hedged at 0.3 s, half at 0.5 s, with budgets for all of them; a quarter not at all.
        let calls = survival(|t| {
            attempt(t) * (1.0 - 0.25 * (1.0 - attempt(t - 0.3)) - 0.5 * (1.0 - attempt(t - 0.5)))
        });
        let parts = [
            Hedged {
                delay: 0.3,
                budget: 1.0,
                part: 0.25,
            },
            Hedged {
                delay: 0.5,
                budget: 1.0,
                part: 0.5,
            },
        ];
        assert_is_attempts(&calls.of_attempt(&parts));
    }

    #[test]
    fn a_delay_shorter_than_the_buckets_is_solved_within_them() {
        // d = 0.05 s, buckets of 0.1 s and more: S(t - d) lies in the bucket that is being solved, and is read off a line
        // that is not quite straight: as exact as the buckets.
        let calls = survival(|t| attempt(t) * (1.0 - (1.0 - attempt(t - 0.05))));
        let found = calls.of_attempt(&[Hedged {
            delay: 0.05,
            budget: 1.0,
            part: 1.0,
        }]);
        for bound in BOUNDS {
            let excess = found.at_most(bound) - attempt(bound);
            assert!((-0.02..0.02).contains(&excess), "S({bound}) is {excess} off");
        }
    }

    #[test]
    fn the_survival_of_attempts_is_never_under_that_of_calls_and_never_rises() {
        let calls = survival(|t| attempt(t).powi(3));
        let found = calls.of_attempt(&[Hedged {
            delay: 0.25,
            budget: 0.1,
            part: 0.7,
        }]);
        let mut last = 1.0;
        for step in 0..125_u32 {
            let t = f64::from(step) / 100.0;
            let unanswered = found.at_most(t);
            assert!(
                unanswered <= last + 1e-12 && unanswered >= calls.at_most(t) - 0.02,
                "S({t}) = {unanswered}"
            );
            last = unanswered;
        }
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
