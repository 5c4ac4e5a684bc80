//! The delays and budgets that clients were told, as far back as a reading looks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::inversion::Hedged;
use crate::{Hedging, Timestamp};

/// More are merged towards the smallest delay.
const LONGEST: usize = 16;

/// The delays and budgets in force, oldest first; the last one may still be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct History(Vec<Stretch>);

/// A stretch of time with one delay and one budget.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stretch {
    delay_ms: f64,
    percent: f64,
    from: Timestamp,
    /// `None` while in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
}

/// How much of a window was hedged, and how: smallest delay first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Coverage {
    /// Nothing.
    Unhedged,
    /// Some of it.
    Partly(Vec<Hedged>),
    /// All of it.
    Wholly(Vec<Hedged>),
}

impl Coverage {
    /// How calls were hedged.
    pub(crate) fn parts(&self) -> &[Hedged] {
        match self {
            Self::Unhedged => &[],
            Self::Partly(parts) | Self::Wholly(parts) => parts,
        }
    }

    /// The smallest delay in use, in seconds: up to it a call is its first attempt.
    pub(crate) fn smallest_delay(&self) -> Option<f64> {
        self.parts().first().map(|part| part.delay)
    }
}

impl History {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes what clients are told from `now` on. What no window can see any more is forgotten.
    pub(crate) fn note(&mut self, hedging: Option<Hedging>, now: Timestamp, longest_window: Duration) {
        if let Some(last) = self.0.last_mut().filter(|last| last.until.is_none()) {
            if hedging.is_some_and(|hedging| last.tells(&hedging)) {
                return;
            }
            last.until = Some(now);
        } else if hedging.is_none() {
            return;
        }
        let oldest = now.minus(longest_window);
        self.0
            .retain(|stretch| stretch.until.is_none_or(|until| until >= oldest));
        if let Some(hedging) = hedging {
            self.0.push(Stretch {
                delay_ms: hedging.delay_ms,
                // `minPerSecond` allows hedges that no share bounds.
                percent: if hedging.min_per_second > 0.0 {
                    100.0
                } else {
                    hedging.percent
                },
                from: now,
                until: None,
            });
        }
        while self.0.len() > LONGEST {
            let oldest = self.0.remove(0);
            self.0[0].absorb(oldest);
        }
    }

    /// How calls were hedged in the `window` that ends `at`, when clients follow a document within `propagation`.
    ///
    /// Parts are by time, and as large as they can be: a delay counts from its document until `propagation` after the
    /// next one. Where that overlaps the smaller delay has it, and of one delay the larger budget; what a longer delay does not
    /// have is in doubt.
    pub(crate) fn coverage(&self, at: Timestamp, window: Duration, propagation: Duration) -> Coverage {
        let start = at.minus(window);
        let longest = window.as_secs_f64();
        let overlap = |stretch: &Stretch| {
            let until = stretch.until.map_or(at, |until| until.plus(propagation).min(at));
            until.since(stretch.from.max(start)).as_secs_f64()
        };
        let mut parts: Vec<_> = self
            .0
            .iter()
            .filter(|stretch| stretch.from < at)
            .map(|stretch| Hedged {
                delay: stretch.delay_ms / 1e3,
                budget: stretch.percent / 100.0,
                part: if longest > 0.0 {
                    overlap(stretch) / longest
                } else {
                    1.0
                },
                in_doubt: 0.0,
            })
            .filter(|part| part.part > 0.0)
            .collect();
        parts.sort_by(|left, right| {
            let by_delay = left.delay.total_cmp(&right.delay);
            by_delay.then(right.budget.total_cmp(&left.budget))
        });
        let mut left = 1.0;
        for part in &mut parts {
            let whole = part.part;
            part.part = whole.min(left);
            part.in_doubt = whole - part.part;
            left -= part.part;
        }
        let followed = start.minus(propagation);
        match parts.is_empty() {
            true => Coverage::Unhedged,
            false if self.since(at).is_some_and(|since| since <= followed) => Coverage::Wholly(parts),
            false => Coverage::Partly(parts),
        }
    }

    /// The smallest and the largest delay, in seconds, that a call in the `window` that ends `at` can have been hedged at, when
    /// clients follow a document within `propagation`.
    pub(crate) fn delays(
        &self,
        at: Timestamp,
        window: Duration,
        propagation: Duration,
    ) -> Option<(f64, f64)> {
        let start = at.minus(window);
        let followed = |stretch: &&Stretch| {
            let until = stretch.until.map_or(at, |until| until.plus(propagation));
            stretch.from < at && until > start
        };
        let delays = self
            .0
            .iter()
            .filter(followed)
            .map(|stretch| stretch.delay_ms / 1e3);
        delays
            .map(|delay| (delay, delay))
            .reduce(|(least, most), (delay, _)| (least.min(delay), most.max(delay)))
    }

    /// The one delay, in seconds, at which all calls in the `window` that ends `at` were hedged, whose `coverage` this is.
    pub(crate) fn only_delay(
        &self,
        coverage: &Coverage,
        at: Timestamp,
        window: Duration,
        propagation: Duration,
    ) -> Option<f64> {
        let Coverage::Wholly(_) = coverage else {
            return None;
        };
        let (least, most) = self.delays(at, window, propagation)?;
        least.total_cmp(&most).is_eq().then_some(least)
    }

    /// Since when hedging had been on without a break `at` that time, if it was on.
    fn since(&self, at: Timestamp) -> Option<Timestamp> {
        let mut since = None;
        for stretch in self.0.iter().rev().filter(|stretch| stretch.from < at) {
            let reaches = stretch.until.is_none_or(|until| until >= since.unwrap_or(at));
            if !reaches {
                break;
            }
            since = Some(stretch.from);
        }
        since
    }

    pub(crate) fn sane(mut self, now: Timestamp) -> Self {
        self.0.retain(|stretch| {
            stretch.delay_ms.is_finite() && stretch.delay_ms > 0.0 && stretch.percent >= 0.0
        });
        for stretch in &mut self.0 {
            stretch.from = stretch.from.min(now);
            stretch.until = stretch.until.map(|until| until.min(now));
        }
        self
    }
}

impl Stretch {
    fn tells(&self, hedging: &Hedging) -> bool {
        let same = |left: f64, right: f64| left.total_cmp(&right).is_eq();
        same(self.delay_ms, hedging.delay_ms)
            && (hedging.min_per_second > 0.0 || same(self.percent, hedging.percent))
    }

    fn absorb(&mut self, older: Self) {
        self.delay_ms = self.delay_ms.min(older.delay_ms);
        self.percent = self.percent.max(older.percent);
        self.from = older.from;
    }
}

#[cfg(test)]
mod tests {
    use super::{Coverage, History};
    use crate::inversion::Hedged;
    use crate::{Hedging, Timestamp};
    use std::time::Duration;

    const PROPAGATION: Duration = Duration::from_secs(90);
    const WINDOW: Duration = Duration::from_secs(600);

    /// What clients were told, each `(seconds, delay in ms, percent)`.
    fn told(orders: &[(u64, f64, f64)]) -> History {
        let mut history = History::default();
        for &(seconds, delay_ms, percent) in orders {
            let hedging = Hedging {
                delay_ms,
                min_remaining_ms: 100.0,
                percent,
                min_per_second: 0.0,
            };
            history.note(Some(hedging), at(seconds), Duration::from_secs(7200));
        }
        history
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000).plus(Duration::from_secs(seconds))
    }

    /// `(delay, budget, part, in doubt)` of each part of the window that ends after so many seconds.
    fn parts(history: &History, seconds: u64) -> Vec<[f64; 4]> {
        let coverage = history.coverage(at(seconds), WINDOW, PROPAGATION);
        let Coverage::Wholly(parts) = coverage else {
            panic!("hedged from end to end")
        };
        let numbers = |part: &Hedged| [part.delay, part.budget, part.part, part.in_doubt];
        parts.iter().map(numbers).collect()
    }

    fn assert_near(found: &[[f64; 4]], expected: &[[f64; 4]]) {
        let near = |(found, expected): (&[f64; 4], &[f64; 4])| {
            found
                .iter()
                .zip(expected)
                .all(|(found, expected)| (found - expected).abs() < 1e-9)
        };
        let alike = found.len() == expected.len() && found.iter().zip(expected).all(near);
        assert!(alike, "{found:?}, not {expected:?}");
    }

    #[test]
    fn a_longer_delay_that_clients_may_still_have_followed_is_in_doubt() {
        // 500 ms until the window began, followed for 90 s more; 400 ms all along: of 600 s.
        let history = told(&[(0, 500.0, 10.0), (1000, 400.0, 10.0)]);
        let expected = [[0.4, 0.1, 1.0, 0.0], [0.5, 0.1, 0.0, 0.15]];
        assert_near(&parts(&history, 1600), &expected);
        // The other way round the smaller one has the 90 s, and the longer one the rest.
        let history = told(&[(0, 400.0, 10.0), (1000, 500.0, 10.0)]);
        let expected = [[0.4, 0.1, 0.15, 0.0], [0.5, 0.1, 0.85, 0.15]];
        assert_near(&parts(&history, 1600), &expected);
    }

    #[test]
    fn of_the_budgets_of_a_ramp_clients_may_have_followed_the_larger() {
        // 2.5 % for 210 s of the window, 5 % for 210 s from 120 s on, 10 % for 360 s: the largest first, and 30 s are left.
        let history = told(&[(0, 500.0, 2.5), (1120, 500.0, 5.0), (1240, 500.0, 10.0)]);
        let expected = [
            [0.5, 0.1, 0.6, 0.0],
            [0.5, 0.05, 0.35, 0.0],
            [0.5, 0.025, 0.05, 0.3],
        ];
        assert_near(&parts(&history, 1600), &expected);
    }
}
