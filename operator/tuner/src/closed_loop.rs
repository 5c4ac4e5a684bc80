//! The closed loop: what clients count of their hedges corrects the delay within the bucket that holds the percentile.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::counted::{Counted, Measurement};
use crate::delay::{Aim, Bracket, Placed, Target, bounded_ms, place};
use crate::survival::Survival;
use crate::{LimitedBy, Rules};

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
            by_counters: moved_ms.total_cmp(&here).is_eq(),
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

    /// The share of the calls that passed the delay, as far as known, at most 1.
    pub(crate) fn passed_share(&self) -> f64 {
        (self.passed() / self.calls).min(1.0)
    }

    /// The same, where none at all count as one.
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
