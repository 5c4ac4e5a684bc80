//! The rules, in their order of precedence.

use crate::{Decision, Effect, LatencyView, Memory, Orders, Readings, Reason, Rules, SwitchState, Timestamp};

/// Decides for one target.
///
/// Total: no input panics. The memory returned replaces the one passed in.
pub fn decide(rules: &Rules, memory: &Memory, _readings: &Readings, now: Timestamp) -> (Decision, Memory) {
    let decision = Decision {
        revision: memory.revision,
        orders: Orders {
            hedging: None,
            reason: Reason::WarmingUp,
        },
        reason: Reason::WarmingUp,
        message: String::new(),
        recommended_ms: None,
        limited_by: None,
        low_confidence: None,
        latency: LatencyView::default(),
        signals: Vec::new(),
        switch: SwitchState::Open {
            since: now,
            until: None,
        },
        effect: Effect::default(),
        windows_wanted: vec![rules.windows.window],
        wants_wider: false,
    };
    (decision, memory.clone())
}
