//! The closed loop: what clients count of their hedges corrects the delay within the bucket that holds the percentile.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::delay::{Aim, Bracket, Placed, Target, bounded_ms, place};
use crate::memory::Memory;
use crate::survival::Survival;
use crate::{Counts, LimitedBy, Rules, Timestamp, WindowCounts};

/// A measurement holds at least this many calls, divided by the percentile's share: 800 for the p95.
const CALLS: f64 = 40.0;
/// The windows that the counters are read over. Few, so that many targets share a query.
const LADDER: [Duration; 7] = [
    Duration::from_secs(60),
    Duration::from_secs(120),
    Duration::from_secs(300),
    Duration::from_secs(600),
    Duration::from_secs(1200),
    Duration::from_secs(1800),
    LONGEST,
];
const LONGEST: Duration = Duration::from_secs(3600);
/// One that found the share right ends, and the next begins, with so many, divided likewise: the margin is then four
/// standard deviations.
const CALLS_TO_END: f64 = 256.0;
/// A share that is off by less than this factor, as a logarithm, is right ...
const MARGIN: f64 = 0.25;
/// ... under a slow mode, where it hardly depends on the delay, one that is too small by less than this ...
const MARGIN_BELOW: f64 = 0.405;
/// ... and one that is off by fewer standard deviations: a measurement is looked at again and again as it grows.
const DEVIATIONS: f64 = 4.0;
/// How steep the share is taken to be against the delay, as logarithms, before steps have shown more.
const STEEPNESS: f64 = 1.0 / 0.3;
/// It is not taken to be steeper than this.
const STEEPEST: f64 = 40.0;
/// Delays nearer to each other than this, as logarithms, tell nothing of it.
const APART: f64 = 0.01;
/// The delay goes down by no more than this at a time ...
const DOWN: f64 = -0.1;
/// ... and up by no more than this.
const UP: f64 = 0.4;
/// With not one hedge seen it goes no further down than to this part of its bucket's upper edge.
const UNSEEN: f64 = 1.0 / 2.5;
/// Hedges from this part of the budget on: it may bind, and hide how many calls would be hedged.
const BINDS: f64 = 0.8;

/// What clients counted over calls that the document in force governed, and that no finished measurement has seen before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measurement {
    /// Calls, above zero.
    pub(crate) calls: f64,
    /// Hedges sent.
    pub(crate) hedges: f64,
    /// Hedges kept back.
    pub(crate) blocked: Option<f64>,
}

/// The last measurement that moved the delay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stepped {
    /// The delay that it measured, in milliseconds.
    delay_ms: f64,
    /// The share of the calls that passed it.
    share: f64,
    /// How steep that share has been found to be against the delay, as logarithms.
    steepness: f64,
}

/// What the counters say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Counted {
    /// Nothing, for so long that they are no help, or nothing that could be.
    Unknown,
    /// They are known, and that calls are too few for them to say anything.
    Quiet,
    /// They are, or were a moment ago, known; nothing new is to be learned from them yet.
    Known,
    /// A new measurement.
    Measured(Measurement),
}

/// Reads the counters at `now`; notes in `memory` what has been measured, and since when they are unknown.
///
/// `(hedges + blocked) / calls` is the share of calls that passed the delay, whatever buckets say. It is measured on calls
/// that began when clients had followed the last document, so that what a step does is seen before the next one: stepping
/// every 30 s on a window of 10 min swings the delay by a factor of five. One that does not move anything goes on, so that it
/// grows sure, until it has calls enough; none is used twice for a step, as each step is a document.
pub(crate) fn read(rules: &Rules, counts: Option<&Counts>, memory: &mut Memory, now: Timestamp) -> Counted {
    let Some((at, windows)) = counts.and_then(|counts| usable(rules, counts, now)) else {
        let since = *memory.counts_unknown.get_or_insert(now);
        return if now.since(since) >= rules.max_staleness {
            Counted::Unknown
        } else {
            Counted::Known
        };
    };
    memory.counts_unknown = None;
    let enough = CALLS / (1.0 - rules.delay.quantile);
    let free_from = free_from(rules, memory);
    let measured = windows
        .iter()
        .filter(|counts| counts.window <= LONGEST && at.minus(counts.window) >= free_from)
        .filter(|counts| counts.calls > 0.0 && counts.calls >= enough)
        .max_by_key(|counts| counts.window);
    if let Some(counts) = measured.filter(|_| memory.lets_hedge()) {
        if counts.calls >= CALLS_TO_END / (1.0 - rules.delay.quantile) {
            memory.measured = at;
        }
        return Counted::Measured(Measurement {
            calls: counts.calls,
            hedges: counts.hedges,
            blocked: counts.blocked,
        });
    }
    let busiest = |counts: &WindowCounts| counts.calls / counts.window.as_secs_f64().max(1.0);
    let rate = windows.iter().map(busiest).fold(0.0, f64::max);
    if rate * LONGEST.as_secs_f64() < enough {
        Counted::Quiet
    } else {
        Counted::Known
    }
}

/// The windows to read the counters over next, narrowest first: the longest that a measurement can use, and the one that
/// latency is read over.
pub(crate) fn wanted(rules: &Rules, memory: &Memory, now: Timestamp) -> Vec<Duration> {
    let free_from = free_from(rules, memory);
    let free = LADDER
        .iter()
        .rev()
        .copied()
        .find(|&window| now.minus(window) >= free_from);
    let latency = memory
        .window_ms
        .map_or(rules.windows.window, Duration::from_millis);
    let mut wanted: Vec<_> = free.into_iter().chain([latency]).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// A delay in force that counters guide.
pub(crate) struct Guided<'a> {
    pub(crate) rules: &'a Rules,
    /// The survival of one attempt.
    pub(crate) attempt: &'a Survival,
    /// What that asks for.
    pub(crate) target: &'a Target,
    /// The delay in force, in milliseconds.
    pub(crate) in_force_ms: f64,
    /// The time that new samples since its last move cover.
    pub(crate) new_samples: Duration,
    /// Hedges per call that its document allows, beside `minPerSecond`.
    pub(crate) allowed: f64,
    /// Whether a measurement may shorten it.
    pub(crate) may_shorten: bool,
    /// The last measurement that moved it.
    pub(crate) stepped: Option<Stepped>,
}

impl Guided<'_> {
    /// Moves the delay by what the counters say, within the bucket that holds the quantile aimed at. Buckets only move that
    /// bracket, and the delay with it. Where the counters are unknown buckets still lengthen the delay; where calls are too
    /// few to be counted they place it as without counters.
    pub(crate) fn placed(&self, counted: Counted) -> Placed {
        let by_buckets = place(
            self.rules,
            self.attempt,
            self.target,
            Some(self.in_force_ms),
            self.new_samples,
            false,
        );
        let edge_ms = |edge| bounded_ms(self.rules, edge);
        let Bracket {
            lower,
            surely_above,
            surely_below,
        } = self.target.bracket;
        let (lower, upper) = (edge_ms(lower), edge_ms(surely_below));
        let here = self.in_force_ms;
        let moved_ms = match counted {
            Counted::Quiet => return by_buckets,
            Counted::Unknown => by_buckets.delay_ms.max(here),
            _ if here < edge_ms(surely_above) => by_buckets.delay_ms.max(edge_ms(surely_above)),
            _ if here > upper => by_buckets.delay_ms,
            _ => here,
        };
        let delay_ms = match counted {
            Counted::Measured(measured) if moved_ms.total_cmp(&here).is_eq() => {
                let step = measured.step(self);
                let unseen = measured.passed() < 1.0;
                let least = if unseen { lower.max(UNSEEN * upper) } else { lower };
                bounded_ms(self.rules, here / 1e3 * step.exp()).clamp(least.min(here), upper.max(here))
            }
            _ => moved_ms,
        };
        Placed {
            delay_ms,
            limited_by: self.limited_by(delay_ms),
        }
    }

    /// What keeps the delay from the percentile.
    fn limited_by(&self, delay_ms: f64) -> Option<LimitedBy> {
        let at_target = delay_ms
            .total_cmp(&bounded_ms(self.rules, self.target.delay))
            .is_eq();
        match self.target.limited_by {
            limited_by if at_target => limited_by,
            Some(LimitedBy::Plateau) => Some(LimitedBy::Plateau),
            _ => Some(LimitedBy::HoldBand),
        }
    }
}

impl Measurement {
    /// Calls that passed the delay, as far as known.
    fn passed(&self) -> f64 {
        self.hedges + self.blocked.unwrap_or(0.0)
    }

    /// The share of the calls that passed the delay, at most 1. None at all count as one.
    fn share(&self) -> f64 {
        (self.passed().max(1.0) / self.calls).min(1.0)
    }

    /// By how much the delay changes, as a logarithm.
    fn step(&self, guided: &Guided<'_>) -> f64 {
        let error = (self.share() / guided.target.aim.share).ln();
        let margin = if error < 0.0 && guided.target.aim.under_slow_mode {
            MARGIN_BELOW
        } else {
            MARGIN
        };
        if error.abs() <= margin.max(DEVIATIONS / self.passed().max(1.0).sqrt()) {
            return 0.0;
        }
        let hidden = self.blocked.is_none() || self.hedges / self.calls >= BINDS * guided.allowed;
        if error < 0.0 && (hidden || !guided.may_shorten) {
            return 0.0;
        }
        let steepness = self.steepness(guided.stepped, guided.in_force_ms, &guided.target.aim);
        (error / steepness).clamp(DOWN, UP)
    }

    /// What is remembered when this moves the delay from `delay_ms`.
    pub(crate) fn stepped(&self, before: Option<Stepped>, delay_ms: f64, aim: &Aim) -> Stepped {
        let digits = |number: f64| (number * 1e6).round() / 1e6;
        Stepped {
            delay_ms,
            share: digits(self.share()).max(1e-6),
            steepness: digits(self.steepness(before, delay_ms, aim)),
        }
    }

    /// How steep the share is against the delay, as logarithms: learned when a step went too far, and forgotten as steps do
    /// not go far enough. Around a p95 it is 2 on a lognormal of sigma 1, and 20 on one of sigma 0.1, where a fixed gain of
    /// 0.3 would throw the delay to and fro.
    fn steepness(&self, before: Option<Stepped>, delay_ms: f64, aim: &Aim) -> f64 {
        let Some(before) = before else { return STEEPNESS };
        let error = |share: f64| (share / aim.share).ln();
        let (then, now) = (error(before.share), error(self.share()));
        let moved = (delay_ms / before.delay_ms).ln();
        if then * now < 0.0 {
            let found = (then - now) / moved;
            let known = if moved.abs() >= APART && found > 0.0 {
                found
            } else {
                before.steepness
            };
            known.clamp(STEEPNESS, STEEPEST)
        } else {
            (before.steepness / 2.0).max(STEEPNESS)
        }
    }
}

impl Stepped {
    /// Whether every number is one that a measurement can have.
    pub(crate) fn is_sane(&self) -> bool {
        [self.delay_ms, self.share, self.steepness]
            .iter()
            .all(|number| number.is_finite() && *number > 0.0)
    }
}

/// From when on calls show what the document in force does, and have not been measured.
fn free_from(rules: &Rules, memory: &Memory) -> Timestamp {
    memory.published.plus(rules.propagation).max(memory.measured)
}

/// The windows of a reading that says something, and when it was taken.
fn usable<'a>(rules: &Rules, counts: &'a Counts, now: Timestamp) -> Option<(Timestamp, &'a [WindowCounts])> {
    let at = counts.at.min(now);
    let windows = counts.windows.as_ref().ok()?;
    let number = |number: f64| number.is_finite() && number >= 0.0;
    let sound = |counts: &WindowCounts| {
        number(counts.calls) && number(counts.hedges) && counts.blocked.is_none_or(number)
    };
    let usable = now.since(at) <= rules.max_staleness && !windows.is_empty() && windows.iter().all(sound);
    usable.then_some((at, windows.as_slice()))
}
