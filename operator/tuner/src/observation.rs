//! What one observation of the latency histogram is, and what it says of a single attempt.

use std::rc::Rc;
use std::time::Duration;

use crate::history::Coverage;
use crate::survival::Survival;
use crate::tally::Tally;
use crate::{Histogram, Measures, Rules, Timestamp, Unknown, UnknownReason, WindowReading, messages};

/// So many hedges without one attempt cut short are no chance: of two attempts one loses.
const HEDGES_THAT_TELL: f64 = 20.0;
/// So many attempts longer than the delay, and clients that hedge would have cut some short.
const ATTEMPTS_THAT_TELL: f64 = 5.0;
/// The newest samples of the counters and of the latency may be so far apart, as a part of the window.
const COUNTED_APART: u32 = 10;

/// What was observed in one window.
#[derive(Clone, Copy)]
pub(crate) struct Observation<'a> {
    answered: Option<&'a Histogram>,
    cut_short: Option<&'a Histogram>,
    timeouts: f64,
    /// In seconds.
    deadline: Option<f64>,
}

impl<'a> Observation<'a> {
    /// What a reading observed.
    pub(crate) fn of(rules: &Rules, reading: &'a WindowReading) -> Result<Self, Unknown> {
        let timeouts = reading.timeouts.unwrap_or(0.0);
        if !timeouts.is_finite() || timeouts < 0.0 {
            let message = format!("{timeouts} calls timed out");
            return Err(Unknown::new(UnknownReason::OutOfRange, message));
        }
        let answered = match &reading.distribution {
            Ok(histogram) => Some(histogram),
            Err(why) if why.reason == UnknownReason::NoTraffic => None,
            Err(why) => return Err(why.clone()),
        };
        let deadline = rules.deadline.map(|deadline| deadline.as_secs_f64());
        let cut_short = cut_short(rules, reading);
        // Without a deadline nobody knows how long calls took that timed out, unless others were observed.
        let is_any = answered.is_some() || cut_short.is_some() || deadline.is_some();
        Ok(Self {
            answered,
            cut_short,
            timeouts: if is_any { timeouts } else { 0.0 },
            deadline,
        })
    }

    /// Calls, those that timed out included.
    pub(crate) fn calls(&self) -> f64 {
        let count = |histogram: Option<&Histogram>| histogram.map_or(0.0, Histogram::count);
        count(self.answered) + count(self.cut_short) + self.timeouts
    }

    /// How many of them were still unanswered after a time; `None` when nothing was counted.
    pub(crate) fn survival(&self) -> Option<Rc<Survival>> {
        let Self {
            answered,
            cut_short,
            timeouts,
            deadline,
        } = *self;
        let survival = match (answered, cut_short) {
            (_, Some(cut_short)) => Survival::censored(answered, cut_short, timeouts, deadline),
            (Some(histogram), None) => Survival::observed(histogram, timeouts, deadline),
            // No call ever answered: that is no lack of traffic.
            (None, None) if timeouts > 0.0 => Survival::all_timed_out(timeouts, deadline?),
            (None, None) => return None,
        };
        Some(Rc::new(survival))
    }
}

/// The attempts that were cut short: by a client that cancels losers, or where these run on by whoever called.
fn cut_short<'a>(rules: &Rules, reading: &'a WindowReading) -> Option<&'a Histogram> {
    let attempts = matches!(rules.measures, Measures::Attempt { .. });
    reading.cancelled.as_ref().filter(|_| attempts)
}

/// How the observations of a window were hedged: calls as their coverage says; attempts, and requests as a server sees them,
/// each stand for themselves.
pub(crate) fn hedging_in<'a>(rules: &Rules, coverage: &'a Coverage) -> &'a Coverage {
    match rules.measures {
        Measures::LogicalCall => coverage,
        Measures::Attempt { .. } | Measures::Server => &Coverage::Unhedged,
    }
}

/// What clients counted over the latency window that ends `at`, if over a window that covers it.
pub(crate) fn counted(tallies: &[Tally], at: Timestamp, window: Duration) -> Option<&Tally> {
    tallies
        .iter()
        .find(|counted| counted.window >= window && counted.apart(at) <= counted.window / COUNTED_APART)
}

/// Whether attempts may have been cut short of which nothing was seen.
pub(crate) fn may_miss_the_cut_short(rules: &Rules, reading: &WindowReading) -> bool {
    rules.measures == Measures::Attempt { losers_run_on: false } && reading.cancelled.is_none()
}

/// Attempts are cut short, for hedges are counted, and none was seen to be: their survival is not known.
pub(crate) fn censoring_unseen(
    rules: &Rules,
    reading: &WindowReading,
    counted: Option<&Tally>,
) -> Option<Unknown> {
    let hedges = counted?.hedges;
    (may_miss_the_cut_short(rules, reading) && hedges >= HEDGES_THAT_TELL).then(|| {
        let window = messages::duration(reading.window);
        Unknown::new(
            UnknownReason::CensoringUnseen,
            format!(
                "{hedges:.0} hedges in {window} and no attempt that was cut short: does outcomes.cancelled name what a \
                 cancelled attempt is counted as, or do losers run on?"
            ),
        )
    })
}

/// The delay, in seconds, that an estimate of these may not go under while attempts that were cut short may be unseen: some ran
/// past it while clients were told to hedge. Either clients do not, or the longest attempts are missing here.
pub(crate) fn least_while_unseen(attempts: &Survival, coverage: &Coverage) -> Option<f64> {
    let delay = coverage.smallest_delay()?;
    (attempts.calls() * attempts.at_most(delay) >= ATTEMPTS_THAT_TELL).then_some(delay)
}
