//! The lines that a delay may not be above.

use serde::{Deserialize, Serialize};

use super::Target;
use crate::{Reason, Rules};

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
