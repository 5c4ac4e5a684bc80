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
