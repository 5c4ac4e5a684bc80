//! Off, coming back, on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{SwitchRules, SwitchState, Timestamp};

/// The budget's shares on the way back.
const RAMP: [f64; 2] = [0.25, 0.5];
/// So long at full budget, and a cooldown is a single one again.
const TRUSTED_AFTER: Duration = Duration::from_secs(600);
/// A doubled cooldown is no longer than this.
const LONGEST_COOLDOWN: Duration = Duration::from_secs(1800);

/// Off, coming back, on: one state for every reason to be off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all_fields = "camelCase")]
pub(crate) enum Phase {
    /// Off.
    Off {
        /// Since.
        since: Timestamp,
        /// The cooldown runs since; `None` while a signal is saturated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cooling_since: Option<Timestamp>,
        /// Hedging was never on and no signal saturated: no cooldown is needed.
        #[serde(default)]
        first: bool,
    },
    /// On, at a part of the budget.
    Ramping {
        /// The step.
        step: u8,
        /// At that step since.
        since: Timestamp,
    },
    /// On, at full budget.
    Full {
        /// Since.
        since: Timestamp,
    },
}

/// What moves the phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs {
    /// Something turns hedging off.
    pub(crate) blocked: bool,
    /// A signal is above its line.
    pub(crate) saturated: bool,
    /// A signal is not back under its line.
    pub(crate) not_back: bool,
    /// Every signal is known.
    pub(crate) signals_known: bool,
    /// Latency is known.
    pub(crate) latency_known: bool,
    /// Clients were hedging.
    pub(crate) were_hedging: bool,
    /// Hedging is only tried: it stays at the first step.
    pub(crate) probing: bool,
}

impl Inputs {
    /// Whether every reading is known: without that nothing is raised.
    pub(crate) const fn all_known(self) -> bool {
        self.signals_known && self.latency_known
    }
}

impl Phase {
    /// Before anything is known.
    pub(crate) const fn first(now: Timestamp) -> Self {
        Self::Off {
            since: now,
            cooling_since: None,
            first: true,
        }
    }

    pub(crate) const fn is_on(self) -> bool {
        !matches!(self, Self::Off { .. })
    }

    /// Hedging was never on.
    pub(crate) const fn is_first(self) -> bool {
        matches!(self, Self::Off { first: true, .. })
    }

    /// Off because a signal is, or was and is not back, above its line.
    pub(crate) const fn is_saturated(self) -> bool {
        matches!(
            self,
            Self::Off {
                cooling_since: None,
                first: false,
                ..
            }
        )
    }

    /// The share of the budget.
    pub(crate) fn share(self) -> f64 {
        match self {
            Self::Off { .. } => 0.0,
            Self::Ramping { step, .. } => RAMP.get(usize::from(step)).copied().unwrap_or(RAMP[0]),
            Self::Full { .. } => 1.0,
        }
    }

    /// Off since `since`, with the cooldown running.
    pub(crate) const fn cooling(since: Timestamp) -> Self {
        Self::Off {
            since,
            cooling_since: Some(since),
            first: false,
        }
    }

    /// Back at the first step.
    pub(crate) const fn restarted(now: Timestamp) -> Self {
        Self::Ramping { step: 0, since: now }
    }

    /// The next phase, and how often the cooldown is doubled then.
    pub(crate) fn next(
        self,
        inputs: Inputs,
        doublings: u32,
        rules: &SwitchRules,
        propagation: Duration,
        now: Timestamp,
    ) -> (Self, u32) {
        match self {
            Self::Off {
                since,
                cooling_since,
                first,
            } => {
                let (cooling_since, first) = cooled(cooling_since, first, inputs, now);
                let off = Self::Off {
                    since,
                    cooling_since,
                    first,
                };
                let ends = off.until(doublings, rules, propagation);
                let over = first || ends.is_some_and(|ends| ends <= now);
                let back = over && inputs.all_known() && !inputs.blocked && !inputs.not_back;
                (if back { Self::restarted(now) } else { off }, doublings)
            }
            _ if inputs.blocked => {
                let trusted = matches!(self, Self::Full { since } if now.since(since) >= TRUSTED_AFTER);
                let doublings = if trusted { 0 } else { doublings };
                let tripped = inputs.saturated && inputs.were_hedging && !trusted;
                let cooling_since = (!inputs.saturated).then_some(now);
                let off = Self::Off {
                    since: now,
                    cooling_since,
                    first: false,
                };
                (off, doublings.saturating_add(u32::from(tripped)).min(16))
            }
            on if inputs.probing => (
                if on.share() > RAMP[0] {
                    Self::restarted(now)
                } else {
                    on
                },
                doublings,
            ),
            Self::Ramping { step, since }
                if inputs.all_known() && now > since && now.since(since) >= rules.ramp_step =>
            {
                let next = step.saturating_add(1);
                let on = if usize::from(next) < RAMP.len() {
                    Self::Ramping {
                        step: next,
                        since: now,
                    }
                } else {
                    Self::Full { since: now }
                };
                (on, doublings)
            }
            on => (on, doublings),
        }
    }

    /// The end of the cooldown: it runs from the later of the last value that was not back under its line, and the
    /// moment that the off document had reached clients.
    pub(crate) fn until(
        self,
        doublings: u32,
        rules: &SwitchRules,
        propagation: Duration,
    ) -> Option<Timestamp> {
        let Self::Off {
            since,
            cooling_since,
            first: false,
        } = self
        else {
            return None;
        };
        let doubled = rules
            .cooldown
            .saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX));
        let cooldown = doubled.min(LONGEST_COOLDOWN.max(rules.cooldown));
        Some(cooling_since?.max(since.plus(propagation)).plus(cooldown))
    }

    /// As status tells it; `waits` when more than the cooldown keeps hedging off.
    pub(crate) fn told(self, until: Option<Timestamp>, waits: bool) -> SwitchState {
        match self {
            Self::Off { since, .. } => SwitchState::Open {
                since,
                until: until.filter(|_| !waits),
            },
            Self::Ramping { since, .. } => SwitchState::Ramping {
                since,
                share: self.share(),
            },
            Self::Full { .. } => SwitchState::Closed,
        }
    }

    /// This, without the times that move with each reading: a value within the hysteresis restarts a cooldown, which is
    /// no new state.
    pub(crate) fn without_moving_times(self) -> Self {
        match self {
            Self::Off {
                since,
                cooling_since,
                first,
            } => Self::Off {
                since,
                cooling_since: cooling_since.map(|_| since),
                first,
            },
            on => on,
        }
    }

    /// When it began.
    pub(crate) const fn since(self) -> Timestamp {
        match self {
            Self::Off { since, .. } | Self::Ramping { since, .. } | Self::Full { since } => since,
        }
    }

    /// This, begun at `at` if it began earlier.
    pub(crate) fn not_before(mut self, at: Timestamp) -> Self {
        match &mut self {
            Self::Off { since, .. } | Self::Ramping { since, .. } | Self::Full { since } => {
                *since = (*since).max(at);
            }
        }
        self
    }

    /// Times in the future count as now.
    pub(crate) fn not_after(mut self, now: Timestamp) -> Self {
        match &mut self {
            Self::Off {
                since, cooling_since, ..
            } => {
                *since = (*since).min(now);
                *cooling_since = cooling_since.map(|cooling| cooling.min(now));
            }
            Self::Ramping { since, .. } | Self::Full { since } => *since = (*since).min(now),
        }
        self
    }
}

/// Since when the cooldown runs, and whether this is still the first start.
fn cooled(
    cooling_since: Option<Timestamp>,
    first: bool,
    inputs: Inputs,
    now: Timestamp,
) -> (Option<Timestamp>, bool) {
    match cooling_since {
        _ if inputs.saturated => (None, false),
        None if inputs.not_back => (None, false),
        // Back under every line: this value ends what the last bad one began. Only when all are known.
        None if !first && inputs.signals_known => (Some(now), false),
        Some(_) if inputs.not_back => (Some(now), false),
        unchanged => (unchanged, first),
    }
}
