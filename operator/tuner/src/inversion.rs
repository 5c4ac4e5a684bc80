//! From calls as they were hedged to single attempts.

use std::rc::Rc;

use crate::survival::Survival;

/// How a part of the calls in a distribution was hedged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hedged {
    /// The delay in seconds.
    pub(crate) delay: f64,
    /// The budget in hedges per call.
    pub(crate) budget: f64,
    /// This part of all calls, in `[0, 1]`.
    pub(crate) part: f64,
    /// This part of them may have been hedged so too, while clients went over to a smaller delay or came from one, and counts as
    /// hedged at that.
    pub(crate) in_doubt: f64,
}

impl Survival {
    /// The survival of one attempt, when this is that of calls of which parts were hedged; smallest delay first.
    ///
    /// Up to the bucket that holds the smallest delay a call is its first attempt. Above it `S_L(t) = S(t) (1 - sum of p a (1 - S(t-d)))` over
    /// the parts `p`, solved upwards at the bucket bounds for an `S` that never rises. `a`, the share of the calls past
    /// the delay that were hedged, is at most `min(1, B / S(d))`: so `S` and the delay come out too high, not too low.
    /// `counted` is that share over all parts where clients count it; then each part has as much less than its most.
    pub(crate) fn of_attempt(self: &Rc<Self>, parts: &[Hedged], counted: Option<f64>) -> Rc<Self> {
        let calls = self.calls();
        let Some(limit) = parts.first().map(|part| part.delay).filter(|_| calls > 0.0) else {
            return Rc::clone(self);
        };
        let weighed = self.weighed(parts, counted);
        let mut solved = Self::clone(self);
        solved.knots.retain(|&(time, _)| time <= limit);
        let before = solved.knots.last().map_or((0.0, 0.0), |&knot| knot);
        let mut last = (before.0, 1.0 - before.1 / calls);
        solved.knots.push((f64::INFINITY, calls));
        for &(bound, answered) in self
            .knots
            .iter()
            .filter(|knot| knot.0 > limit && knot.0.is_finite())
        {
            // The share of the calls still waiting at `bound` that no hedge answered: `fixed + rising * S(bound)`.
            let (mut fixed, mut rising) = (1.0, 0.0);
            for &(delay, weight) in &weighed {
                let after = bound - delay;
                fixed -= weight;
                if after > last.0 {
                    // Within the stretch that is being solved: between its two ends.
                    let within = self.layout.fraction((last.0, bound), after);
                    fixed += weight * last.1 * (1.0 - within);
                    rising += weight * within;
                } else {
                    fixed += weight * solved.at_most(after);
                }
            }
            last = (bound, solve(1.0 - answered / calls, last.1, fixed, rising));
            solved
                .knots
                .insert(solved.knots.len() - 1, (bound, calls * (1.0 - last.1)));
        }
        Rc::new(solved)
    }

    /// Each part's delay, and the share of all calls past it that it hedged.
    ///
    /// Where two delays are in doubt the smaller one answers calls earlier, and the longer one may let more of them be hedged: at
    /// least as many are answered as of either when the calls that only the longer one hedges are added at that.
    fn weighed(&self, parts: &[Hedged], counted: Option<f64>) -> Vec<(f64, f64)> {
        let (mut past, mut most, mut least_hedged) = (0.0, 0.0, 1.0_f64);
        let mut most_in_doubt = 0.0;
        let mut weighed = Vec::with_capacity(parts.len());
        for part in parts {
            let hedged = self.most_hedged(part);
            let (weight, in_doubt) = (
                part.part * hedged,
                part.in_doubt * (hedged - least_hedged).max(0.0),
            );
            let past_delay = self.at_most(part.delay);
            past += past_delay * part.part;
            most += past_delay * weight;
            most_in_doubt += past_delay * in_doubt;
            least_hedged = least_hedged.min(hedged);
            weighed.push((part.delay, weight, in_doubt));
        }
        // Hedges that are counted answer most where they were sent early: a longer delay in doubt has only what is left.
        let part_of = |hedges: f64, most: f64| {
            if most > 0.0 {
                (hedges / most).clamp(0.0, 1.0)
            } else {
                1.0
            }
        };
        let (less, less_in_doubt) = counted.map_or((1.0, 1.0), |counted| {
            let hedges = counted * past;
            (part_of(hedges, most), part_of(hedges - most, most_in_doubt))
        });
        weighed
            .into_iter()
            .map(|(delay, weight, in_doubt)| (delay, less * weight + less_in_doubt * in_doubt))
            .collect()
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

/// The `x` in `[seen, most]` with `x (fixed + rising x) = seen`; the nearer end when there is none.
fn solve(seen: f64, most: f64, fixed: f64, rising: f64) -> f64 {
    let most = most.max(seen);
    let root = 2.0 * seen / (fixed + (fixed * fixed + 4.0 * rising * seen).max(0.0).sqrt());
    // Nothing is left to go by when hedges answered every call.
    if root.is_nan() {
        most
    } else {
        root.min(most).max(seen)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::{Hedged, Survival};
    use crate::Histogram;

    const BOUNDS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2];

    /// Attempts whose survival is linear, from 1 at 0 to 0 at 1.25 s.
    fn attempt(t: f64) -> f64 {
        (1.0 - t.max(0.0) / 1.25).max(0.0)
    }

    fn survival(of_call: impl Fn(f64) -> f64) -> Rc<Survival> {
        let buckets = BOUNDS
            .iter()
            .map(|&bound| (bound, 1000.0 * (1.0 - of_call(bound))));
        let histogram = Histogram::from_cumulative(buckets.chain([(f64::INFINITY, 1000.0)]), None, None);
        Rc::new(Survival::observed(&histogram.unwrap(), 0.0, None))
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
        assert_is_attempts(&calls.of_attempt(
            &[Hedged {
                delay: 0.4,
                budget: 0.34,
                part: 1.0,
                in_doubt: 0.0,
            }],
            None,
        ));
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
                in_doubt: 0.0,
            },
            Hedged {
                delay: 0.5,
                budget: 1.0,
                part: 0.5,
                in_doubt: 0.0,
            },
        ];
        assert_is_attempts(&calls.of_attempt(&parts, None));
    }

    #[test]
    fn where_two_delays_are_in_doubt_the_one_that_hedges_more_counts() {
        // S_L(0.4) = 0.68 and S_L(0.5) = 0.6 (1 - 0.5 x 0.08) = 0.576: budgets of 0.34 and 0.432 hedge a half and three quarters. A
        // fifth of the calls may have been hedged either way: a quarter of these by the second alone.
        let calls = survival(|t| {
            attempt(t) * (1.0 - 0.5 * (1.0 - attempt(t - 0.4)) - 0.05 * (1.0 - attempt(t - 0.5)))
        });
        let parts = [
            Hedged {
                delay: 0.4,
                budget: 0.34,
                part: 1.0,
                in_doubt: 0.0,
            },
            Hedged {
                delay: 0.5,
                budget: 0.432,
                part: 0.0,
                in_doubt: 0.2,
            },
        ];
        assert_is_attempts(&calls.of_attempt(&parts, None));
    }

    #[test]
    fn hedges_that_are_counted_are_not_taken_for_those_of_a_longer_delay_in_doubt() {
        // Half of the calls past 0.4 s were hedged, as counted, all of them there. A fifth of the calls may have followed 0.5 s.
        let calls = survival(|t| attempt(t) * (1.0 - 0.5 * (1.0 - attempt(t - 0.4))));
        let parts = [
            Hedged {
                delay: 0.4,
                budget: 0.34,
                part: 1.0,
                in_doubt: 0.0,
            },
            Hedged {
                delay: 0.5,
                budget: 0.432,
                part: 0.0,
                in_doubt: 0.2,
            },
        ];
        assert_is_attempts(&calls.of_attempt(&parts, Some(0.5)));
    }

    #[test]
    fn the_bucket_that_holds_the_delay_is_not_read_along_the_line_of_hedged_calls() {
        // S: 0.5 after 0.1 s, 0.1 after 0.4 s, 0.095 after 0.6 s, 0.05 after 1 s. d = 0.5 s, all hedged:
        // S_L(0.6) = 0.095 S(0.1) = 0.0475, S_L(1) = 0.05 S(0.5) = 0.05 x 0.0975. The line through S_L would put 0.074 at 0.5 s,
        // and nothing above that after it.
        let buckets = [
            (0.1, 500.0),
            (0.4, 900.0),
            (0.6, 952.5),
            (1.0, 995.125),
            (f64::INFINITY, 1000.0),
        ];
        let histogram = Histogram::from_cumulative(buckets, None, None).unwrap();
        let calls = Rc::new(Survival::observed(&histogram, 0.0, None));
        let found = calls.of_attempt(
            &[Hedged {
                delay: 0.5,
                budget: 1.0,
                part: 1.0,
                in_doubt: 0.0,
            }],
            None,
        );
        for (time, expected) in [(0.1, 0.5), (0.4, 0.1), (0.5, 0.0975), (0.6, 0.095), (1.0, 0.05)] {
            let unanswered = found.at_most(time);
            assert!(
                (unanswered - expected).abs() < 1e-9,
                "S({time}) is {expected}, not {unanswered}"
            );
        }
    }

    #[test]
    fn a_delay_shorter_than_the_buckets_is_solved_within_them() {
        // d = 0.05 s, buckets of 0.1 s and more: S(t - d) lies in the bucket that is being solved, and is read off a line
        // that is not quite straight: as exact as the buckets.
        let calls = survival(|t| attempt(t) * (1.0 - (1.0 - attempt(t - 0.05))));
        let found = calls.of_attempt(
            &[Hedged {
                delay: 0.05,
                budget: 1.0,
                part: 1.0,
                in_doubt: 0.0,
            }],
            None,
        );
        for bound in BOUNDS {
            let excess = found.at_most(bound) - attempt(bound);
            assert!((-0.02..0.02).contains(&excess), "S({bound}) is {excess} off");
        }
    }

    #[test]
    fn the_survival_of_attempts_is_never_under_that_of_calls_and_never_rises() {
        let calls = survival(|t| attempt(t).powi(3));
        let found = calls.of_attempt(
            &[Hedged {
                delay: 0.25,
                budget: 0.1,
                part: 0.7,
                in_doubt: 0.0,
            }],
            None,
        );
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
    fn a_share_that_clients_counted_replaces_the_most_that_the_budget_allows() {
        // The budget would allow every call past 0.4 s to be hedged; a quarter was.
        let calls = survival(|t| attempt(t) * (1.0 - 0.25 * (1.0 - attempt(t - 0.4))));
        let part = |part, delay| Hedged {
            delay,
            budget: 1.0,
            part,
            in_doubt: 0.0,
        };
        assert_is_attempts(&calls.of_attempt(&[part(1.0, 0.4)], Some(0.25)));
        // More than the budget allows is not believed.
        let bound = calls.of_attempt(&[part(1.0, 0.4)], None);
        assert_eq!(calls.of_attempt(&[part(1.0, 0.4)], Some(7.0)), bound);
        // Of half of the calls, hedged at 0.4 s, a half: a quarter of all past 0.4 s.
        assert_is_attempts(&calls.of_attempt(&[part(0.5, 0.4)], Some(0.5)));
    }
}
