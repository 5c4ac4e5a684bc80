//! What a count says about the share behind it.

/// The standard normal quantile of 99 %: each bound is wrong once in a hundred looks, on its own side.
///
/// A target is looked at some thousand times a month on windows that share no call, and 95 % is not enough for that:
/// simulated for 30 days, a service whose hedges win one time in twelve was called one without benefit several times.
const Z: f64 = 2.326_347_874;

/// The 99 % lower bound of the share behind `successes` of `trials`, in `[0, 1]`.
pub(crate) fn lower(successes: f64, trials: f64) -> f64 {
    interval(successes, trials).0
}

/// The 99 % upper bound of the share behind `successes` of `trials`, in `[0, 1]`.
pub(crate) fn upper(successes: f64, trials: f64) -> f64 {
    interval(successes, trials).1
}

/// Wilson's score interval, each side by itself (E. B. Wilson, JASA 22, 1927). Everything when nothing was tried.
fn interval(successes: f64, trials: f64) -> (f64, f64) {
    if !(trials > 0.0 && trials.is_finite() && successes >= 0.0) {
        return (0.0, 1.0);
    }
    let share = (successes / trials).min(1.0);
    let weight = Z * Z / trials;
    let middle = share + weight / 2.0;
    let reach = (weight * (share * (1.0 - share) + weight / 4.0)).sqrt();
    let bound = |bound: f64| (bound / (1.0 + weight)).clamp(0.0, 1.0);
    (bound(middle - reach), bound(middle + reach))
}

#[cfg(test)]
mod tests {
    use super::{lower, upper};

    #[test]
    fn bounds_are_wilsons() {
        // z = 2.3263. 0 of 200: z2/(n + z2) = 5.4119/205.4119 = 2.635 %; 200 of 200 mirrors it.
        assert!((upper(0.0, 200.0) - 0.026_347).abs() < 1e-5);
        assert!(lower(0.0, 200.0).abs() < 1e-12);
        assert!((lower(200.0, 200.0) - 0.973_653).abs() < 1e-5);
        // 30 of 100, by hand: (0.3 + 0.027059 -+ sqrt(0.054119 (0.21 + 0.013530))) / 1.054119.
        assert!(
            (lower(30.0, 100.0) - 0.205_925).abs() < 1e-5,
            "{}",
            lower(30.0, 100.0)
        );
        assert!(
            (upper(30.0, 100.0) - 0.414_609).abs() < 1e-5,
            "{}",
            upper(30.0, 100.0)
        );
    }

    #[test]
    fn nothing_tried_says_nothing() {
        for (successes, trials) in [(0.0, 0.0), (f64::NAN, 10.0), (1.0, f64::INFINITY), (-1.0, 10.0)] {
            assert!(lower(successes, trials).abs() < 1e-12 && upper(successes, trials) > 1.0 - 1e-12);
        }
        assert!(upper(30.0, 10.0) <= 1.0);
    }
}
