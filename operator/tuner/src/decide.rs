//! The rules, in their order of precedence.

use std::time::Duration;

use crate::closed_loop::Guided;
use crate::counted::{self, Counted};
use crate::delay::{Placed, place, rounded_up};
use crate::diagnosis::{Evidence, counts_wanted, diagnose, foresee, forget_another_measure};
use crate::effect::effect;
use crate::fitness::{note_latency, unfit};
use crate::latency::{self, Estimate};
use crate::memory::{Limits, Memory};
use crate::saturation::Saturation;
use crate::switch::{Inputs, Phase};
use crate::tally::tallies;
use crate::told::Told;
use crate::{
    CountsView, Decision, Diagnosis, DiagnosisReason, Guidance, Hedging, LimitedBy, Measured, Message, Mode,
    Orders, Readings, Reason, Rules, Stop, Timestamp,
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

/// What turns hedging off whatever latency says, by precedence.
fn halted(rules: &Rules, readings: &Readings, saturation: &Saturation) -> Option<Reason> {
    let stop = readings.stop.as_ref().map(Stop::reason);
    if stop == Some(Reason::Stopped) || rules.mode == Mode::Disabled {
        Some(Reason::Stopped)
    } else if stop.is_some() {
        stop
    } else if rules.fault().is_some() {
        Some(Reason::Invalid)
    } else if saturation.is_above() {
        Some(Reason::Saturated)
    } else if saturation.is_blind() {
        Some(Reason::SaturationUnknown)
    } else {
        None
    }
}

/// Whether this turns hedging off whatever is read.
const fn is_forced(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Stopped | Reason::Invalid | Reason::SourceNotAvailable
    )
}

/// The decision's reason.
fn reason(mode: Mode, blocker: Option<Reason>, phase: Phase, latency_known: bool) -> Reason {
    match (blocker, phase) {
        (Some(Reason::LatencyUnknown), phase) if phase.is_first() => Reason::WarmingUp,
        (Some(reason), _) if is_forced(reason) || reason == Reason::Saturated => reason,
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

/// What the delay and the budget follow beside latency.
#[derive(Clone, Copy)]
struct Moment {
    /// Off, ramping or at full budget.
    phase: Phase,
    /// The document is rewritten anyway, as the budget ramps up.
    rewritten: bool,
    /// What the counters say; `None` when the policy names none.
    counted: Option<Counted>,
    /// At full budget with every reading known, and clients follow: the counters may shorten a delay and give back budget.
    all_is_well: bool,
}

/// What is said of hedges that do not win, when that keeps hedging off.
fn no_benefit(reason: Reason, diagnoses: &[Diagnosis]) -> Option<Message> {
    let said = diagnoses
        .iter()
        .find(|diagnosis| diagnosis.reason == DiagnosisReason::NoBenefit);
    said.filter(|_| reason == Reason::NoBenefit)
        .map(|diagnosis| diagnosis.message.clone().into())
}

/// Why what clients count is no help: said once it has been unknown for longer than a delay is held, or where there is only
/// one look.
fn counters_lost(counts: Option<&CountsView>, start: Start) -> Option<String> {
    let CountsView {
        unknown, guidance, ..
    } = counts?;
    let why = unknown.as_ref()?;
    let is_lost = *guidance == Guidance::Unknown || start == Start::Settled;
    is_lost.then(|| format!("what clients count of their hedges is unknown, {why}"))
}

fn joined(doubts: Option<String>, more: Option<String>) -> Option<String> {
    let doubts: Vec<_> = doubts.into_iter().chain(more).collect();
    (!doubts.is_empty()).then(|| doubts.join("; "))
}

/// How clients hedge now.
#[derive(Clone, Copy)]
struct On {
    hedging: Hedging,
    /// What keeps the delay from the percentile.
    limited_by: Option<LimitedBy>,
    /// Whether what clients count placed the delay.
    by_counters: bool,
}

/// How clients hedge now; `None` when off.
fn on(rules: &Rules, estimate: Option<&Estimate>, memory: &Memory, moment: Moment) -> Option<On> {
    if !moment.phase.is_on() {
        return None;
    }
    // In `Observe` nothing is ramped, and what is shown is what hedging would cost and do in full.
    let share = if rules.mode == Mode::Observe {
        1.0
    } else {
        moment.phase.share() * memory.back_off.part()
    };
    let percent = short(rules.budget.percent * share);
    let min_per_second = short(rules.budget.min_per_second * share);
    let in_force = in_force(memory);
    let Some(estimate) = estimate else {
        return in_force.map(|held| On {
            hedging: Hedging {
                percent,
                min_per_second,
                ..held
            },
            limited_by: None,
            by_counters: false,
        });
    };
    let placed = placed(rules, estimate, memory, moment);
    let p50_ms = rounded_up(estimate.observed.p50 * 1e3);
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
    Some(On {
        hedging,
        limited_by: placed.limited_by,
        by_counters: placed.by_counters,
    })
}

/// Remembers what was measured of the delay in force, to be told, and where that moves it.
fn note_measurement(
    counted: Option<Counted>,
    estimate: Option<&Estimate>,
    on: Option<On>,
    orders: &Orders,
    memory: &mut Memory,
) {
    let (Some(Counted::Measured(measurement)), Some(told)) = (counted, in_force(memory)) else {
        return;
    };
    let asked = estimate.map(|estimate| estimate.target.aim.share);
    let moved_to_ms = orders
        .hedging
        .filter(|_| on.is_some_and(|on| on.by_counters))
        .map(|hedging| hedging.delay_ms)
        .filter(|delay_ms| delay_ms.total_cmp(&told.delay_ms).is_ne());
    memory.measurement = Some(Measured::of(&measurement, told.delay_ms, asked, moved_to_ms));
}

/// Where the delay goes: by the counters where a delay is in force that they have measured, else by the buckets.
fn placed(rules: &Rules, estimate: &Estimate, memory: &Memory, moment: Moment) -> Placed {
    let (attempt, target) = (&estimate.observed.attempt, &estimate.target);
    let new_samples = Duration::from_millis(memory.samples.covered_ms);
    let told = in_force(memory);
    let in_force_ms = told.map(|told| told.delay_ms);
    match (moment.counted, told) {
        (Some(counted), Some(told)) => Guided {
            rules,
            attempt,
            target,
            in_force_ms: told.delay_ms,
            new_samples,
            allowed: told.percent / 100.0,
            may_shorten: moment.all_is_well && memory.back_off.is_none(),
            stepped: memory.stepped,
        }
        .placed(counted),
        _ => place(rules, attempt, target, in_force_ms, new_samples, moment.rewritten),
    }
}

/// With the eight decimals that a quarter of a policy's number can need: more would not outlive being written and read.
fn short(number: f64) -> f64 {
    (number * 1e8).round() / 1e8
}

/// Remembers what clients are told, and counts it as a revision when it is another thing than before.
fn note_orders(
    rules: &Rules,
    orders: &Orders,
    estimate: Option<&Estimate>,
    counted: Option<Counted>,
    memory: &mut Memory,
    now: Timestamp,
) {
    let delay = |hedging: Option<Hedging>| hedging.map(|hedging| hedging.delay_ms.to_bits());
    let before = in_force(memory);
    if let Some(estimate) = estimate.filter(|_| delay(orders.hedging) != delay(before)) {
        memory.samples.covered_ms = 0;
        if let (Some(before), Some(_), Some(Counted::Measured(measured))) = (before, orders.hedging, counted)
        {
            let aim = &estimate.target.aim;
            memory.stepped = Some(measured.stepped(memory.stepped, before.delay_ms, aim));
        }
    }
    let limits = Limits::told(rules, orders);
    // A memory without limits is one of an earlier version, which is no change of what clients are told.
    let same_limits = memory.limits.is_none_or(|told| told == limits);
    if memory.orders.as_ref() != Some(orders) || !same_limits {
        memory.revision = memory.revision.saturating_add(1);
        memory.orders = Some(orders.clone());
        memory.published = now;
    }
    memory.limits = Some(limits);
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
