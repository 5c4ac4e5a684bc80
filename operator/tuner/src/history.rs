//! The delays and budgets that clients were told, as far back as a reading looks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::survival::Hedged;
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

/// How much of a window was hedged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Coverage {
    /// Nothing.
    Unhedged,
    /// Some of it.
    Partly(Hedged),
    /// All of it.
    Wholly(Hedged),
}

impl Coverage {
    /// How calls were hedged, if any were.
    pub(crate) fn hedged(self) -> Option<Hedged> {
        match self {
            Self::Unhedged => None,
            Self::Partly(hedged) | Self::Wholly(hedged) => Some(hedged),
        }
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
    pub(crate) fn coverage(&self, at: Timestamp, window: Duration, propagation: Duration) -> Coverage {
        let start = at.minus(window).minus(propagation);
        let seen = self
            .0
            .iter()
            .filter(|stretch| stretch.from < at && stretch.until.is_none_or(|until| until > start));
        let hedged = seen
            .map(|stretch| Hedged {
                delay: stretch.delay_ms / 1e3,
                budget: stretch.percent / 100.0,
            })
            .reduce(|left, right| Hedged {
                delay: left.delay.min(right.delay),
                budget: left.budget.max(right.budget),
            });
        match hedged {
            None => Coverage::Unhedged,
            Some(hedged) if self.since().is_some_and(|since| since <= start) => Coverage::Wholly(hedged),
            Some(hedged) => Coverage::Partly(hedged),
        }
    }

    /// Since when hedging has been on without a break, if it is on.
    fn since(&self) -> Option<Timestamp> {
        let mut since = self.0.last().filter(|last| last.until.is_none())?.from;
        for stretch in self.0.iter().rev().skip(1) {
            if stretch.until != Some(since) {
                break;
            }
            since = stretch.from;
        }
        Some(since)
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
