//! The delay that a window's distribution asks for, or why it gives none.

use std::rc::Rc;
use std::time::Duration;

use crate::binomial::unlikely;
use crate::delay::{Target, line_above, proved_by_share, target};
use crate::history::Coverage;
use crate::memory::Memory;
use crate::observation::{censoring_unseen, counted, hedging_in, least_while_unseen, may_miss_the_cut_short};
use crate::survival::Survival;
use crate::{Counts, Measures, Quantile, Rules, Timestamp, Unknown, UnknownReason, WindowReading, messages};

/// A reading that gives no delay.
#[derive(Clone, Debug)]
pub(crate) enum Finding {
    /// The quantile, and the median, are at least this, in seconds.
    AtLeast { bound: f64, p50: f64, why: Unknown },
    /// Nothing is known since.
    Nothing { since: Timestamp, why: Unknown },
}

/// One window of the reading.
pub(crate) struct Seen<'a> {
    pub(crate) reading: &'a WindowReading,
    /// `None` when nothing was counted.
    pub(crate) calls: Option<Rc<Survival>>,
}

/// What a reading is seen against.
pub(crate) struct Look<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) memory: &'a Memory,
    pub(crate) counts: Option<&'a Counts>,
    pub(crate) at: Timestamp,
    pub(crate) now: Timestamp,
}

impl Look<'_> {
    fn coverage(&self, window: Duration) -> Coverage {
        self.memory
            .history
            .coverage(self.at, window, self.rules.propagation)
    }

    /// One attempt, by the calls of a window, and how those were hedged.
    pub(crate) fn attempt(&self, calls: &Rc<Survival>, window: Duration) -> (Rc<Survival>, Coverage) {
        let counted = counted(self.counts, self.at, window);
        let hedged_at_most = counted.and_then(|counted| counted.hedged_at_most());
        let hedged = hedging_in(self.rules, self.coverage(window));
        (calls.of_attempt(hedged.parts(), hedged_at_most), hedged)
    }

    /// The delay that an estimate may not go under, where attempts cut short may be unseen.
    pub(crate) fn least_while_unseen(&self, reading: &WindowReading, calls: &Survival) -> Option<f64> {
        let is_counted = counted(self.counts, self.at, reading.window).is_some();
        if is_counted || !may_miss_the_cut_short(self.rules, reading) {
            return None;
        }
        least_while_unseen(calls, &self.coverage(reading.window))
    }

    /// The attempt's median and the delay that it asks for, by the last of the windows, which the ones before it must not
    /// contradict.
    pub(crate) fn found(
        &self,
        windows: &[Seen<'_>],
        attempt: &Survival,
        hedged: &Coverage,
        in_force_ms: Option<f64>,
        least: Option<f64>,
    ) -> Result<(f64, Target), Finding> {
        let rules = self.rules;
        let name = || messages::percentile(rules.delay.quantile);
        let nothing = |why| Finding::Nothing { since: self.now, why };
        let Some((chosen, narrower)) = windows.split_last() else {
            return Err(nothing(Unknown::new(
                UnknownReason::BadResponse,
                "no window was read",
            )));
        };
        let counted = counted(self.counts, self.at, chosen.reading.window);
        if let Some(why) = censoring_unseen(rules, chosen.reading, counted.as_ref()) {
            return Err(nothing(why));
        }
        let (quantile, p50) = (
            attempt.quantile(rules.delay.quantile),
            attempt.quantile(0.5).at_least(),
        );
        if let Some(why) = implausible(rules, self.memory, p50) {
            return Err(nothing(why));
        }
        let proved = in_force_ms
            .filter(|_| rules.measures == Measures::LogicalCall)
            .map(|delay_ms| delay_ms / 1e3)
            .filter(|&delay| hedged.smallest_delay().is_none_or(|limit| delay <= limit))
            .and_then(|delay| {
                let seen = chosen.calls.as_ref()?.quantile(rules.delay.quantile);
                proved_by_share(rules, attempt, delay, seen)
            })
            .filter(|proved| line_above(rules, proved, p50, self.memory.latch).is_none());
        let estimate = match (proved, quantile) {
            (Some(proved), _) => proved.delay,
            (None, Quantile::Estimate { seconds, .. }) => seconds,
            (None, Quantile::AtLeast(bound)) => {
                let bound_ms = messages::milliseconds(bound);
                let message = format!(
                    "{} is at least {bound_ms}, which is all that the buckets say",
                    name()
                );
                let why = Unknown::new(UnknownReason::AboveTopBucket, message);
                return Err(Finding::AtLeast { bound, p50, why });
            }
        };
        for narrower in narrower {
            let window = narrower.reading.window;
            let narrow = narrower.calls.as_ref().map(|calls| self.attempt(calls, window).0);
            if let Some(why) = narrow.and_then(|narrow| contradiction(rules, &narrow, estimate, window)) {
                return Err(nothing(why));
            }
        }
        let asked = || Some(target(rules, attempt, quantile)?.no_shorter_than(least));
        let target = proved.or_else(asked).ok_or_else(|| {
            let estimate_ms = messages::milliseconds(estimate);
            let message = format!("{} is {estimate_ms}, which is no delay", name());
            nothing(Unknown::new(UnknownReason::OutOfRange, message))
        })?;
        Ok((p50, target))
    }
}

impl Finding {
    /// Why there is no delay.
    pub(crate) const fn why(&self) -> &Unknown {
        match self {
            Self::AtLeast { why, .. } | Self::Nothing { why, .. } => why,
        }
    }
}

/// A wider window may not contradict a narrower one: a drop of traffic in an incident would bring the time before the
/// incident back into view, and hedging with it.
fn contradiction(rules: &Rules, narrow: &Survival, estimate: f64, window: Duration) -> Option<Unknown> {
    let calls = narrow.worth(rules.delay.quantile);
    let longer = calls * narrow.at_most(estimate);
    unlikely(longer, calls, 1.0 - rules.delay.quantile).then(|| {
        let (estimate, window) = (messages::milliseconds(estimate), messages::duration(window));
        Unknown::new(
            UnknownReason::TooFewSamples,
            format!("{longer:.0} of the last {calls:.0} calls ({window}) took longer than the {estimate} of a wider window"),
        )
    })
}

/// A first reading whose median is above the deadline has the wrong unit. Later it is a slow service.
fn implausible(rules: &Rules, memory: &Memory, p50: f64) -> Option<Unknown> {
    let deadline = rules.deadline?;
    (memory.accepted.as_ref() != Some(&rules.measure) && p50 > deadline.as_secs_f64()).then(|| {
        let (p50, deadline) = (messages::milliseconds(p50), messages::duration(deadline));
        Unknown::new(
            UnknownReason::ImplausibleUnit,
            format!("p50 reads {p50} with a deadline of {deadline}: is the unit right?"),
        )
    })
}
