//! What the diagnoses look at.

use crate::finding::{Finding, Observed};
use crate::history::{Coverage, History};
use crate::tail::Attempt;
use crate::tally::Tally;
use crate::{Measures, Rules, Timestamp};

/// What the diagnoses look at.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(super) rules: &'a Rules,
    /// What the latency reading says, or the bound that it gives.
    pub(super) finding: Result<&'a Observed, &'a Finding>,
    /// What clients counted, narrowest window first.
    pub(super) tallies: &'a [Tally],
    /// The delays in force, as far back as they are known.
    pub(super) history: &'a History,
    pub(super) now: Timestamp,
    /// Clients count the calls that the latency metric measures, as far as is known.
    pub(super) counters_agree: bool,
}

impl<'a> Evidence<'a> {
    pub(crate) fn new(
        rules: &'a Rules,
        tallies: &'a [Tally],
        finding: Result<&'a Observed, &'a Finding>,
        history: &'a History,
        now: Timestamp,
    ) -> Self {
        Self {
            rules,
            finding,
            tallies,
            history,
            now,
            counters_agree: true,
        }
    }

    /// The same, given that clients count the calls that the latency metric measures, or that they do not.
    pub(crate) fn given(self, counters_agree: bool) -> Self {
        Self {
            counters_agree,
            ..self
        }
    }

    pub(super) fn observed(&self) -> Option<&'a Observed> {
        self.finding.ok()
    }

    /// What clients counted over the window of the latency reading: the same calls.
    pub(super) fn beside_latency(&self) -> Option<&'a Tally> {
        let &Observed { at, window, .. } = self.observed()?;
        self.tallies
            .iter()
            .find(|tally| tally.window == window && tally.apart(at) <= window / 4)
    }

    /// The measured `a`: the share of the calls past the delay that were hedged, over the window of the latency reading.
    pub(crate) fn hedged_share(&self) -> Option<f64> {
        let tally = self.beside_latency().filter(|_| self.counters_agree)?;
        tally.hedged_share(self.passed())
    }

    /// The share of calls that pass the delay, where it is a bucket's bound.
    fn passed(&self) -> Option<f64> {
        let calls = &self.observed()?.calls;
        let delay = self.delay_of_latency()?;
        let at_bound = calls
            .bounds()
            .iter()
            .any(|&bound| (bound - delay).abs() <= f64::EPSILON * delay);
        (at_bound && self.rules.measures == Measures::LogicalCall).then(|| calls.at_most(delay))
    }

    /// The one delay, in seconds, at which all calls of the latency reading were hedged.
    pub(super) fn delay_of_latency(&self) -> Option<f64> {
        self.observed()?.only_delay
    }

    /// The one delay, in seconds, at which all calls of `tally` were hedged.
    pub(super) fn delay_of(&self, tally: &Tally) -> Option<f64> {
        let (window, propagation) = (tally.window, self.rules.propagation);
        let coverage = self.history.coverage(tally.at, window, propagation);
        self.history.only_delay(&coverage, tally.at, window, propagation)
    }

    /// The smallest and the largest delay, in seconds, that the hedges of `tally` had, where the history reaches as far.
    pub(super) fn delays_of(&self, tally: &Tally) -> Option<(f64, f64)> {
        let longest = self.rules.windows.max_window.max(self.rules.windows.window);
        let known = tally.window <= longest;
        known.then(|| {
            self.history
                .delays(tally.at, tally.window, self.rules.propagation)
        })?
    }

    /// One attempt, with the share that was hedged as counted where the metric sees hedged calls.
    pub(super) fn attempt(&self) -> Option<Attempt<'a>> {
        let observed = self.observed()?;
        let (seen, hedged) = match (self.rules.measures, &observed.coverage) {
            (Measures::LogicalCall, Coverage::Unhedged) => (&*observed.calls, None),
            (Measures::LogicalCall, _) => (
                &*observed.calls,
                Some((self.delay_of_latency()?, self.hedged_share()?)),
            ),
            (Measures::Attempt { .. } | Measures::Server, _) => (&*observed.attempt, None),
        };
        Some(Attempt { seen, hedged })
    }
}
