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
    let crowd = |from: Edge, to: Edge| (from.1 - to.1) / (to.0 - from.0);
    if before.0 < lower.0 && crowd(lower, upper) < crowd(before, lower) {
        let straight = survival.at_most(time);
        let bent = unanswered(lower, upper, time);
        (bent.min(straight), bent.max(straight))
    } else {
        (upper.1, lower.1)
    }
}

/// What one attempt leaves unanswered after `time` seconds: least and most, from `calls` of which the share `hedged` of
/// those past `delay` was hedged; `None` so many delays on that nothing would be known.
///
/// `S(t) = S_L(t) / (1 - a (1 - S(t-d)))`, from the first delay up, where `S = S_L`.
pub(crate) fn of_attempt(calls: &Survival, delay: f64, hedged: f64, time: f64) -> Option<(f64, f64)> {
    let delays = (time / delay).ceil() - 1.0;
    if !(delay > 0.0 && (..=MOST_DELAYS).contains(&delays)) {
        return None;
    }
    let mut left = delays.max(0.0);
    let (mut least, mut most) = range(calls, time - left * delay);
    while left > 0.0 {
        left -= 1.0;
        let (fewest, all) = range(calls, time - left * delay);
        let waiting = |hedge_too_late: f64| 1.0 - hedged * (1.0 - hedge_too_late);
        (least, most) = (fewest / waiting(most), (all / waiting(least)).min(most));
    }
    (least.is_finite() && least <= most).then_some((least, most))
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
    use super::{answered_after, of_attempt, range, unanswered};
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
        assert_range(of_attempt(&calls, 1.0, 1.0, 1.0).unwrap(), (0.1, 0.1));
        assert_range(of_attempt(&calls, 1.0, 1.0, 2.0).unwrap(), (0.05, 0.05));
        assert_range(of_attempt(&calls, 1.0, 1.0, 3.0).unwrap(), (0.04, 0.04));
        // Half of them: S_L(2) = 0.05 (1 - 0.5 x 0.9).
        let calls = survival(&[(1.0, 9000.0), (2.0, 9725.0)]);
        assert_range(of_attempt(&calls, 1.0, 0.5, 2.0).unwrap(), (0.05, 0.05));
        assert_eq!(of_attempt(&calls, 0.1, 0.5, 2.0), None);
        assert_eq!(of_attempt(&calls, 0.0, 0.5, 2.0), None);
    }
}
