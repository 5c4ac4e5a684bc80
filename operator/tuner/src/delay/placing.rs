//! How the delay in force moves to its target.

use std::time::Duration;

use super::Target;
use super::target::{in_band, resting};
use crate::survival::Survival;
use crate::{LimitedBy, Rules};

/// What a delay may exceed its target by, as a factor, before it falls.
const HELD_ABOVE: f64 = 1.5;
/// A delay falls by at most a fifth ...
const FALL: f64 = 0.8;
/// ... per so many seconds of new samples.
const FALL_EVERY: Duration = Duration::from_secs(30);

/// Where the delay is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Placed {
    /// In milliseconds, a whole number of tenths (or `delay.max`).
    pub(crate) delay_ms: f64,
    /// What keeps it from the percentile.
    pub(crate) limited_by: Option<LimitedBy>,
    /// Whether what clients count moved it, or left it, where it is, and not the buckets.
    pub(crate) by_counters: bool,
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
        by_counters: false,
    };
    let Some(in_force_ms) = in_force_ms.map(|delay_ms| bounded_ms(rules, delay_ms / 1e3)) else {
        return at_goal;
    };
    let holds = |delay_ms: f64| {
        let delay = delay_ms / 1e3;
        delay <= HELD_ABOVE * target.delay.max(target.at_most) && in_band(rules, survival, &target.aim, delay)
    };
    let at_rest = |limited_by| Placed {
        delay_ms: in_force_ms,
        limited_by: Some(limited_by),
        by_counters: false,
    };
    let lowest_ms = in_force_ms * fall(new_samples);
    if in_force_ms.total_cmp(&goal_ms).is_eq() || (rewritten && (lowest_ms..in_force_ms).contains(&goal_ms)) {
        return at_goal;
    }
    if holds(in_force_ms) {
        return at_rest(resting(&target.aim));
    }
    if goal_ms > in_force_ms {
        return at_goal;
    }
    let sure_ms = match target.limited_by {
        Some(LimitedBy::LowResolution | LimitedBy::Min) => goal_ms,
        _ => bounded_ms(rules, target.at_most).max(goal_ms),
    };
    if sure_ms >= in_force_ms {
        at_rest(resting(&target.aim))
    } else if lowest_ms > sure_ms {
        at_rest(LimitedBy::FallRate)
    } else if sure_ms > goal_ms {
        Placed {
            delay_ms: sure_ms,
            limited_by: Some(resting(&target.aim)),
            by_counters: false,
        }
    } else {
        at_goal
    }
}

/// How far a delay may fall on so many new samples.
fn fall(new_samples: Duration) -> f64 {
    let steps = new_samples.as_secs() / FALL_EVERY.as_secs();
    FALL.powi(i32::try_from(steps).unwrap_or(i32::MAX))
}

/// Milliseconds rounded up to a tenth, within `min` and `max`.
pub(crate) fn bounded_ms(rules: &Rules, seconds: f64) -> f64 {
    rounded_up(seconds * 1e3)
        .max(milliseconds(rules.delay.min))
        .min(milliseconds(rules.delay.max))
}

/// In one division, so that 3.837 s are 3837 ms and not the number before it, which is read back as yet another one.
fn milliseconds(limit: Duration) -> f64 {
    limit.as_nanos() as f64 / 1e6
}

/// Rounded up to a tenth; a rounding error above a tenth is none.
pub(crate) fn rounded_up(ms: f64) -> f64 {
    ((ms * 10.0 - 1e-6).ceil() / 10.0).max(0.1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::milliseconds;

    #[test]
    fn a_limit_in_milliseconds_is_a_whole_number_of_them() {
        for limit in 1..=20_000_u32 {
            let ms = milliseconds(Duration::from_millis(u64::from(limit)));
            assert!(ms.total_cmp(&f64::from(limit)).is_eq(), "{limit} ms are {ms}");
        }
    }
}
