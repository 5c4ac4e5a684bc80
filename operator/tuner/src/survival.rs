//! How many calls are still unanswered after a time: `S(t)`.

use crate::Histogram;
use crate::quantile::{Quantile, quantile};

/// At most this many pieces per bucket when the hedged part is solved for.
const PIECES: u32 = 32;

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

/// How calls were hedged while a distribution was taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hedged {
    /// The smallest delay in use, in seconds.
    pub(crate) delay: f64,
    /// The largest budget in use, in hedges per call.
    pub(crate) budget: f64,
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

    /// The survival of one attempt, when this is that of calls of which some were hedged.
    ///
    /// Up to the delay a call is its first attempt. Above it `S(t) = S_L(t) / (1 - a (1 - S(t-d)))`, solved upwards and
    /// never rising; `a`, the share of calls past the delay that were hedged, is at most `min(1, B / S(d))`, which lets
    /// `S` and the delay come out too high rather than too low.
    pub(crate) fn of_attempt(&self, hedged: Hedged) -> Self {
        let Hedged { delay, budget } = hedged;
        let past_delay = self.at_most(delay);
        if delay <= 0.0 || delay >= self.last_bound() || past_delay <= 0.0 {
            return self.clone();
        }
        let calls = self.calls();
        let hedged_share = (budget / past_delay).clamp(0.0, 1.0);
        let mut solved = Self {
            knots: self
                .knots
                .iter()
                .copied()
                .take_while(|&(time, _)| time < delay)
                .collect(),
            ..self.clone()
        };
        solved.knots.push((delay, calls * (1.0 - past_delay)));
        solved.knots.push((f64::INFINITY, calls));
        let (mut time, mut last) = (delay, past_delay);
        for &bound in self.bounds.iter().filter(|&&bound| bound > delay) {
            let start = time;
            // Pieces no wider than the delay make S(t - d) known when S(t) is solved for.
            let pieces = (1..PIECES)
                .find(|&pieces| (bound - start) <= delay * f64::from(pieces))
                .unwrap_or(PIECES);
            for piece in 1..=pieces {
                let next = if piece == pieces {
                    bound
                } else {
                    start + (bound - start) * f64::from(piece) / f64::from(pieces)
                };
                if next <= time {
                    continue;
                }
                let before = next - delay;
                // S_L is never above S: where S is not solved yet it is the safe stand-in.
                let unanswered_before = if before <= time {
                    solved.at_most(before)
                } else {
                    self.at_most(before)
                };
                let still_unhedged = 1.0 - hedged_share * (1.0 - unanswered_before);
                let seen = self.at_most(next);
                last = if still_unhedged > 0.0 {
                    last.min(seen / still_unhedged)
                } else {
                    last.min(seen.ceil())
                };
                solved
                    .knots
                    .insert(solved.knots.len() - 1, (next, calls * (1.0 - last)));
                time = next;
            }
        }
        solved
    }
}
