//! The rules, in their order of precedence.

use std::time::Duration;

use crate::delay::{Latch, line_above, line_proved, place, rounded_up};
use crate::effect::effect;
use crate::latency::{self, Estimate, Finding, Sight};
use crate::memory::{Blindness, Memory};
use crate::saturation::Saturation;
use crate::switch::{Inputs, Phase};
use crate::{
    Decision, Hedging, LimitedBy, Mode, Orders, Readings, Reason, Rules, Timestamp, UnknownReason, messages,
};

/// Decides for one target.
///
/// Total: no input panics. The memory returned replaces the one passed in; deciding again on the same input with it
/// changes nothing. With an empty memory hedging starts, through the ramp, as soon as every reading is known and good.
pub fn decide(rules: &Rules, memory: &Memory, readings: &Readings, now: Timestamp) -> (Decision, Memory) {
    run(rules, memory, readings, now, Start::Ramp)
}

/// Decides for one target from an empty memory, and shows one that may hedge as it is after the ramp: what `plan` tells.
pub fn decide_settled(rules: &Rules, readings: &Readings, now: Timestamp) -> Decision {
    run(rules, &Memory::default(), readings, now, Start::Settled).0
}

/// How hedging comes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// With a part of the budget.
    Ramp,
    /// With all of it at once, to show what will be.
    Settled,
}

fn run(
    rules: &Rules,
    memory: &Memory,
    readings: &Readings,
    now: Timestamp,
    start: Start,
) -> (Decision, Memory) {
    let mut memory = memory.sane(now);
    memory.written = now;
    let before = memory.phase.unwrap_or(Phase::first(now));
    let before = after_observing(rules.mode, before, &mut memory, now);

    let saturation = Saturation::read(rules, readings, &mut memory, now);
    let sight = latency::read(rules, readings.latency.as_ref(), &mut memory, now);
    let traffic_is_back = note_latency(rules, &sight, &mut memory, now);
    let blocker = blocker(rules, readings, &saturation, &memory);

    let inputs = Inputs {
        blocked: blocker.is_some(),
        saturated: saturation.is_above(),
        not_back: saturation.is_not_back(),
        signals_known: saturation.is_known(),
        latency_known: sight.finding.is_ok(),
        were_hedging: memory
            .orders
            .as_ref()
            .is_some_and(|orders| orders.hedging.is_some()),
    };
    let (mut phase, doublings) = before.next(inputs, memory.doublings, &rules.switch, rules.propagation, now);
    if traffic_is_back && before.is_on() && phase.is_on() {
        phase = Phase::restarted(now);
    }
    if start == Start::Settled && phase.is_on() {
        phase = Phase::Full { since: now };
    }
    (memory.phase, memory.doublings) = (Some(phase), doublings);

    let estimate = sight.finding.as_ref().ok();
    let hedging = hedging(rules, estimate, &memory, phase);
    let reason = reason(rules.mode, blocker, phase, estimate.is_some());
    let orders = match hedging {
        Some((hedging, _)) if rules.mode == Mode::Enforce => Orders {
            hedging: Some(hedging),
            reason: if phase.share() < 1.0 {
                Reason::Ramping
            } else {
                Reason::Tuned
            },
        },
        _ if rules.mode == Mode::Observe && reason != Reason::Stopped => Orders {
            hedging: None,
            reason: Reason::Observing,
        },
        _ => Orders {
            hedging: None,
            reason,
        },
    };
    note_orders(rules, &orders, estimate, &mut memory, now);

    let until = phase.until(memory.doublings, &rules.switch, rules.propagation);
    let waits = blocker.is_some() || inputs.not_back || !inputs.signals_known || !inputs.latency_known;
    let told = Told {
        rules,
        readings,
        saturation: &saturation,
        sight: &sight,
        until,
        now,
    };
    let decision = Decision {
        revision: memory.revision,
        message: told.message(reason),
        reason,
        recommended_ms: estimate
            .map(|estimate| estimate.target.recommended * 1e3)
            .filter(|ms| ms.is_finite()),
        limited_by: hedging
            .and_then(|(_, limited_by)| limited_by)
            .or(rules.budget.limited_by_source.then_some(LimitedBy::Source)),
        switch: phase.told(until, waits),
        effect: effect(rules, estimate, hedging.map(|(hedging, _)| hedging).as_ref()),
        signals: saturation.views(phase.is_saturated()),
        low_confidence: sight.low_confidence,
        latency: sight.view,
        windows_wanted: sight.wanted,
        wants_wider: sight.wants_wider,
        orders,
    };
    (decision, memory)
}

/// Notes when `Observe` begins. When it ends, clients have been off since then, whatever the phase would have been.
fn after_observing(mode: Mode, phase: Phase, memory: &mut Memory, now: Timestamp) -> Phase {
    if mode == Mode::Observe {
        memory.observing_since.get_or_insert(now);
        return phase;
    }
    match memory.observing_since.take() {
        Some(since) if phase.is_on() => Phase::cooling(since),
        _ => phase,
    }
}

/// What the latency reading means for hedging: above a line, known, held, or off. Whether traffic is back after a pause
/// for longer than a delay is held.
fn note_latency(rules: &Rules, sight: &Sight, memory: &mut Memory, now: Timestamp) -> bool {
    let in_force = in_force(memory).map(|hedging| hedging.delay_ms / 1e3);
    let before = memory.blindness.unwrap_or(Blindness {
        since: None,
        idle_since: None,
        off: false,
    });
    let idle_too_long = before
        .idle_since
        .is_some_and(|since| now.since(since) >= rules.max_staleness);
    let known = |memory: &mut Memory, latch: Option<Latch>| {
        (memory.latch, memory.blindness) = (latch, None);
        idle_too_long
    };
    match &sight.finding {
        Ok(estimate) => {
            let newest = memory.samples.newest;
            if memory.blindness.is_none() && newest > Timestamp::default() {
                let new = u64::try_from(estimate.at.since(newest).as_millis()).unwrap_or(u64::MAX);
                memory.samples.covered_ms = memory.samples.covered_ms.saturating_add(new);
            }
            memory.samples.newest = newest.max(estimate.at);
            let latch = line_above(rules, estimate.target.delay, estimate.p50, memory.latch);
            known(memory, latch)
        }
        Err(Finding::AtLeast { bound, p50, .. }) => {
            if let Some(latch) = line_proved(rules, *bound, *p50) {
                return known(memory, Some(latch));
            }
            // A hold never keeps a delay that the reading proves too short.
            let too_short = in_force.is_some_and(|delay| delay < bound + rules.delay.add.as_secs_f64());
            unknown(rules, before, idle_too_long, too_short, now, memory, now)
        }
        Err(Finding::Nothing { why, .. }) if why.reason == UnknownReason::NoTraffic => {
            let idle_since = before.idle_since.or(Some(now));
            memory.blindness = Some(Blindness { idle_since, ..before });
            false
        }
        Err(Finding::Nothing { since, .. }) => {
            unknown(rules, before, idle_too_long, false, *since, memory, now)
        }
    }
}

/// Latency is unknown for another reason than that nothing is called. A pause that was long enough for the budget to
/// restart ends with it, and the time that a delay is held begins then.
fn unknown(
    rules: &Rules,
    before: Blindness,
    idle_too_long: bool,
    too_short: bool,
    since: Timestamp,
    memory: &mut Memory,
    now: Timestamp,
) -> bool {
    let since = before.since.filter(|_| !idle_too_long).unwrap_or(since);
    let off = before.off || too_short || now.since(since) >= rules.max_staleness;
    memory.blindness = Some(Blindness {
        since: Some(since),
        idle_since: None,
        off,
    });
    idle_too_long
}

/// What keeps hedging off, by precedence; `None` when at most a cooldown does.
fn blocker(rules: &Rules, readings: &Readings, saturation: &Saturation, memory: &Memory) -> Option<Reason> {
    if readings.stop.is_some() || rules.mode == Mode::Disabled {
        Some(Reason::Stopped)
    } else if rules.fault().is_some() {
        Some(Reason::Invalid)
    } else if saturation.is_above() {
        Some(Reason::Saturated)
    } else if saturation.is_blind() {
        Some(Reason::SaturationUnknown)
    } else if memory.blindness.is_some_and(|blindness| blindness.off) {
        Some(Reason::LatencyUnknown)
    } else {
        memory.latch.map(Latch::reason)
    }
}

/// The decision's reason.
fn reason(mode: Mode, blocker: Option<Reason>, phase: Phase, latency_known: bool) -> Reason {
    match (blocker, phase) {
        (Some(Reason::LatencyUnknown), phase) if phase.is_first() => Reason::WarmingUp,
        (Some(reason @ (Reason::Stopped | Reason::Invalid | Reason::Saturated)), _) => reason,
        (_, phase) if phase.is_saturated() => Reason::Saturated,
        (Some(reason), _) => reason,
        (None, Phase::Off { first: true, .. }) => Reason::WarmingUp,
        (None, Phase::Off { .. }) => Reason::CoolingDown,
        (None, _) if mode == Mode::Observe => Reason::Observing,
        (None, _) if !latency_known => Reason::Held,
        (None, Phase::Ramping { .. }) => Reason::Ramping,
        (None, Phase::Full { .. }) => Reason::Tuned,
    }
}

/// How clients hedge now, and what keeps the delay from the percentile; `None` when off.
fn hedging(
    rules: &Rules,
    estimate: Option<&Estimate>,
    memory: &Memory,
    phase: Phase,
) -> Option<(Hedging, Option<LimitedBy>)> {
    if !phase.is_on() {
        return None;
    }
    // In `Observe` nothing is ramped, and what is shown is what hedging would cost and do in full.
    let share = if rules.mode == Mode::Observe {
        1.0
    } else {
        phase.share()
    };
    let percent = rules.budget.percent * share;
    let min_per_second = rules.budget.min_per_second * share;
    let in_force = in_force(memory);
    let Some(estimate) = estimate else {
        return in_force.map(|held| {
            (
                Hedging {
                    percent,
                    min_per_second,
                    ..held
                },
                None,
            )
        });
    };
    let new_samples = Duration::from_millis(memory.samples.covered_ms);
    let in_force_ms = in_force.map(|hedging| hedging.delay_ms);
    let placed = place(
        rules,
        &estimate.attempt,
        &estimate.target,
        in_force_ms,
        new_samples,
    );
    let p50_ms = rounded_up(estimate.p50 * 1e3);
    let min_remaining_ms = match in_force {
        // It follows the delay, and otherwise only a median that is another one: a document is not rewritten for noise.
        Some(held) if held.delay_ms.total_cmp(&placed.delay_ms).is_eq() => {
            let still = p50_ms < 1.5 * held.min_remaining_ms && p50_ms >= 0.5 * held.min_remaining_ms;
            if still { held.min_remaining_ms } else { p50_ms }
        }
        _ => p50_ms,
    };
    let hedging = Hedging {
        delay_ms: placed.delay_ms,
        min_remaining_ms,
        percent,
        min_per_second,
    };
    Some((hedging, placed.limited_by))
}

/// Remembers what clients are told, and counts it as a revision when it is another thing than before.
fn note_orders(
    rules: &Rules,
    orders: &Orders,
    estimate: Option<&Estimate>,
    memory: &mut Memory,
    now: Timestamp,
) {
    let delay = |hedging: Option<Hedging>| hedging.map(|hedging| hedging.delay_ms.to_bits());
    if estimate.is_some() && delay(orders.hedging) != delay(in_force(memory)) {
        memory.samples.covered_ms = 0;
    }
    if memory.orders.as_ref() != Some(orders) {
        memory.revision = memory.revision.saturating_add(1);
        memory.orders = Some(orders.clone());
    }
    let longest = rules
        .windows
        .max_window
        .max(rules.windows.window)
        .saturating_add(rules.propagation);
    memory.history.note(orders.hedging, now, longest);
}

fn in_force(memory: &Memory) -> Option<Hedging> {
    memory.orders.as_ref().and_then(|orders| orders.hedging)
}

/// What a message is made of.
struct Told<'a> {
    rules: &'a Rules,
    readings: &'a Readings,
    saturation: &'a Saturation,
    sight: &'a Sight,
    until: Option<Timestamp>,
    now: Timestamp,
}

impl Told<'_> {
    /// The reason with its numbers: what is so, why, and what it waits for.
    fn message(&self, reason: Reason) -> String {
        match reason {
            Reason::Stopped => match &self.readings.stop {
                Some(stop) => stop.message.clone(),
                None => "mode: Disabled".to_owned(),
            },
            Reason::Invalid => self.rules.fault().unwrap_or_default().to_owned(),
            Reason::Saturated => self.saturation.told_saturated(),
            Reason::SaturationUnknown => self.saturation.told_unknown(self.now),
            Reason::AboveMax => {
                let max = messages::duration(self.rules.delay.max);
                format!(
                    "{}, delay.max is {max}: the service is slow as a whole",
                    self.latency()
                )
            }
            Reason::NoTimeToHedge => {
                let deadline = messages::duration(self.rules.deadline.unwrap_or_default());
                format!(
                    "{}: a hedge could not answer within the deadline of {deadline}",
                    self.latency()
                )
            }
            Reason::CoolingDown => self.cooling(),
            Reason::Held => format!("the delay is held: {}", self.latency()),
            _ => self.waiting().unwrap_or_else(|| self.latency()),
        }
    }

    /// `p95 512 ms of 12000 calls in 10m`, or why there is no such thing.
    fn latency(&self) -> String {
        match &self.sight.finding {
            Ok(estimate) => format!(
                "{} {} of {:.0} calls in {}",
                messages::percentile(self.rules.delay.quantile),
                messages::milliseconds(estimate.target.recommended),
                estimate.calls.calls(),
                messages::duration(self.sight.view.window.unwrap_or_default()),
            ),
            Err(finding) => finding.why().to_string(),
        }
    }

    /// What keeps hedging off beside the time that a cooldown takes.
    fn waiting(&self) -> Option<String> {
        let mut waiting = Vec::new();
        if self.saturation.is_not_back() {
            waiting.push(self.saturation.told_saturated());
        }
        if !self.saturation.is_known() {
            waiting.push(self.saturation.told_unknown(self.now));
        }
        if self.sight.finding.is_err() {
            waiting.push(self.latency());
        }
        (!waiting.is_empty()).then(|| waiting.join("; "))
    }

    fn cooling(&self) -> String {
        let left = self
            .until
            .map(|until| until.since(self.now))
            .filter(|left| !left.is_zero());
        let left = left.map(|left| format!("back in {}", messages::duration(left)));
        left.into_iter()
            .chain(self.waiting())
            .collect::<Vec<_>>()
            .join("; ")
    }
}
