//! What the diagnoses look at.

use std::time::Duration;

use crate::effect::Known;
use crate::history::{Coverage, History};
use crate::latency::{Estimate, Finding, Sight};
use crate::survival::Survival;
use crate::tally::{Tally, tallies};
use crate::{Measures, Readings, Rules, Timestamp};

/// What the diagnoses look at.
pub(crate) struct Evidence<'a> {
    pub(super) rules: &'a Rules,
    /// What the latency reading says, or the bound that it gives.
    pub(super) finding: Result<&'a Estimate, &'a Finding>,
    /// The window of the latency reading.
    pub(super) window: Option<Duration>,
    /// What clients counted, narrowest window first.
    pub(super) tallies: Vec<Tally>,
    /// The delays in force, as far back as they are known.
    pub(super) history: History,
    pub(super) now: Timestamp,
}

impl<'a> Evidence<'a> {
    pub(crate) fn new(
        rules: &'a Rules,
        readings: &Readings,
        sight: &'a Sight,
        history: &History,
        now: Timestamp,
    ) -> Self {
        Self {
            rules,
            finding: sight.finding.as_ref(),
            window: sight.view.window,
            tallies: tallies(readings.counts.as_ref(), rules.max_staleness, now),
            history: history.clone(),
            now,
        }
    }

    pub(super) fn estimate(&self) -> Option<&'a Estimate> {
        self.finding.ok()
    }

    /// What clients counted over the window of the latency reading: the same calls.
    pub(super) fn beside_latency(&self) -> Option<&Tally> {
        let (estimate, window) = (self.estimate()?, self.window?);
        let apart = |tally: &Tally| tally.at.since(estimate.at).max(estimate.at.since(tally.at));
        self.tallies
            .iter()
            .find(|tally| tally.window == window && apart(tally) <= window / 4)
    }

    /// The measured `a`: the share of the calls past the delay that were hedged, over the window of the latency reading.
    pub(crate) fn hedged_share(&self) -> Option<f64> {
        let estimate = self.estimate()?;
        let passed = self
            .delay_of_latency()
            .and_then(|delay| estimate.calls.at(delay))
            .filter(|_| self.rules.measures == Measures::LogicalCall);
        self.beside_latency()?.hedged_share(passed)
    }

    /// The one delay, in seconds, at which all calls of the latency reading were hedged.
    pub(super) fn delay_of_latency(&self) -> Option<f64> {
        self.estimate()?.coverage.only_delay()
    }

    /// The smallest and the largest delay, in seconds, that the hedges of `tally` had, where the history reaches as far.
    pub(super) fn delays_of(&self, tally: &Tally) -> Option<(f64, f64)> {
        let longest = self.rules.windows.max_window.max(self.rules.windows.window);
        let coverage = self
            .history
            .coverage(tally.at, tally.window, self.rules.propagation);
        let parts = coverage.parts();
        let known = tally.window <= longest;
        known.then_some((parts.first()?.delay, parts.last()?.delay))
    }

    /// The one delay, in seconds, at which all calls of `tally` were hedged.
    pub(super) fn delay_of(&self, tally: &Tally) -> Option<f64> {
        self.coverage(tally).only_delay()
    }

    fn coverage(&self, tally: &Tally) -> Coverage {
        self.history
            .coverage(tally.at, tally.window, self.rules.propagation)
    }

    /// The survival of one attempt, with the share that was hedged as counted where that matters.
    pub(super) fn attempt(&self) -> Option<Survival> {
        let estimate = self.estimate()?;
        match (self.rules.measures, &estimate.coverage) {
            (Measures::LogicalCall, Coverage::Wholly(parts)) => {
                Some(estimate.calls.of_attempt_hedged(parts, self.hedged_share()?))
            }
            (Measures::LogicalCall, Coverage::Partly(_)) => None,
            _ => Some(estimate.attempt.clone()),
        }
    }

    /// What the effect of hedging is computed from.
    pub(crate) fn known(&self, independent: bool) -> Option<Known<'a>> {
        let estimate = self.estimate()?;
        Some(Known {
            calls: &estimate.calls,
            attempt: &estimate.attempt,
            coverage: &estimate.coverage,
            hedged_share: self.hedged_share(),
            independent,
        })
    }
}
