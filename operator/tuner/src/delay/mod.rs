//! The hedge delay: what share of the calls shall pass it, which delay that asks for, and how the one in force moves there.

mod aim;
mod lines;
mod placing;
mod target;

pub(crate) use aim::{Aim, Asked, Evidence, Seen, SlowMode, aim};
pub(crate) use lines::{Latch, line_above, line_proved};
pub(crate) use placing::{Placed, bounded_ms, place, rounded_up};
pub(crate) use target::{Bracket, Target, proved_by_share, target};

use crate::survival::Survival;

/// Two standard deviations of a `share` of the calls in `survival`.
fn noise(share: f64, survival: &Survival) -> f64 {
    2.0 * survival.deviation(1.0 - share)
}
