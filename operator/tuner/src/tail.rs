//! What a distribution says between bucket bounds.
//!
//! Prometheus spreads the calls of a bucket evenly over it, and so do quantiles here. In a tail they thin out: a line reads
//! the share that is still unanswered too high. A power law through the same two bounds reads it too low for every tail that
//! is lighter than its own (exponential, lognormal, Weibull): there `ln S` bends down in `ln t`. Between the two lies the
//! truth. In a bucket that is no less crowded than the one before it nothing is known but its bounds.

use crate::survival::Survival;

/// Each delay multiplies what buckets leave open.
const MOST_DELAYS: f64 = 8.0;

/// A time in seconds, and the share of calls that are unanswered then.
type Edge = (f64, f64);

/// The least and the most that can be unanswered after `time` seconds; the least is 0 beyond the last bound.
pub(crate) fn range(survival: &Survival, time: f64) -> (f64, f64) {
    if time <= 0.0 {
        return (1.0, 1.0);
    }
    let bounds = survival.bounds();
    let edge = |time: f64| (time, survival.at_most(time));
    let lower = bounds.partition_point(|&bound| bound <= time);
    let edge_before = |index: usize| edge(index.checked_sub(1).map_or(0.0, |before| bounds[before].max(0.0)));
    let (before, lower) = (edge_before(lower.saturating_sub(1)), edge_before(lower));
    let Some(upper) = bounds.get(bounds.partition_point(|&bound| bound < time)) else {
        return (0.0, lower.1);
    };
    let upper = edge(*upper);
    if upper.0 <= lower.0 {
        return (upper.1, upper.1);
    }
    between(before, lower, upper, upper, time)
}

/// The least and the most at a `time` between two edges, the upper one known to lie between two shares, where the bucket
/// before them begins at `before`.
fn between(before: Edge, lower: Edge, least: Edge, most: Edge, time: f64) -> (f64, f64) {
    let crowd = |from: Edge, to: Edge| (from.1 - to.1) / (to.0 - from.0);
    if before.0 < lower.0 && crowd(lower, least) < crowd(before, lower) {
        let straight = lower.1 - (lower.1 - most.1) * (time - lower.0) / (most.0 - lower.0);
        let bent = unanswered(lower, least, time);
        (bent.min(straight), bent.max(straight))
    } else {
        (least.1, lower.1)
    }
}

/// One attempt, behind what a metric says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    /// What the metric says.
    pub(crate) seen: &'a Survival,
    /// The delay in seconds, and the share `a` of the calls past it that were hedged, where the metric sees those calls.
    pub(crate) hedged: Option<(f64, f64)>,
}

impl Attempt<'_> {
    /// The least and the most that an attempt leaves unanswered after `time` seconds, and never more than before; `None` so
    /// many delays on that nothing would be known.
    pub(crate) fn range(&self, time: f64) -> Option<(f64, f64)> {
        let (least, most) = self.solved(time)?;
        Some((least.min(most), most))
    }

    /// The same, of calls that independent attempts can have had: `None` where more of them are unanswered than those would
    /// leave, even if attempts answered nothing after the delay.
    pub(crate) fn inferred(&self, time: f64) -> Option<(f64, f64)> {
        self.solved(time).filter(|(least, most)| least <= most)
    }

    /// `S(t) = S_L(t) / (1 - a (1 - S(t-d)))`, from the first delay up, where `S = S_L`.
    fn solved(&self, time: f64) -> Option<(f64, f64)> {
        let Some((delay, hedged)) = self.hedged else {
            return Some(range(self.seen, time));
        };
        let delays = (time / delay).ceil() - 1.0;
        if !(delay > 0.0 && (..=MOST_DELAYS).contains(&delays)) {
            return None;
        }
        let mut left = delays.max(0.0);
        let (mut least, mut most) = self.calls(time - left * delay);
        let passed = self.calls(delay).1;
        while left > 0.0 {
            left -= 1.0;
            let (fewest, all) = self.calls(time - left * delay);
            let waiting = |hedge_too_late: f64| 1.0 - hedged * (1.0 - hedge_too_late);
            (least, most) = (
                fewest / waiting(most),
                (all / waiting(least.min(most))).min(most).min(passed),
            );
        }
        (least.is_finite() && most.is_finite()).then_some((least, most))
    }

    /// The least and the most that a call leaves unanswered. Within the bucket that holds the delay hedges begin to answer:
    /// nothing is known there but its bounds.
    fn calls(&self, time: f64) -> (f64, f64) {
        let bounds = self.seen.bounds();
        let bucket = |time: f64| bounds.partition_point(|&bound| bound < time);
        let shared = self
            .hedged
            .is_some_and(|(delay, _)| bucket(delay) == bucket(time));
        match bounds.get(bucket(time)) {
            Some(&upper) if shared && time > 0.0 && time < upper => {
                let lower = bucket(time).checked_sub(1).map_or(0.0, |before| bounds[before]);
                (self.seen.at_most(upper), self.seen.at_most(lower))
            }
            _ => range(self.seen, time),
        }
    }

    /// The least and the most that an attempt leaves unanswered after the delay: between the bounds of the bucket that
    /// holds it, as attempts have them.
    pub(crate) fn passed(&self, delay: f64) -> Option<(f64, f64)> {
        let bounds = self.seen.bounds();
        let index = bounds.partition_point(|&bound| bound < delay);
        let edge = |time: f64| (time, self.seen.at_most(time));
        let before = |index: usize| edge(index.checked_sub(1).map_or(0.0, |before| bounds[before].max(0.0)));
        let Some(&upper) = bounds.get(index) else {
            return Some((0.0, before(index).1));
        };
        if upper <= delay {
            return Some((self.seen.at_most(delay), self.seen.at_most(delay)));
        }
        let (least, most) = self.range(upper)?;
        Some(between(
            before(index.saturating_sub(1)),
            before(index),
            (upper, least),
            (upper, most),
            delay,
        ))
    }
}

/// The share that is unanswered at a `time` between two edges.
fn unanswered((lower, waiting): Edge, (upper, left): Edge, time: f64) -> f64 {
    if !(lower > 0.0 && upper > lower && left > 0.0 && waiting > left) {
        return if time > lower { left } else { waiting };
    }
    let exponent = (waiting / left).ln() / (upper / lower).ln();
    (waiting * (time / lower).powf(-exponent)).clamp(left, waiting)
}

/// The time by which a `share` of the calls between two edges is answered.
pub(crate) fn answered_after((lower, waiting): Edge, (upper, left): Edge, share: f64) -> f64 {
    if !(lower > 0.0 && left > 0.0 && waiting > left) {
        return lower + (upper - lower) * share / 2.0;
    }
    let unanswered = waiting - (waiting - left) * share;
    let exponent = (upper / lower).ln() / (waiting / left).ln();
    lower * (waiting / unanswered).powf(exponent)
}

#[cfg(test)]
mod tests {
    use super::{Attempt, answered_after, range, unanswered};
    use crate::Histogram;
    use crate::survival::Survival;

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    #[test]
    fn a_power_law_is_found_again() {
        // S(t) = 1/t^2: half way by count between S(1) = 1 and S(2) = 1/4 is 5/8, at sqrt(8/5).
        assert!(near(unanswered((1.0, 1.0), (4.0, 1.0 / 16.0), 2.0), 0.25));
        assert!(near(answered_after((1.0, 1.0), (2.0, 0.25), 0.5), 1.6_f64.sqrt()));
        assert!(near(answered_after((1.0, 1.0), (2.0, 0.25), 1.0), 2.0));
    }

    #[test]
    fn where_no_power_law_fits_the_edges_bound_it() {
        assert!(near(unanswered((0.0, 1.0), (2.0, 0.5), 1.0), 0.5));
        assert!(near(unanswered((1.0, 0.5), (2.0, 0.0), 1.5), 0.0));
        assert!(near(unanswered((1.0, 0.5), (2.0, 0.0), 1.0), 0.5));
        assert!(near(answered_after((1.0, 0.5), (2.0, 0.0), 0.5), 1.25));
    }

    fn survival(buckets: &[(f64, f64)]) -> Survival {
        let buckets = buckets.iter().copied().chain([(f64::INFINITY, 10_000.0)]);
        Survival::observed(
            &Histogram::from_cumulative(buckets, None, None).unwrap(),
            0.0,
            None,
        )
    }

    fn assert_range(found: (f64, f64), (least, most): (f64, f64)) {
        assert!(
            near(found.0, least) && near(found.1, most),
            "{found:?}, not {least} to {most}"
        );
    }

    #[test]
    fn a_tail_is_known_at_bounds_and_between_them_within_limits() {
        let survival = survival(&[(1.0, 0.0), (2.0, 7500.0), (4.0, 9400.0)]);
        assert_range(range(&survival, 0.0), (1.0, 1.0));
        assert_range(range(&survival, 2.0), (0.25, 0.25));
        // Three quarters end between 1 and 2 s: anywhere there.
        assert_range(range(&survival, 1.5), (0.25, 1.0));
        // Along the power law from 0.25 to 0.06, whose middle is at sqrt 8, and along the line.
        let straight = 0.25 - 0.19 * (8.0_f64.sqrt() - 2.0) / 2.0;
        assert_range(range(&survival, 8.0_f64.sqrt()), (0.015_f64.sqrt(), straight));
        assert_range(range(&survival, 5.0), (0.0, 0.06));
    }

    #[test]
    fn an_attempt_is_found_behind_hedged_calls() {
        // S: 10 % after 1 s, 5 % after 2 s, 4 % after 3 s; d = 1 s, all hedged: S_L(2) = 0.05 x 0.1, S_L(3) = 0.04 x 0.05.
        let calls = survival(&[(1.0, 9000.0), (2.0, 9950.0), (3.0, 9980.0)]);
        let attempt = |delay, hedged| Attempt {
            seen: &calls,
            hedged: Some((delay, hedged)),
        };
        assert_range(attempt(1.0, 1.0).range(1.0).unwrap(), (0.1, 0.1));
        assert_range(attempt(1.0, 1.0).range(2.0).unwrap(), (0.05, 0.05));
        assert_range(attempt(1.0, 1.0).range(3.0).unwrap(), (0.04, 0.04));
        assert_eq!(attempt(0.1, 1.0).range(2.0), None);
        assert_eq!(attempt(0.0, 1.0).range(2.0), None);
        // Half of them: S_L(2) = 0.05 (1 - 0.5 x 0.9).
        let calls = survival(&[(1.0, 9000.0), (2.0, 9725.0)]);
        let attempt = Attempt {
            seen: &calls,
            hedged: Some((1.0, 0.5)),
        };
        assert_range(attempt.range(2.0).unwrap(), (0.05, 0.05));
    }

    #[test]
    fn a_bucket_in_which_hedges_begin_to_answer_is_not_read_along_a_line() {
        // 10 % pass 1 s and the delay of 1.8 s, and hedges have answered all but a tenth of these by 2 s.
        let calls = survival(&[(0.5, 2000.0), (1.0, 9000.0), (2.0, 9900.0)]);
        let attempt = Attempt {
            seen: &calls,
            hedged: Some((1.8, 1.0)),
        };
        assert_range(attempt.range(1.8).unwrap(), (0.01, 0.1));
        assert_range(attempt.range(1.5).unwrap(), (0.01, 0.1));
        assert_range(attempt.range(1.0).unwrap(), (0.1, 0.1));
        // Attempts have 1 % / S(0.2) after 2 s, and of S(0.2) no more is known than that it is between 0.8 and 1.
        let (least, most) = attempt.passed(1.8).unwrap();
        assert!(near(most, 0.1 - (0.1 - 0.01 / 0.8) * 0.8), "{most}");
        assert!(near(least, 0.1 * 1.8_f64.powf(0.1_f64.log2())), "{least}");
    }
}
