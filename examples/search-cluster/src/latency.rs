//! How long a read takes.

use std::time::Duration;

use rand::{Rng, RngExt as _};

/// Read latency at some quantiles, in seconds: the help desk's figures, with ends that make the curve whole.
///
/// Two of its reads in a hundred take longer than a second, each replica for itself.
const QUANTILES: [(f64, f64); 6] = [
    (0.0, 0.05),
    (0.5, 0.15),
    (0.95, 0.5),
    (0.98, 1.0),
    (0.99, 3.0),
    (1.0, 6.0),
];

/// The latency at quantile `u` in `[0, 1]`, in seconds: log-linear between the figures known.
pub(crate) fn quantile(u: f64) -> f64 {
    let above = QUANTILES
        .partition_point(|&(q, _)| q <= u)
        .clamp(1, QUANTILES.len() - 1);
    let ((q0, t0), (q1, t1)) = (QUANTILES[above - 1], QUANTILES[above]);
    let share = ((u - q0) / (q1 - q0)).clamp(0.0, 1.0);
    t0 * (t1 / t0).powf(share)
}

/// Draws a latency `factor` times the help desk's.
pub(crate) fn draw(random: &mut impl Rng, factor: f64) -> Duration {
    Duration::try_from_secs_f64(factor * quantile(random.random::<f64>())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_known_are_on_the_curve() {
        for (u, seconds) in QUANTILES {
            assert!((quantile(u) - seconds).abs() < 1e-9, "{u}: {}", quantile(u));
        }
        // Half-way between p50 and p95 in rank is half-way in logarithm: sqrt(0.15 x 0.5) = 0.2739.
        assert!((quantile(0.725) - 0.273_861).abs() < 1e-6);
    }

    #[test]
    fn latency_rises_with_the_quantile_and_never_leaves_the_curve() {
        let curve: Vec<f64> = (0..=1000).map(|i| quantile(f64::from(i) / 1000.0)).collect();
        assert!(curve.is_sorted());
        assert!(quantile(-1.0) >= 0.05 && quantile(2.0) <= 6.0);
    }

    #[test]
    fn two_reads_in_a_hundred_take_longer_than_a_second() {
        let mut random = rand::rng();
        let late = (0..100_000)
            .filter(|_| draw(&mut random, 1.0).as_secs_f64() > 1.0)
            .count();
        // 2,000 expected, standard deviation 44.
        assert!((1_700..2_300).contains(&late), "{late}");
    }
}
