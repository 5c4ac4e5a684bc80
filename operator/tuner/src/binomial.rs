//! How unlikely a count is.

/// Whether `P(Bin(trials, p) >= successes)` is under 1 %.
///
/// Exact for up to about a hundred expected successes, normal with continuity correction beyond. Fractions, as increases
/// of counters have them, are rounded in the direction of "not unlikely".
pub(crate) fn unlikely(successes: f64, trials: f64, p: f64) -> bool {
    let (successes, trials) = (successes.floor(), trials.ceil());
    if !(successes >= 1.0 && trials >= successes && p > 0.0 && p < 1.0) {
        return false;
    }
    let variance = trials * p * (1.0 - p);
    if variance > 100.0 {
        return (successes - 0.5 - trials * p) / variance.sqrt() > 2.326;
    }
    let mut probability = (trials * (-p).ln_1p()).exp();
    let (mut below, mut count) = (0.0, 0.0);
    while count < successes {
        below += probability;
        probability *= (trials - count) / (count + 1.0) * p / (1.0 - p);
        count += 1.0;
        if count > trials * p && probability < 1e-12 {
            break;
        }
    }
    1.0 - below < 0.01
}

#[cfg(test)]
mod tests {
    use super::unlikely;

    #[test]
    fn exact_tails_are_told_apart_at_one_per_cent() {
        // P(Bin(20, 5 %) >= 4) = 1.59 %, >= 5: 0.26 %.
        assert!(!unlikely(4.0, 20.0, 0.05));
        assert!(unlikely(5.0, 20.0, 0.05));
        // P(Bin(3, 5 %) >= 2) = 0.725 %.
        assert!(unlikely(2.0, 3.0, 0.05));
        assert!(!unlikely(1.0, 3.0, 0.05));
    }

    #[test]
    fn many_calls_use_the_normal_tail() {
        // 10 000 calls of which 500 are expected, sigma 21.8: 2.326 sigma is 550.7, with half a call of correction 551.2.
        assert!(!unlikely(551.0, 10_000.0, 0.05));
        assert!(unlikely(552.0, 10_000.0, 0.05));
    }

    #[test]
    fn nothing_is_unlikely_about_nothing() {
        assert!(!unlikely(0.0, 0.0, 0.05));
        assert!(!unlikely(f64::NAN, 10.0, 0.05));
        assert!(!unlikely(10.0, f64::INFINITY, 0.05));
    }
}
