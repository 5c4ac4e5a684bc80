//! The delay that a window's distribution asks for, or why it gives none.

use std::rc::Rc;
use std::time::Duration;

use crate::binomial::unlikely;
use crate::delay::{self, Aim, Asked, Evidence, SlowMode, Target, aim, line_above, proved_by_share, target};
use crate::effect::Known;
use crate::history::Coverage;
use crate::memory::Memory;
use crate::observation::{
    Observation, censoring_unseen, counted, hedging_in, least_while_unseen, may_miss_the_cut_short,
};
use crate::survival::Survival;
use crate::tally::Tally;
use crate::{Measures, Quantile, Rules, Timestamp, Unknown, UnknownReason, WindowReading, messages};

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
    pub(crate) observation: Observation<'a>,
}

/// What the calls of one window say of single attempts.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// When the newest sample was taken.
    pub(crate) at: Timestamp,
    /// The window, which ends then.
    pub(crate) window: Duration,
    /// The calls as observed.
    pub(crate) calls: Rc<Survival>,
    /// One attempt.
    pub(crate) attempt: Rc<Survival>,
    /// How calls were hedged in the window, whether or not the observations show it.
    pub(crate) coverage: Coverage,
    /// The smallest delay, in seconds, that what is observed was hedged at; `None` where observations are not hedged.
    pub(crate) hedged_from: Option<f64>,
    /// The one delay, in seconds, that all calls were hedged at.
    pub(crate) only_delay: Option<f64>,
    /// The attempt's median in seconds.
    pub(crate) p50: f64,
}

impl Observed {
    /// What the effect of hedging is computed from, with the share of the calls past the delay that was hedged.
    pub(crate) fn known(&self, hedged_share: Option<f64>, independent: bool) -> Known<'_> {
        Known {
            calls: &self.calls,
            attempt: &self.attempt,
            coverage: &self.coverage,
            delay: self.only_delay,
            hedged_share,
            independent,
        }
    }
}

/// What a reading is seen against.
pub(crate) struct Look<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) memory: &'a Memory,
    /// What clients counted, narrowest window first.
    pub(crate) tallies: &'a [Tally],
    /// The delay that clients hedge at, in milliseconds, if they do.
    pub(crate) in_force_ms: Option<f64>,
    pub(crate) at: Timestamp,
    pub(crate) now: Timestamp,
    /// Clients count the calls that the latency metric measures, as far as is known.
    pub(crate) counters_agree: bool,
    /// Replicas are slow at the same time.
    pub(crate) slow_together: bool,
}

impl Look<'_> {
    /// The calls of a window, as if each were one attempt.
    pub(crate) fn seen(&self, calls: &Rc<Survival>, window: Duration) -> Observed {
        let (history, at, propagation) = (&self.memory.history, self.at, self.rules.propagation);
        let coverage = history.coverage(at, window, propagation);
        Observed {
            at,
            window,
            p50: calls.quantile(0.5).at_least(),
            attempt: Rc::clone(calls),
            calls: Rc::clone(calls),
            hedged_from: hedging_in(self.rules, &coverage).smallest_delay(),
            only_delay: history.only_delay(&coverage, at, window, propagation),
            coverage,
        }
    }

    /// What the calls of a window say of single attempts; `None` when there were none.
    fn observed(&self, seen: &Seen<'_>) -> Option<Observed> {
        let calls = seen.observation.survival()?;
        Some(self.understood(self.seen(&calls, seen.reading.window)))
    }

    /// The same, of calls that were `seen`.
    pub(crate) fn understood(&self, seen: Observed) -> Observed {
        let Observed { calls, window, .. } = &seen;
        // A longer window says nothing of these: hedges may have been kept back in the rest of it.
        let same_calls = |tally: &&Tally| self.counters_agree && tally.window == *window;
        let counted = self.counted(*window).filter(same_calls);
        let hedged_at_most = counted.and_then(Tally::hedged_at_most);
        let hedged = hedging_in(self.rules, &seen.coverage);
        let attempt = calls.of_attempt(hedged.parts(), hedged_at_most);
        Observed {
            p50: attempt.quantile(0.5).at_least(),
            attempt,
            ..seen
        }
    }

    /// What clients counted over a latency window, if over a window that covers it.
    fn counted(&self, window: Duration) -> Option<&Tally> {
        counted(self.tallies, self.at, window)
    }

    /// The delay that an estimate may not go under, where attempts cut short may be unseen.
    pub(crate) fn least_while_unseen(&self, reading: &WindowReading, observed: &Observed) -> Option<f64> {
        let is_counted = self.counted(reading.window).is_some();
        if is_counted || !may_miss_the_cut_short(self.rules, reading) {
            return None;
        }
        least_while_unseen(&observed.calls, &observed.coverage)
    }

    /// The delay that is asked for by what was `observed` in the `chosen` of the windows, which the ones before it must not
    /// contradict; notes a slow mode.
    pub(crate) fn found(
        &self,
        windows: &[Seen<'_>],
        chosen: usize,
        observed: &Observed,
        slow_mode: &mut Option<SlowMode>,
    ) -> Result<Target, Finding> {
        let (rules, attempt, p50) = (self.rules, &observed.attempt, observed.p50);
        let name = || messages::percentile(rules.delay.quantile);
        let nothing = |why| Finding::Nothing { since: self.now, why };
        let Some(reading) = windows.get(chosen).map(|chosen| chosen.reading) else {
            return Err(nothing(Unknown::new(
                UnknownReason::BadResponse,
                "no window was read",
            )));
        };
        if let Some(why) = censoring_unseen(rules, reading, self.counted(reading.window)) {
            return Err(nothing(why));
        }
        if let Some(why) = self.implausible(reading, p50) {
            return Err(nothing(why));
        }
        let aim = self.aim(windows, chosen, observed, slow_mode);
        let quantile = attempt.quantile(aim.quantile);
        let proved = self
            .proved(observed, aim)
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
        for narrower in &windows[..chosen] {
            let window = narrower.reading.window;
            let narrow = self.observed(narrower).map(|narrow| narrow.attempt);
            if let Some(why) = narrow.and_then(|narrow| contradiction(aim.share, &narrow, estimate, window)) {
                return Err(nothing(why));
            }
        }
        let least = self.least_while_unseen(reading, observed);
        let asked = || Some(target(rules, attempt, aim, quantile)?.no_shorter_than(least));
        proved.or_else(asked).ok_or_else(|| {
            let estimate_ms = messages::milliseconds(estimate);
            let message = format!("{} is {estimate_ms}, which is no delay", name());
            nothing(Unknown::new(UnknownReason::OutOfRange, message))
        })
    }

    /// A first reading whose median is above the deadline has the wrong unit. Later it is a slow service.
    ///
    /// So has one of whose answers half are beyond a last bound at the deadline: those that time out are not among them. Where
    /// clients hedge that is evidence first, against the delay that they hedge at.
    fn implausible(&self, reading: &WindowReading, p50: f64) -> Option<Unknown> {
        let deadline = self.rules.deadline?;
        if self.memory.accepted.as_ref() == Some(&self.rules.measure) {
            return None;
        }
        let is_above = p50 > deadline.as_secs_f64();
        let answered = reading
            .distribution
            .as_ref()
            .ok()
            .map(|answered| answered.quantile(0.5));
        let is_beyond = self.in_force_ms.is_none()
            && matches!(answered, Some(Quantile::AtLeast(bound)) if bound >= deadline.as_secs_f64());
        (is_above || is_beyond).then(|| {
            let reads = match answered {
                Some(Quantile::Estimate { .. }) => "reads",
                Some(Quantile::AtLeast(_)) | None => "is at least",
            };
            let (p50, deadline) = (messages::milliseconds(p50), messages::duration(deadline));
            Unknown::new(
                UnknownReason::ImplausibleUnit,
                format!("p50 {reads} {p50} with a deadline of {deadline}: is the unit right?"),
            )
        })
    }

    /// The share of the calls that shall pass the delay. That a slow mode is gone is told by the longest window that it governed.
    fn aim(
        &self,
        windows: &[Seen<'_>],
        chosen: usize,
        observed: &Observed,
        slow_mode: &mut Option<SlowMode>,
    ) -> Aim {
        let governed = slow_mode
            .and_then(|mode| mode.governs_for(self.now))
            .unwrap_or_default();
        let longest = windows.iter().rposition(|seen| seen.reading.window <= governed);
        let wide = longest
            .filter(|&longest| longest > chosen)
            .and_then(|longest| self.observed(&windows[longest]));
        let since_then = wide.as_ref().unwrap_or(observed);
        let evidence = Evidence {
            attempt: &observed.attempt,
            calls: &observed.calls,
            since_then: delay::Seen {
                calls: &since_then.calls,
                attempt: &since_then.attempt,
                hedged_from: since_then.hedged_from,
            },
            slow_together: self.slow_together,
        };
        aim(&Asked::by(self.rules), &evidence, slow_mode, self.now)
    }

    /// The delay in force as its own target, where calls as they are hedged prove it.
    fn proved(&self, observed: &Observed, aim: Aim) -> Option<Target> {
        if self.rules.measures != Measures::LogicalCall {
            return None;
        }
        let in_force = self.in_force_ms.map(|delay_ms| delay_ms / 1e3);
        let (attempt, hedged_from) = (&observed.attempt, observed.hedged_from);
        proved_by_share(self.rules, attempt, aim, in_force, hedged_from, &observed.calls)
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
fn contradiction(share: f64, narrow: &Survival, estimate: f64, window: Duration) -> Option<Unknown> {
    let calls = narrow.worth(1.0 - share);
    let longer = calls * narrow.at_most(estimate);
    unlikely(longer, calls, share).then(|| {
        let (estimate, window) = (messages::milliseconds(estimate), messages::duration(window));
        Unknown::new(
            UnknownReason::TooFewSamples,
            format!("{longer:.0} of the last {calls:.0} calls ({window}) took longer than the {estimate} of a wider window"),
        )
    })
}
