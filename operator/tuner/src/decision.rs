//! What was decided, and everything that status, metrics and `plan` tell about it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Basis, CountsView, DiagnosisReason, Latency, LimitedBy, Message, Reason, Timestamp, Unknown};

/// The decision for one target.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Rises by one with each change of what clients are told.
    pub revision: u64,
    /// What clients are told.
    pub orders: Orders,
    /// The decision's own reason; differs from the one in the orders while a delay is `Held`.
    pub reason: Reason,
    /// The reason with its numbers, for people: what is so, why, and what it waits for.
    pub message: Message,
    /// The delay that the percentile asks for now, unbounded, in milliseconds.
    pub recommended_ms: Option<f64>,
    /// What kept the applied delay from the recommended one.
    pub limited_by: Option<LimitedBy>,
    /// Why the delay deserves little confidence.
    pub low_confidence: Option<String>,
    /// What the latency reading says.
    pub latency: LatencyView,
    /// What clients counted of their hedges; `None` when the policy names no counters.
    pub counts: Option<CountsView>,
    /// What each saturation signal says, in the order of the rules.
    pub signals: Vec<SignalView>,
    /// The off-switch.
    pub switch: SwitchState,
    /// What hedging does to the user's query; `None` without a deadline.
    pub effect: Effect,
    /// What makes hedging pay less than it could, with the numbers; each reason at most once.
    pub diagnoses: Vec<Diagnosis>,
    /// The windows over which the counters shall be read next, narrowest first; empty when the policy names none.
    pub counts_wanted: Vec<Duration>,
    /// The windows that the next latency reading shall cover, narrowest first.
    pub windows_wanted: Vec<Duration>,
    /// Whether more data is to be had by asking for `windows_wanted` at once (a quiet service's window is still widening).
    pub wants_wider: bool,
}

/// Something that makes hedging pay less than it could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The bounded name.
    pub reason: DiagnosisReason,
    /// What is so, with the numbers, and what to do.
    pub message: String,
}

/// What clients are told: the content of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Orders {
    /// Off, or on with what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hedging: Option<Hedging>,
    /// `Tuned` or `Ramping` when on; the reason of the decision when off.
    pub reason: Reason,
}

impl Orders {
    /// Whether clients who are told this instead of `before` are off, or hedge less or later: the safe direction.
    pub fn are_safer_than(&self, before: &Self) -> bool {
        match (before.hedging, self.hedging) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(before), Some(after)) => {
                after.percent < before.percent
                    || (after.percent <= before.percent && after.delay_ms > before.delay_ms)
            }
        }
    }
}

/// How clients hedge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hedging {
    /// The hedge delay in milliseconds, above zero.
    pub delay_ms: f64,
    /// A hedge is not sent with less of the deadline left than this, in milliseconds.
    pub min_remaining_ms: f64,
    /// Hedges per 100 calls now: the cap times the ramp.
    pub percent: f64,
    /// Hedges per second that a client process may always send now, ramped likewise.
    pub min_per_second: f64,
}

/// What the latency reading says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyView {
    /// Why there is no usable reading; `None` when it is fresh.
    pub unknown: Option<Unknown>,
    /// When the reading was taken.
    pub at: Option<Timestamp>,
    /// Samples in the window.
    pub samples: Option<f64>,
    /// The percentile that the delay follows lies between these, in milliseconds, with 95 % confidence; `None` when not known,
    /// or without an upper end.
    pub percentile_ms: Option<(f64, f64)>,
    /// The median in milliseconds.
    pub p50_ms: Option<f64>,
    /// The 95th percentile in milliseconds.
    pub p95_ms: Option<f64>,
    /// The 99th percentile in milliseconds: of calls as hedged, of attempts as if none were cut short.
    pub p99_ms: Option<f64>,
    /// The window used.
    pub window: Option<Duration>,
}

/// What one saturation signal says.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalView {
    /// Its name.
    pub name: String,
    /// The value compared with the line: 1 or 0 for an alert; `None` while unknown.
    pub value: Option<f64>,
    /// Why there is no value.
    pub unknown: Option<Unknown>,
    /// Unknown since.
    pub unknown_since: Option<Timestamp>,
    /// Off above this; `None` for an alert.
    pub off_above: Option<f64>,
    /// Back below this; `None` for an alert.
    pub on_below: Option<f64>,
    /// Whether it turns hedging off now.
    pub saturated: bool,
}

/// The off-switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SwitchState {
    /// Hedging at full budget.
    Closed,
    /// Off.
    Open {
        /// Since.
        since: Timestamp,
        /// Not back before this; `None` while something that has no end yet keeps it open.
        until: Option<Timestamp>,
    },
    /// Coming back.
    Ramping {
        /// Since.
        since: Timestamp,
        /// The share of the budget now: 0.25 or 0.5.
        share: f64,
    },
}

/// What hedging does. Shares are in `[0, 1]`; what cannot be identified is `None`. What is not measured assumes that the
/// attempts of one call are slow independently, and so does every share of queries with more than one call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effect {
    /// Hedges per call at the applied delay and budget; 0 while off; with `mode: Observe` what full hedging would cost.
    pub hedge_share: Option<f64>,
    /// Share of user queries that miss the deadline without hedging.
    pub miss_share_unhedged: Option<f64>,
    /// How `miss_share_unhedged` is known.
    pub unhedged_basis: Option<Basis>,
    /// Share of user queries that miss the deadline as hedged.
    pub miss_share_hedged: Option<f64>,
    /// How `miss_share_hedged` is known.
    pub hedged_basis: Option<Basis>,
}

impl Hedging {
    /// Whether every number is one that hedging can have.
    pub(crate) fn is_sane(&self) -> bool {
        let positive = |number: f64| number.is_finite() && number > 0.0;
        positive(self.delay_ms)
            && positive(self.min_remaining_ms)
            && positive(self.percent)
            && self.min_per_second.is_finite()
            && self.min_per_second >= 0.0
    }
}

impl LatencyView {
    /// The view of a reading that could not be used.
    pub fn unknown(latency: &Latency, why: Unknown) -> Self {
        Self {
            unknown: Some(why),
            at: Some(latency.at),
            ..Self::default()
        }
    }
}
