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
    /// next one, and where that overlaps the smaller delay has it.
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
            })
            .filter(|part| part.part > 0.0)
            .collect();
        parts.sort_by(|left, right| left.delay.total_cmp(&right.delay));
        let mut left = 1.0;
        for part in &mut parts {
            part.part = part.part.min(left);
            left -= part.part;
        }
        parts.retain(|part| part.part > 0.0);
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
