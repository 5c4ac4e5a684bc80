//! Between two edges of a bucket, as a tail has it.
//!
//! Prometheus spreads the calls of a bucket evenly over it. Beyond the most crowded bucket they thin out instead: a line
//! reads survivals high there, and times too. Where that matters calls are spread as a power law with the survival of the
//! bucket's edges, which reads them a little low for a tail that bends down faster.

use crate::survival::Survival;

/// A time in seconds, and the share of calls that are unanswered then.
pub(crate) type Edge = (f64, f64);

/// The share that is unanswered at a `time` between two edges.
fn unanswered((lower, waiting): Edge, (upper, left): Edge, time: f64) -> f64 {
    if !(lower > 0.0 && upper > lower && left > 0.0 && waiting > left) {
        return if time > lower { left } else { waiting };
    }
    let exponent = (waiting / left).ln() / (upper / lower).ln();
    (waiting * (time / lower).powf(-exponent)).clamp(left, waiting)
}

/// The time by which a `share` of the calls between two edges is answered.
pub(crate) fn time((lower, waiting): Edge, (upper, left): Edge, share: f64) -> f64 {
    if !(lower > 0.0 && left > 0.0 && waiting > left) {
        return lower + (upper - lower) * share / 2.0;
    }
    let unanswered = waiting - (waiting - left) * share;
    let exponent = (upper / lower).ln() / (waiting / left).ln();
    lower * (waiting / unanswered).powf(exponent)
}

/// What `survival` can be at a `time`, read along a power law and along a line: least and most. `None` beyond
/// the last bound.
pub(crate) fn range(survival: &Survival, time: f64) -> Option<(f64, f64)> {
    if time <= 0.0 {
        return Some((1.0, 1.0));
    }
    let bounds = survival.bounds();
    let upper = *bounds.get(bounds.partition_point(|&bound| bound < time))?;
    let below = bounds.partition_point(|&bound| bound <= time);
    let lower = below.checked_sub(1).map_or(0.0, |below| bounds[below]);
    let edge = |time: f64| (time, survival.at_most(time));
    let straight = survival.at(time)?;
    let bent = if upper > lower {
        unanswered(edge(lower), edge(upper), time)
    } else {
        straight
    };
    Some((bent.min(straight), bent.max(straight)))
}

#[cfg(test)]
mod tests {
    use super::{range, time, unanswered};
    use crate::Histogram;
    use crate::survival::Survival;

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    #[test]
    fn a_power_law_is_found_again() {
        // S(t) = 1/t^2: half way by count between S(1) = 1 and S(2) = 1/4 is 5/8, at sqrt(8/5).
        assert!(near(unanswered((1.0, 1.0), (4.0, 1.0 / 16.0), 2.0), 0.25));
        assert!(near(time((1.0, 1.0), (2.0, 0.25), 0.5), 1.6_f64.sqrt()));
        assert!(near(time((1.0, 1.0), (2.0, 0.25), 1.0), 2.0));
    }

    #[test]
    fn where_no_power_law_fits_the_edges_bound_it() {
        assert!(near(unanswered((0.0, 1.0), (2.0, 0.5), 1.0), 0.5));
        assert!(near(unanswered((1.0, 0.5), (2.0, 0.0), 1.5), 0.0));
        assert!(near(unanswered((1.0, 0.5), (2.0, 0.0), 1.0), 0.5));
        assert!(near(time((1.0, 0.5), (2.0, 0.0), 0.5), 1.25));
    }

    #[test]
    fn a_survival_is_known_at_bounds_and_between_them_within_limits() {
        let histogram = Histogram::from_cumulative(
            [(1.0, 0.0), (2.0, 75.0), (4.0, 94.0), (f64::INFINITY, 100.0)],
            None,
            None,
        )
        .unwrap();
        let survival = Survival::observed(&histogram, 0.0, None);
        let (least, most) = range(&survival, 2.0).unwrap();
        assert!(near(least, 0.25) && near(most, 0.25));
        // Along the line from 1 to 0.25: 0.625. Along 1/t^2: 1/2.25.
        let (least, most) = range(&survival, 1.5).unwrap();
        assert!(near(least, 1.0 / 2.25) && near(most, 0.625));
        assert_eq!(range(&survival, 5.0), None);
    }
}
