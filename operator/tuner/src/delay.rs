//! Where the hedge delay is placed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::survival::Survival;
use crate::{LimitedBy, Quantile, Reason, Rules};

/// A bucket whose edges are further apart than this cannot place a delay within it.
const COARSE: f64 = 2.5;
/// What a delay may exceed its target by, as a factor, before it falls.
const HELD_ABOVE: f64 = 1.5;
/// The hold band: hedge shares from `(1 - q) / BAND_BELOW` to `(1 - q) * BAND_ABOVE` leave the delay where it is.
const BAND_BELOW: f64 = 1.5;
const BAND_ABOVE: f64 = 1.25;
/// A delay falls by at most a fifth ...
const FALL: f64 = 0.8;
/// ... per so many seconds of new samples.
const FALL_EVERY: Duration = Duration::from_secs(30);
/// A target that was above its line is back only under this part of it.
const BACK_UNDER: f64 = 0.9;

/// The line that a delay is above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Latch {
    /// `delay.max`.
    AboveMax,
    /// What the deadline leaves for a hedge.
    NoTimeToHedge,
}

impl Latch {
    pub(crate) const fn reason(self) -> Reason {
        match self {
            Self::AboveMax => Reason::AboveMax,
            Self::NoTimeToHedge => Reason::NoTimeToHedge,
        }
    }
}

/// The delay that a distribution asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Target {
    /// The percentile itself with `delay.add`, in seconds.
    pub(crate) recommended: f64,
    /// Where the delay is to be, in seconds: the percentile, a bucket's edge, or `delay.min`.
    pub(crate) delay: f64,
    /// The largest that the percentile could be, given how few calls say so, in seconds.
    pub(crate) at_most: f64,
    /// What keeps the delay from the percentile.
    pub(crate) limited_by: Option<LimitedBy>,
}

/// Where the delay is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Placed {
    /// In milliseconds, a whole number of tenths (or `delay.max`).
    pub(crate) delay_ms: f64,
    /// What keeps it from the percentile.
    pub(crate) limited_by: Option<LimitedBy>,
}

impl Target {
    /// The same, but not under `least` seconds.
    pub(crate) fn no_shorter_than(self, least: Option<f64>) -> Self {
        match least {
            Some(least) if self.delay < least => Self {
                delay: least,
                at_most: self.at_most.max(least),
                limited_by: Some(LimitedBy::HoldBand),
                ..self
            },
            _ => self,
        }
    }
}

/// The line that a target is above, if any. Once it was above one, the percentile must be 10 % under it for all the
/// doubt that so few calls leave: on a flat tail the estimate alone jumps across any gap.
pub(crate) fn line_above(rules: &Rules, target: &Target, p50: f64, latched: Option<Latch>) -> Option<Latch> {
    let above = |line: f64, latched: bool| match latched && line > 0.0 {
        true => target.delay.max(target.at_most) > line * BACK_UNDER,
        false => target.delay > line,
    };
    if above(rules.delay.max.as_secs_f64(), latched == Some(Latch::AboveMax)) {
        return Some(Latch::AboveMax);
    }
    above(rules.deadline?.as_secs_f64() - p50, latched.is_some()).then_some(Latch::NoTimeToHedge)
}

/// The line that a delay is proved to be above by a quantile that is at least `bound` seconds.
pub(crate) fn line_proved(rules: &Rules, bound: f64, p50: f64) -> Option<Latch> {
    let bound = bound + rules.delay.add.as_secs_f64();
    if bound >= rules.delay.max.as_secs_f64() {
        return Some(Latch::AboveMax);
    }
    (bound >= rules.deadline?.as_secs_f64() - p50).then_some(Latch::NoTimeToHedge)
}

/// The delay that the percentile asks for; `None` when it is not above zero, which is no delay.
pub(crate) fn target(rules: &Rules, survival: &Survival, quantile: Quantile) -> Option<Target> {
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
    let q = rules.delay.quantile;
    let add = rules.delay.add.as_secs_f64();
    let recommended = seconds + add;
    let doubt = noise(rules, survival).min((1.0 - q) / 2.0);
    let at_most = survival.quantile(q + doubt).at_least() + add;
    let mut target = Target {
        recommended,
        delay: recommended,
        at_most,
        limited_by: None,
    };
    if upper > COARSE * lower.max(0.0) * (1.0 + 1e-9) {
        let most = BAND_ABOVE * (1.0 - q);
        let edge = survival
            .bounds()
            .iter()
            .copied()
            .find(|&edge| edge > 0.0 && survival.at_most(edge) <= most);
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

/// The delay in force as its own target, when the share of calls past it is what was asked for and the percentile lies
/// in the part of the distribution that hedging hides, where only a guess says how far. Not against what calls as `seen`
/// prove: a quantile of theirs that is only a bound.
pub(crate) fn proved_by_share(
    rules: &Rules,
    survival: &Survival,
    in_force: f64,
    seen: Quantile,
) -> Option<Target> {
    let seen = seen.estimate()?;
    let hidden = survival.quantile(rules.delay.quantile).at_least() > in_force;
    (hidden && in_band(rules, survival, in_force)).then_some(Target {
        recommended: seen + rules.delay.add.as_secs_f64(),
        delay: in_force,
        at_most: in_force,
        limited_by: Some(LimitedBy::HoldBand),
    })
}

/// Moves the delay in force, if any, to its target: up at once; not at all within the hold band; down as far as so few
/// calls are sure of, once the new samples since its last move allow that whole way: so a fall is one document and not one
/// per step, and noise does not send the delay down only to raise it again.
///
/// A document that is `rewritten` anyway, as the budget ramps up, does not hold a longer delay: the first one was placed on
/// few calls, and the band would keep their error for good.
pub(crate) fn place(
    rules: &Rules,
    survival: &Survival,
    target: &Target,
    in_force_ms: Option<f64>,
    new_samples: Duration,
    rewritten: bool,
) -> Placed {
    let goal_ms = bounded_ms(rules, target.delay);
    let at_goal = Placed {
        delay_ms: goal_ms,
        limited_by: target.limited_by,
    };
    let Some(in_force_ms) = in_force_ms.map(|delay_ms| bounded_ms(rules, delay_ms / 1e3)) else {
        return at_goal;
    };
    let holds = |delay_ms: f64| {
        let delay = delay_ms / 1e3;
        delay <= HELD_ABOVE * target.delay.max(target.at_most) && in_band(rules, survival, delay)
    };
    let resting = |limited_by| Placed {
        delay_ms: in_force_ms,
        limited_by: Some(limited_by),
    };
    let lowest_ms = in_force_ms * fall(new_samples);
    if in_force_ms.total_cmp(&goal_ms).is_eq() || (rewritten && (lowest_ms..in_force_ms).contains(&goal_ms)) {
        return at_goal;
    }
    if holds(in_force_ms) {
        return resting(LimitedBy::HoldBand);
    }
    if goal_ms > in_force_ms {
        return at_goal;
    }
    let sure_ms = match target.limited_by {
        None => bounded_ms(rules, target.at_most).max(goal_ms),
        Some(_) => goal_ms,
    };
    if sure_ms >= in_force_ms {
        resting(LimitedBy::HoldBand)
    } else if lowest_ms > sure_ms {
        resting(LimitedBy::FallRate)
    } else if sure_ms > goal_ms {
        Placed {
            delay_ms: sure_ms,
            limited_by: Some(LimitedBy::HoldBand),
        }
    } else {
        at_goal
    }
}

/// Whether the hedge share at `delay` is near enough to the one asked for, given how many calls say so.
fn in_band(rules: &Rules, survival: &Survival, delay: f64) -> bool {
    let q = rules.delay.quantile;
    let noise = noise(rules, survival);
    let share = survival.at_most(delay - rules.delay.add.as_secs_f64());
    share >= (1.0 - q) / BAND_BELOW - noise && share <= BAND_ABOVE * (1.0 - q) + noise
}

/// Two standard deviations of a share of `1 - q` of so many calls.
fn noise(rules: &Rules, survival: &Survival) -> f64 {
    2.0 * survival.deviation(rules.delay.quantile)
}

/// How far a delay may fall on so many new samples.
fn fall(new_samples: Duration) -> f64 {
    let steps = new_samples.as_secs() / FALL_EVERY.as_secs();
    FALL.powi(i32::try_from(steps).unwrap_or(i32::MAX))
}

/// Milliseconds rounded up to a tenth, within `min` and `max`.
fn bounded_ms(rules: &Rules, seconds: f64) -> f64 {
    let ms = |limit: Duration| limit.as_secs_f64() * 1e3;
    rounded_up(seconds * 1e3)
        .max(ms(rules.delay.min))
        .min(ms(rules.delay.max))
}

/// Rounded up to a tenth; a rounding error above a tenth is none.
pub(crate) fn rounded_up(ms: f64) -> f64 {
    ((ms * 10.0 - 1e-6).ceil() / 10.0).max(0.1)
}
