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
/// A delay falls by at most this factor ...
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
    /// What keeps the two apart.
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

/// The line that a delay of at least `delay` seconds is above, if any.
pub(crate) fn line_above(rules: &Rules, delay: f64, p50: f64, latched: Option<Latch>) -> Option<Latch> {
    let back_under = |line: f64, latched: bool| {
        if latched && line > 0.0 {
            line * BACK_UNDER
        } else {
            line
        }
    };
    if delay > back_under(rules.delay.max.as_secs_f64(), latched == Some(Latch::AboveMax)) {
        return Some(Latch::AboveMax);
    }
    let left = rules.deadline?.as_secs_f64() - p50;
    (delay > back_under(left, latched.is_some())).then_some(Latch::NoTimeToHedge)
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
    let add = rules.delay.add.as_secs_f64();
    let recommended = seconds + add;
    let mut target = Target {
        recommended,
        delay: recommended,
        limited_by: None,
    };
    if upper > COARSE * lower.max(0.0) * (1.0 + 1e-9) {
        let most = BAND_ABOVE * (1.0 - rules.delay.quantile);
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

/// Moves the delay in force, if any, towards its target: up at once, down slowly, not at all within the hold band.
pub(crate) fn place(
    rules: &Rules,
    survival: &Survival,
    target: &Target,
    in_force_ms: Option<f64>,
    new_samples: Duration,
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
        delay <= HELD_ABOVE * target.delay && in_band(rules, survival, delay)
    };
    let resting = |delay_ms: f64, limited_by: LimitedBy| Placed {
        delay_ms,
        limited_by: Some(limited_by),
    };
    if in_force_ms.total_cmp(&goal_ms).is_eq() {
        return at_goal;
    }
    if holds(in_force_ms) {
        return resting(in_force_ms, LimitedBy::HoldBand);
    }
    if goal_ms > in_force_ms {
        return at_goal;
    }
    let fallen_ms = bounded_ms(rules, in_force_ms * fall(new_samples) / 1e3);
    if fallen_ms <= goal_ms {
        at_goal
    } else if holds(fallen_ms) {
        resting(fallen_ms, LimitedBy::HoldBand)
    } else {
        resting(fallen_ms, LimitedBy::FallRate)
    }
}

/// Whether the hedge share at `delay` is near enough to the one asked for, given how many calls say so.
fn in_band(rules: &Rules, survival: &Survival, delay: f64) -> bool {
    let q = rules.delay.quantile;
    let noise = 2.0 * (q * (1.0 - q) / survival.calls().max(1.0)).sqrt();
    let share = survival.at_most(delay - rules.delay.add.as_secs_f64());
    share >= (1.0 - q) / BAND_BELOW - noise && share <= BAND_ABOVE * (1.0 - q) + noise
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
