//! What hedging does to the user's query.

use crate::history::Coverage;
use crate::latency::Estimate;
use crate::observation::hedging_in;
use crate::{Effect, Hedging, Rules};

/// What `hedging` does, or would do; its share is told as 0 when there is none.
///
/// While nothing was hedged the hedged figures are predicted: with `a = min(1, B / S(d))` a call misses the deadline with
/// `m = S(T) (1 - a (1 - S(T-d)))`, a query that waits for `N` of them with `1 - (1-m)^N`. While everything was hedged the
/// hedged miss share is measured, and the unhedged one would need the measured `a`. A window that was partly hedged
/// identifies neither.
pub(crate) fn effect(rules: &Rules, estimate: Option<&Estimate>, hedging: Option<&Hedging>) -> Effect {
    let mut effect = Effect {
        hedge_share: hedging.is_none().then_some(0.0),
        ..Effect::default()
    };
    let Some(estimate) = estimate else { return effect };
    let (calls, attempt) = (&estimate.observed.calls, &estimate.observed.attempt);
    let asked = hedging.and_then(|hedging| Some((hedging, attempt.at(hedging.delay_ms / 1e3)?)));
    effect.hedge_share = effect
        .hedge_share
        .or(asked.map(|(hedging, past_delay)| past_delay.min(budget(hedging))));

    let Some(deadline) = rules.deadline.map(|deadline| deadline.as_secs_f64()) else {
        return effect;
    };
    let Some(missed) = calls.at(deadline) else {
        return effect;
    };
    let per_query = |miss: f64| query_miss_share(miss, rules.fan_out);
    match hedging_in(rules, &estimate.observed.coverage) {
        Coverage::Unhedged => {
            effect.miss_share_unhedged = Some(per_query(missed));
            effect.miss_share_hedged = asked.and_then(|(hedging, past_delay)| {
                let hedged = if past_delay > 0.0 {
                    (budget(hedging) / past_delay).min(1.0)
                } else {
                    1.0
                };
                let hedge_too_late = attempt.at(deadline - hedging.delay_ms / 1e3)?;
                Some(per_query(missed * (1.0 - hedged * (1.0 - hedge_too_late))))
            });
        }
        Coverage::Wholly(_) => effect.miss_share_hedged = Some(per_query(missed)),
        Coverage::Partly(_) => {}
    }
    effect
}

/// Hedges per call that the budget allows; `minPerSecond` allows hedges that no share bounds.
fn budget(hedging: &Hedging) -> f64 {
    if hedging.min_per_second > 0.0 {
        1.0
    } else {
        hedging.percent / 100.0
    }
}

/// Share of queries that miss when each of their `fan_out` calls misses with probability `miss`, independently.
fn query_miss_share(miss: f64, fan_out: Option<u32>) -> f64 {
    let calls = f64::from(fan_out.unwrap_or(1).max(1));
    // 1 - (1 - m)^N without losing small m.
    (-(calls * (-miss).ln_1p()).exp_m1()).clamp(0.0, 1.0)
}
