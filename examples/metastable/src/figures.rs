//! The arithmetic: from calls to the figures of a table.

use std::ops::Range;

use crate::timeline::{BROWN_OUT, END, STRETCHES};
use crate::world::Ended;

/// The service is back when the median is no more than this many times what it was before, and stays so.
const BACK_UNDER: f64 = 1.5;
/// Medians of so many seconds each are compared.
const STEP: f64 = 5.0;

/// What became of the calls of one way; times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figures {
    /// The median and the 99th percentile in each stretch.
    pub(crate) stretches: Vec<[f64; 2]>,
    /// How long after the brown-out the service was back; `None` when it was not until the end.
    pub(crate) back_after: Option<f64>,
    /// Attempts per call in all.
    pub(crate) attempts_per_call: f64,
}

impl Figures {
    /// From all calls, in any order.
    pub(crate) fn new(ended: &[Ended], attempts: u64) -> Self {
        let before = quantiles(ended, &STRETCHES[0].1, [0.5])[0];
        let steps = ((END - BROWN_OUT.end) / STEP) as u32;
        let is_back = |step: &u32| {
            let from = BROWN_OUT.end + f64::from(*step) * STEP;
            quantiles(ended, &(from..from + STEP), [0.5])[0] <= BACK_UNDER * before
        };
        let slow = (0..steps).rev().find(|step| !is_back(step));
        let back = slow.map_or(0, |slow| slow + 1);
        Self {
            stretches: STRETCHES
                .iter()
                .map(|(_, stretch)| quantiles(ended, stretch, [0.5, 0.99]))
                .collect(),
            back_after: (back < steps).then(|| f64::from(back) * STEP),
            attempts_per_call: attempts as f64 / ended.len() as f64,
        }
    }
}

/// Quantiles of the calls that came in a stretch of time.
fn quantiles<const N: usize>(ended: &[Ended], stretch: &Range<f64>, quantiles: [f64; N]) -> [f64; N] {
    let came = ended.iter().filter(|call| stretch.contains(&call.at));
    let mut took: Vec<f64> = came.map(|call| call.took).collect();
    took.sort_by(f64::total_cmp);
    quantiles.map(|q| percentile(&took, q).unwrap_or(f64::NAN))
}

/// The smallest of sorted values that at least a share `q` of them does not exceed.
pub(crate) fn percentile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "sums of small whole numbers are exact")]
mod tests {
    use super::{Figures, percentile};
    use crate::timeline::{BROWN_OUT, END};
    use crate::world::Ended;

    #[test]
    fn a_percentile_is_a_value_that_was_seen() {
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), Some(500.0));
        assert_eq!(percentile(&values, 0.99), Some(990.0));
        assert_eq!(percentile(&values[..1], 0.0), Some(1.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    /// A call every second that took 1 s, and 4 s from the brown-out until so long after it.
    fn slow_until(after: f64) -> Figures {
        let seconds = (0..).map(f64::from).take_while(|at| *at < END);
        let slow = BROWN_OUT.start..BROWN_OUT.end + after;
        let ended: Vec<_> = seconds
            .map(|at| Ended {
                at,
                took: if slow.contains(&at) { 4.0 } else { 1.0 },
            })
            .collect();
        Figures::new(&ended, 2 * ended.len() as u64)
    }

    #[test]
    fn a_service_is_back_when_it_is_and_stays_as_before() {
        assert_eq!(slow_until(0.0).back_after, Some(0.0));
        // Of the five seconds from 20 s on three are slow.
        assert_eq!(slow_until(23.0).back_after, Some(25.0));
        assert_eq!(slow_until(180.0).back_after, None);
        assert_eq!(
            slow_until(50.0).stretches,
            [[1.0, 1.0], [4.0, 4.0], [4.0, 4.0], [1.0, 4.0]]
        );
        assert_eq!(slow_until(0.0).attempts_per_call, 2.0);
    }
}
