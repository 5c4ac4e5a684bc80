//! The delay that a distribution asks for.

use super::{Aim, noise};
use crate::survival::Survival;
use crate::{LimitedBy, Quantile, Rules};

/// A bucket whose edges are further apart than this cannot place a delay within it.
const COARSE: f64 = 2.5;

/// The delay that a distribution asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Target {
    /// The percentile itself with `delay.add`.
    pub(crate) percentile: Quantile,
    /// The share of the calls that shall pass the delay.
    pub(crate) aim: Aim,
    /// Where the delay is to be, in seconds: the quantile aimed at, a bucket's edge, or `delay.min`.
    pub(crate) delay: f64,
    /// The largest that it could be, given how few calls say so, in seconds.
    pub(crate) at_most: f64,
    /// The bucket that holds the quantile aimed at.
    pub(crate) bracket: Bracket,
    /// What keeps the delay from the percentile.
    pub(crate) limited_by: Option<LimitedBy>,
}

impl Target {
    /// The same, but not under `least` seconds.
    pub(crate) fn no_shorter_than(self, least: Option<f64>) -> Self {
        match least {
            Some(least) if self.delay < least => Self {
                delay: least,
                at_most: self.at_most.max(least),
                bracket: self.bracket.no_shorter_than(least),
                limited_by: Some(LimitedBy::HoldBand),
                ..self
            },
            Some(least) => Self {
                bracket: self.bracket.no_shorter_than(least),
                ..self
            },
            None => self,
        }
    }
}

/// Where the quantile aimed at lies whatever lies within a bucket, in seconds, `delay.add` included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bracket {
    /// The lower edge of the bucket that holds it.
    pub(crate) lower: f64,
    /// The edge that it surely is above, given how few calls say so.
    pub(crate) surely_above: f64,
    /// The edge that it surely is below; infinite when there is none.
    pub(crate) surely_below: f64,
}

impl Bracket {
    fn new(survival: &Survival, aim: &Aim, lower: f64, add: f64) -> Self {
        // Four standard deviations: this is asked again and again.
        let (noise, bounds) = (2.0 * noise(aim.share, survival), survival.bounds());
        let above = bounds.partition_point(|&bound| survival.at_most(bound) > aim.share + noise);
        let not_below = bounds.partition_point(|&bound| survival.at_most(bound) >= aim.share - noise);
        let surely_above = above.checked_sub(1).map_or(0.0, |last| bounds[last]);
        Self {
            lower: lower + add,
            surely_above: surely_above.min(lower) + add,
            surely_below: bounds.get(not_below).copied().unwrap_or(f64::INFINITY) + add,
        }
    }

    /// The same, without what lies under `least` seconds.
    fn no_shorter_than(self, least: f64) -> Self {
        Self {
            lower: self.lower.max(least),
            surely_below: self.surely_below.max(least),
            ..self
        }
    }
}

/// The delay that the share aimed at asks for, which is this `quantile`; `None` when it is not above zero, which is no delay.
pub(crate) fn target(rules: &Rules, survival: &Survival, aim: Aim, quantile: Quantile) -> Option<Target> {
    let Quantile::Estimate {
        seconds,
        bucket: (lower, upper),
    } = quantile
    else {
        return None;
    };
    if seconds <= 0.0 {
        return None;
    }
    let add = rules.delay.add.as_secs_f64();
    let mut target = Target {
        percentile: later(survival.quantile(rules.delay.quantile), add),
        aim,
        delay: seconds + add,
        at_most: survival.quantile(surely(&aim, survival)).at_least() + add,
        bracket: Bracket::new(survival, &aim, lower, add),
        limited_by: aim.under_slow_mode.then_some(LimitedBy::Plateau),
    };
    if upper > COARSE * lower.max(0.0) * (1.0 + 1e-9) {
        let edge = survival
            .bounds()
            .iter()
            .copied()
            .find(|&edge| edge > 0.0 && survival.at_most(edge) <= aim.most);
        target.delay = edge.unwrap_or(upper) + add;
        target.limited_by = Some(LimitedBy::LowResolution);
    }
    let min = rules.delay.min.as_secs_f64();
    if target.delay < min {
        target.delay = min;
        target.limited_by = Some(LimitedBy::Min);
    }
    Some(target)
}

/// A delay as its own target, when the share of calls past it is what was asked for and the quantile aimed at lies in the
/// part of the distribution that hedging hides, where only a guess says how far. Not against what calls as `seen` prove: a
/// quantile of theirs that is only a bound.
///
/// It is the smallest delay that the calls were `hedged_from`, up to which they are seen, or if they were not the one in
/// force. A longer one in force does not fall to it: it could be the guess.
pub(crate) fn proved_by_share(
    rules: &Rules,
    survival: &Survival,
    aim: Aim,
    in_force: Option<f64>,
    hedged_from: Option<f64>,
    seen: &Survival,
) -> Option<Target> {
    seen.quantile(aim.quantile).estimate()?;
    let delay = hedged_from.or(in_force)?;
    let guessed = survival.quantile(aim.quantile).at_least();
    if guessed <= delay || !in_band(rules, survival, &aim, delay) {
        return None;
    }
    let add = rules.delay.add.as_secs_f64();
    let bounds = survival.bounds();
    let before = bounds
        .partition_point(|&bound| bound + add < delay)
        .checked_sub(1);
    Some(Target {
        percentile: later(seen.quantile(rules.delay.quantile), add),
        aim,
        delay,
        at_most: match in_force {
            Some(in_force) if in_force <= delay => delay,
            _ => in_force.unwrap_or_default().max(guessed + add),
        },
        bracket: Bracket::new(survival, &aim, before.map_or(0.0, |before| bounds[before]), add),
        limited_by: Some(resting(&aim)),
    })
}

/// Whether the share of the calls that pass `delay` is near enough to the one aimed at, given how many calls say so.
pub(super) fn in_band(rules: &Rules, survival: &Survival, aim: &Aim, delay: f64) -> bool {
    let noise = noise(aim.share, survival);
    let share = survival.at_most(delay - rules.delay.add.as_secs_f64());
    share >= aim.least - noise && share <= aim.most + noise
}

/// What keeps a delay that rests from the percentile.
pub(super) const fn resting(aim: &Aim) -> LimitedBy {
    if aim.under_slow_mode {
        LimitedBy::Plateau
    } else {
        LimitedBy::HoldBand
    }
}

/// The quantile that the one aimed at is at most, given how few calls say so. Under a slow mode its doubt is about the
/// budget, not about where in that mode it could lie.
fn surely(aim: &Aim, survival: &Survival) -> f64 {
    let noise = noise(aim.share, survival);
    if aim.under_slow_mode {
        1.0 - aim.share.min((aim.most - noise).max(aim.share / 2.0))
    } else {
        aim.quantile + noise.min(aim.share / 2.0)
    }
}

fn later(quantile: Quantile, add: f64) -> Quantile {
    match quantile {
        Quantile::Estimate {
            seconds,
            bucket: (lower, upper),
        } => Quantile::Estimate {
            seconds: seconds + add,
            bucket: (lower + add, upper + add),
        },
        Quantile::AtLeast(bound) => Quantile::AtLeast(bound + add),
    }
}
