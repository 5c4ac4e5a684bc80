//! The share of the calls that shall pass the delay: what the percentile says, or more of them where that percentile lies
//! in a slow mode of a few per cent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::noise;
use crate::survival::Survival;
use crate::{Plateau, Rules, Timestamp};

/// The hold band reaches from the percentile's share divided by this ...
const BAND_BELOW: f64 = 1.5;
/// ... to the share aimed at times this, which under a slow mode is the budget.
const BAND_ABOVE: f64 = 1.25;
/// Under a slow mode, the share of the budget that the delay lets pass.
const OF_BUDGET: f64 = 0.8;
/// The delay goes under a slow mode that begins at so many times it ...
const ENTERED_FROM: f64 = 3.0;
/// ... and stays there until it is under so many. A slow mode of calls that are not answered by the deadline at all is entered
/// from so many already: that is all that can be seen of where it begins.
const LEFT_UNDER: f64 = 2.0;
/// It changes sides at most once in this time ...
const CHANGED_AFTER: Duration = Duration::from_secs(600);
/// ... and goes back under a slow mode that was no one replica's, but all of theirs, only after this.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(3600);

/// What a policy asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The quantile.
    quantile: f64,
    /// Hedges per call, in full.
    budget: f64,
    /// What one call may take in all, in seconds.
    deadline: Option<f64>,
    /// Whether the delay goes under slow modes.
    follows: bool,
}

impl Asked {
    pub(crate) fn by(rules: &Rules) -> Self {
        Self {
            quantile: rules.delay.quantile,
            budget: rules.budget.percent / 100.0,
            deadline: rules.deadline.map(|deadline| deadline.as_secs_f64()),
            follows: rules.delay.plateau == Plateau::Follow && rules.fault().is_none(),
        }
    }

    /// A slow mode holds more than this share of the calls: the percentile's, and half of the budget.
    fn slow_share(&self) -> f64 {
        (1.0 - self.quantile).max(self.budget / 2.0)
    }

    /// The calls in a window that can tell that a slow mode is gone: 20 of those that it would make slow though hedged.
    pub(crate) fn calls_to_leave(&self) -> f64 {
        20.0 / (self.slow_share() * Aim::under_slow_mode(self).share)
    }
}

/// The share of the calls that shall pass the delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Aim {
    /// The quantile that the delay is.
    pub(crate) quantile: f64,
    /// The share above it.
    pub(crate) share: f64,
    /// A delay that a share from here ...
    pub(super) least: f64,
    /// ... to here passes is left where it is.
    pub(super) most: f64,
    /// Whether it lies under a slow mode.
    pub(crate) under_slow_mode: bool,
}

impl Aim {
    /// The percentile.
    fn percentile(asked: &Asked) -> Self {
        let share = 1.0 - asked.quantile;
        Self {
            quantile: asked.quantile,
            share,
            least: share / BAND_BELOW,
            most: share * BAND_ABOVE,
            under_slow_mode: false,
        }
    }

    /// Under a slow mode: as much as the budget bears for good.
    fn under_slow_mode(asked: &Asked) -> Self {
        let share = OF_BUDGET * asked.budget;
        Self {
            quantile: 1.0 - share,
            share,
            most: share * BAND_ABOVE,
            under_slow_mode: true,
            ..Self::percentile(asked)
        }
    }
}

/// On which side of a slow mode the delay lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SlowMode {
    /// Under it.
    #[serde(default)]
    pub(crate) under: bool,
    /// Since.
    pub(crate) since: Timestamp,
    /// It was left because the replicas are slow together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) together: bool,
}

impl SlowMode {
    /// How long the delay has been under it, if it is.
    pub(crate) fn governs_for(self, now: Timestamp) -> Option<Duration> {
        self.under.then(|| now.since(self.since))
    }
}

/// What is known of the calls.
pub(crate) struct Evidence<'a> {
    /// One attempt.
    pub(crate) attempt: &'a Survival,
    /// The calls as observed.
    pub(crate) calls: &'a Survival,
    /// What may tell that a slow mode is gone: the calls of the longest window that it governed.
    pub(crate) since_then: Seen<'a>,
    /// Whether the replicas are slow at the same time: then a hedge is as slow as the call that it is to save.
    pub(crate) slow_together: bool,
}

/// Calls, and what they tell of attempts.
pub(crate) struct Seen<'a> {
    /// The calls as observed.
    pub(crate) calls: &'a Survival,
    /// One attempt.
    pub(crate) attempt: &'a Survival,
    /// The smallest delay that they were hedged at, in seconds, if they were.
    pub(crate) hedged_from: Option<f64>,
}

/// What the delay aims at now; notes in `memory` on which side of a slow mode it lies.
///
/// One slow replica of 16 answers some 6 % of the calls: the p95 lies within what it makes of them, and a hedge sent there
/// saves nothing. The delay that four fifths of the budget bear, `d_b = Q(1 - 0.8 B)`, lies before it.
///
/// A slow mode is told from a tail that is merely long by its emptiness: more than half of what passes `d_b` passes three
/// times `d_b` too. With the budget at its default, twice the percentile's share, that is the percentile itself; with a
/// larger one a percentile of three times `d_b` would only say that `d_b` asks for far more hedges (a lognormal of sigma 1
/// has its p95 at four times its p60, where a budget of 50 % would have it).
pub(crate) fn aim(
    asked: &Asked,
    evidence: &Evidence<'_>,
    memory: &mut Option<SlowMode>,
    now: Timestamp,
) -> Aim {
    let below = Aim::under_slow_mode(asked);
    let under = memory.is_some_and(|mode| mode.under);
    let patience = match *memory {
        Some(mode) if mode.together => TRIED_AGAIN_AFTER,
        _ => CHANGED_AFTER,
    };
    let may_change = memory.is_none_or(|mode| now.since(mode.since) >= patience);
    let becomes = if !asked.follows || evidence.slow_together {
        false
    } else if !may_change {
        under
    } else if under {
        !evidence.left(asked, &below)
    } else {
        evidence.entered(asked, &below)
    };
    if becomes != under {
        *memory = Some(SlowMode {
            under: becomes,
            since: now,
            together: under && evidence.slow_together,
        });
    }
    if becomes { below } else { Aim::percentile(asked) }
}

impl Evidence<'_> {
    /// Whether a slow mode begins well above the delay that the budget bears: as observed, and not as inferred of the calls
    /// that hedging cut short. Clients that do not hedge as they are told make these look longer than they are.
    ///
    /// A replica that is dead answers nothing: its calls are cut at the deadline, and seen to be no longer than that. Where they
    /// are so many that the percentile is the deadline, and all but a little more are answered in half of it, the tail between
    /// is emptier than that of any service that is slow as a whole: `S` falls from 8 to 5 % while `t` doubles at least, as of a
    /// power law whose mean is infinite. A hedge has the other half to answer in.
    fn entered(&self, asked: &Asked, below: &Aim) -> bool {
        let Some(delay) = self.attempt.quantile(below.quantile).estimate() else {
            return false;
        };
        let slow = self.calls.quantile(1.0 - asked.slow_share()).at_least();
        let unanswered = asked.deadline.is_some_and(|deadline| slow >= deadline);
        let factor = if unanswered { LEFT_UNDER } else { ENTERED_FROM };
        delay > 0.0 && slow >= factor * delay
    }

    /// Whether there surely is no slow mode any more.
    ///
    /// Hedging hides what lies beyond the delay: of the calls that an attempt of a slow mode would have made slow, only those
    /// are left whose hedge was slow too, one in twelve. So few calls swing, and the delay would swing with them; a delay
    /// under a slow mode that is gone costs no more than the share that it aims at.
    fn left(&self, asked: &Asked, below: &Aim) -> bool {
        let Seen {
            calls,
            attempt,
            hedged_from,
        } = self.since_then;
        let least = 1.0 - (below.share + noise(below.share, attempt)).min(1.0);
        let slow_from = LEFT_UNDER * attempt.quantile(least).at_least();
        let worth = calls.worth(1.0 - asked.slow_share());
        let slow = calls.at_most(slow_from) * worth;
        let hidden = match hedged_from.map(|delay| slow_from - delay) {
            Some(after) if after > 0.0 => attempt.at_most(after).max(f64::MIN_POSITIVE),
            _ => 1.0,
        };
        at_most(slow) / worth / hidden < asked.slow_share()
    }
}

/// What a count that varies as counts do is at most, by three standard deviations.
fn at_most(count: f64) -> f64 {
    count + 3.0 * (count + 1.0).sqrt() + 1.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Asked, Evidence, Seen, SlowMode, aim};
    use crate::survival::Survival;
    use crate::{Histogram, Timestamp};

    #[test]
    fn replicas_that_are_slow_together_make_no_slow_mode_to_go_under() {
        // Q(0.92) is 0.1 s, the p95 lies above 1 s.
        let buckets = [(0.1, 920.0), (1.0, 940.0), (4.0, 1000.0), (f64::INFINITY, 1000.0)];
        let calls = Survival::observed(
            &Histogram::from_cumulative(buckets, None, None).unwrap(),
            0.0,
            None,
        );
        let asked = Asked {
            quantile: 0.95,
            budget: 0.1,
            deadline: None,
            follows: true,
        };
        let mut memory = None;
        let mut under_at = |minutes: u64, slow_together: bool| {
            let evidence = Evidence {
                attempt: &calls,
                calls: &calls,
                since_then: Seen {
                    calls: &calls,
                    attempt: &calls,
                    hedged_from: None,
                },
                slow_together,
            };
            let now = Timestamp::default().plus(Duration::from_secs(60 * minutes));
            aim(&asked, &evidence, &mut memory, now).under_slow_mode
        };
        assert!(!under_at(0, true));
        assert!(under_at(1, false));
        // At once, though ten minutes have not passed; and back only after an hour.
        assert!(!under_at(2, true));
        assert!(!under_at(61, false));
        assert!(under_at(62, false));
        let since = Timestamp::default().plus(Duration::from_secs(62 * 60));
        assert_eq!(
            memory,
            Some(SlowMode {
                under: true,
                since,
                together: false
            })
        );
    }
}
