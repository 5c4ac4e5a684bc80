//! The rules, in their order of precedence.

mod doubts;
mod grounds;
mod record;
mod terms;

use crate::counted::{self, Counted};
use crate::diagnosis::{Evidence, counts_wanted, diagnose, foresee, forget_another_measure};
use crate::effect::effect;
use crate::fitness::{note_latency, unfit};
use crate::latency;
use crate::memory::Memory;
use crate::saturation::Saturation;
use crate::switch::{Inputs, Phase};
use crate::tally::tallies;
use crate::told::Told;
use crate::{CountsView, Decision, LimitedBy, Mode, Orders, Readings, Reason, Rules, Timestamp};
use doubts::{counters_lost, joined};
use grounds::{halted, is_forced, no_benefit, reason};
use record::{in_force, note_measurement, note_orders};
use terms::{Moment, on};

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
    let halted = halted(rules, readings, &saturation);
    // A delay that is on its way out is no argument.
    let in_force_ms = in_force(&memory)
        .filter(|_| halted.is_none())
        .map(|hedging| hedging.delay_ms);
    forget_another_measure(rules, &mut memory);
    let tallies = tallies(readings.counts.as_ref(), rules.max_staleness, now);
    let sight = latency::read(
        rules,
        readings.latency.as_ref(),
        &tallies,
        in_force_ms,
        &mut memory,
        now,
    );
    let traffic_is_back = note_latency(rules, &sight, in_force_ms, &mut memory, now);
    let finding = sight.finding.as_ref().map(|estimate| &estimate.observed);
    let evidence = Evidence::new(rules, &tallies, finding, &memory.history, now);
    let foreseen = sight
        .foreseen
        .unwrap_or_else(|| foresee(&evidence, &memory.findings));
    let evidence = evidence.given(foreseen.counters_agree());
    let hedged_share = evidence.hedged_share();
    let diagnoses = diagnose(&evidence, foreseen, &mut memory.findings);
    let rests = memory.findings.rests(now).then_some(Reason::NoBenefit);
    let blocker = halted.or_else(|| unfit(&memory)).or(rests);

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
        probing: memory.findings.probes(now),
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
    let counted = counted::read(rules, &tallies, &mut memory, now);
    let at_full_budget = matches!((before, phase), (Phase::Full { .. }, Phase::Full { .. }));
    let all_is_well = at_full_budget && inputs.all_known() && rules.mode == Mode::Enforce;
    if let (Some(Counted::Measured(measured)), Some(told)) = (counted, in_force(&memory))
        // `minPerSecond` allows hedges that no share bounds.
        && told.min_per_second <= 0.0
    {
        memory.back_off = memory
            .back_off
            .after(&measured, told.percent / 100.0, all_is_well);
    }
    let moment = Moment {
        phase,
        rewritten: before.share() < phase.share(),
        counted,
        all_is_well,
    };
    let on = on(rules, estimate, &memory, moment);
    let reason = reason(rules.mode, blocker, phase, estimate.is_some());
    let orders = match on.map(|on| on.hedging) {
        Some(hedging) if rules.mode == Mode::Enforce => Orders {
            hedging: Some(hedging),
            reason: if phase.share() < 1.0 {
                Reason::Ramping
            } else {
                Reason::Tuned
            },
        },
        _ if rules.mode == Mode::Observe && !is_forced(reason) => Orders {
            hedging: None,
            reason: Reason::Observing,
        },
        _ => Orders {
            hedging: None,
            reason,
        },
    };
    note_measurement(counted, estimate, on, &orders, &mut memory);
    let counts = counted.map(|counted| {
        let read = readings.counts.as_ref();
        CountsView::of(rules, read, &tallies, counted, memory.measurement, now)
    });
    note_orders(rules, &orders, estimate, counted, &mut memory, now);

    let independent = !memory.findings.attempts_depend();
    let known = estimate.map(|estimate| estimate.observed.known(hedged_share, independent));
    let rests_until = memory.findings.rests_until().filter(|_| rests.is_some());
    let until = phase
        .until(memory.doublings, &rules.switch, rules.propagation)
        .max(rests_until);
    let waits = blocker != rests || inputs.not_back || !inputs.signals_known || !inputs.latency_known;
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
        message: no_benefit(reason, &diagnoses).unwrap_or_else(|| told.message(reason)),
        reason,
        recommended_ms: estimate
            .and_then(|estimate| estimate.target.percentile.estimate())
            .map(|seconds| seconds * 1e3)
            .filter(|ms| ms.is_finite()),
        limited_by: on
            .and_then(|on| on.limited_by)
            .or(rules.budget.limited_by_source.then_some(LimitedBy::Source)),
        switch: phase.told(until, waits),
        effect: effect(rules, known.as_ref(), on.map(|on| on.hedging).as_ref()),
        signals: saturation.views(phase.is_saturated()),
        counts_wanted: counts_wanted(rules, &tallies, counted::wanted(rules, &memory, now)),
        low_confidence: joined(sight.low_confidence, counters_lost(counts.as_ref(), start)),
        counts,
        latency: sight.view,
        diagnoses,
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
