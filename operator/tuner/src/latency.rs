//! What the latency reading says: a distribution, a bound, or nothing.

use std::time::Duration;

use crate::delay::{Asked, SlowMode, Target};
use crate::diagnosis::{Evidence, Foreseen, foresee};
use crate::finding::{Finding, Look, Observed, Seen};
use crate::memory::Memory;
use crate::observation::Observation;
use crate::survival::Survival;
use crate::tally::Tally;
use crate::windows::{choose, ladder, wanted};
use crate::{
    Latency, LatencyView, Measures, Rules, Timestamp, Unknown, UnknownReason, WindowReading, messages,
};

/// The latency reading, understood.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    /// What it says about the delay.
    pub(crate) finding: Result<Estimate, Finding>,
    /// What the diagnoses say of how it was read, also where it then gives no delay; `None` where there were no calls.
    pub(crate) foreseen: Option<Foreseen>,
    /// As status tells it.
    pub(crate) view: LatencyView,
    /// Why it deserves little confidence.
    pub(crate) low_confidence: Option<String>,
    /// The windows to ask for next, narrowest first.
    pub(crate) wanted: Vec<Duration>,
    /// Whether asking for them at once brings what is missing.
    pub(crate) wants_wider: bool,
}

/// A usable reading.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    /// What it says of one attempt.
    pub(crate) observed: Observed,
    /// The delay that that asks for.
    pub(crate) target: Target,
}

/// Reads the latency at `now`, with the delay that clients hedge at if they do; notes in `memory` the window in use, the
/// measure that proved plausible and a slow mode.
pub(crate) fn read(
    rules: &Rules,
    latency: Option<&Latency>,
    tallies: &[Tally],
    in_force_ms: Option<f64>,
    memory: &mut Memory,
    now: Timestamp,
) -> Sight {
    let ladder = ladder(&rules.windows);
    let current = memory.window_ms.map(Duration::from_millis);
    let nothing = |why: Unknown, since: Timestamp, at: Option<Timestamp>| {
        let upto = current
            .and_then(|current| ladder.iter().position(|&rung| rung >= current))
            .unwrap_or(0);
        Sight {
            view: LatencyView {
                unknown: Some(why.clone()),
                at,
                ..LatencyView::default()
            },
            finding: Err(Finding::Nothing { since, why }),
            foreseen: None,
            low_confidence: None,
            wanted: ladder.iter().copied().take(upto + 1).collect(),
            wants_wider: false,
        }
    };
    let Some(latency) = latency else {
        return nothing(Unknown::new(UnknownReason::Stale, "not read yet"), now, None);
    };
    let at = latency.at.min(now);
    let windows = match &latency.windows {
        Ok(windows) => windows,
        Err(why) => return nothing(why.clone(), now, Some(at)),
    };
    if now.since(at) > rules.max_staleness {
        let message = format!("the last reading is {} old", messages::duration(now.since(at)));
        return nothing(Unknown::new(UnknownReason::Stale, message), at, Some(at));
    }
    let (seen, fault) = observe(rules, windows);
    let samples: Vec<_> = seen
        .iter()
        .map(|seen| (seen.reading.window, seen.observation.calls()))
        .collect();
    if samples.is_empty() {
        let why = fault.unwrap_or_else(|| Unknown::new(UnknownReason::BadResponse, "no window was read"));
        return nothing(why, now, Some(at));
    }
    let chosen = choose(&samples, current, rules.windows.min_samples);
    let wanted = wanted(&ladder, &samples, chosen, rules.windows.min_samples);
    let missing = wanted
        .iter()
        .any(|wanted| windows.iter().all(|reading| reading.window != *wanted));
    let wants_wider = chosen.is_none() && missing;
    let calls_of = |index: usize| Some((index, seen[index].observation.survival()?));
    let Some((index, calls)) = chosen.and_then(calls_of) else {
        let why = fault.unwrap_or_else(|| too_few(rules, &samples));
        let mut sight = Sight {
            wants_wider,
            wanted,
            ..nothing(why, now, Some(at))
        };
        sight.view.samples = samples.last().map(|&(_, calls)| calls);
        sight.view.window = samples.last().map(|&(window, _)| window);
        return sight;
    };
    let (reading, window) = (seen[index].reading, seen[index].reading.window);
    memory.window_ms = Some(u64::try_from(window.as_millis()).unwrap_or(u64::MAX));
    let look = Look {
        rules,
        memory,
        tallies,
        in_force_ms,
        at,
        now,
        counters_agree: true,
        slow_together: false,
    };
    let seen_calls = look.seen(&calls, window);
    let evidence = Evidence::new(rules, tallies, Ok(&seen_calls), &memory.history, now);
    let foreseen = foresee(&evidence, &memory.findings);
    let look = Look {
        counters_agree: foreseen.counters_agree(),
        slow_together: foreseen.slow_together(),
        ..look
    };
    let observed = look.understood(seen_calls);
    let low_confidence = doubts(
        rules,
        &calls,
        reading,
        look.least_while_unseen(reading, &observed),
    );
    let mut view = view(&calls, window, at);
    view.percentile_ms = interval(rules, &observed.attempt);
    let mut slow_mode = memory.slow_mode;
    let found = look.found(&seen, index, &observed, &mut slow_mode);
    view.unknown = found.as_ref().err().map(|finding| finding.why().clone());
    memory.slow_mode = slow_mode;
    if found.is_ok() && memory.accepted.as_ref() != Some(&rules.measure) {
        memory.accepted = Some(rules.measure.clone());
    }
    let rungs = rungs_for_slow_mode(rules, &ladder, &samples, memory.slow_mode, now).max(wanted.len());
    Sight {
        wanted: ladder.iter().copied().take(rungs).collect(),
        finding: found.map(|target| Estimate { observed, target }),
        foreseen: Some(foreseen),
        view,
        low_confidence,
        wants_wider,
    }
}

/// The windows up to the first that cannot be read, and why that one cannot.
fn observe<'a>(rules: &Rules, windows: &'a [WindowReading]) -> (Vec<Seen<'a>>, Option<Unknown>) {
    let mut seen = Vec::with_capacity(windows.len());
    for reading in windows {
        match Observation::of(rules, reading) {
            Ok(observation) => seen.push(Seen { reading, observation }),
            Err(why) => return (seen, Some(why)),
        }
    }
    (seen, None)
}

/// How many windows, narrowest first, hold the calls that tell that a slow mode is gone, which may be more than the delay needs:
/// of those that it governed.
fn rungs_for_slow_mode(
    rules: &Rules,
    ladder: &[Duration],
    samples: &[(Duration, f64)],
    mode: Option<SlowMode>,
    now: Timestamp,
) -> usize {
    let Some(governed) = mode.and_then(|mode| mode.governs_for(now)) else {
        return 0;
    };
    let enough = Asked::by(rules).calls_to_leave();
    let filled = samples
        .iter()
        .find(|&&(_, calls)| calls >= enough)
        .map(|&(window, _)| window);
    let more = |rung: &&Duration| **rung <= governed && filled.is_none_or(|filled| **rung <= filled);
    ladder.iter().filter(more).count()
}

fn too_few(rules: &Rules, counts: &[(Duration, f64)]) -> Unknown {
    if let Some(&(window, 0.0)) = counts.first() {
        return Unknown::new(
            UnknownReason::NoTraffic,
            format!("no calls in {}", messages::duration(window)),
        );
    }
    let (window, calls) = counts.last().copied().unwrap_or_default();
    let (window, wanted) = (messages::duration(window), rules.windows.min_samples);
    Unknown::new(
        UnknownReason::TooFewSamples,
        format!("{calls:.0} calls in {window}, {wanted} wanted"),
    )
}

fn view(calls: &Survival, window: Duration, at: Timestamp) -> LatencyView {
    let ms = |q: f64| {
        calls
            .quantile(q)
            .estimate()
            .map(|seconds| seconds * 1e3)
            .filter(|ms| ms.is_finite())
    };
    LatencyView {
        unknown: None,
        at: Some(at),
        samples: Some(calls.calls()).filter(|calls| calls.is_finite()),
        p50_ms: ms(0.5),
        p95_ms: ms(0.95),
        p99_ms: ms(0.99),
        window: Some(window),
        percentile_ms: None,
    }
}

/// Where the percentile lies with 95 % confidence, in milliseconds; `None` when that has no upper end.
fn interval(rules: &Rules, attempt: &Survival) -> Option<(f64, f64)> {
    let q = rules.delay.quantile;
    let doubt = 1.96 * attempt.deviation(q);
    let least = attempt.quantile((q - doubt).max(0.0)).at_least();
    let most = attempt.quantile((q + doubt).min(1.0)).estimate()?;
    let (least_ms, most_ms) = (least * 1e3, most * 1e3);
    (least_ms.is_finite() && most_ms.is_finite()).then_some((least_ms, most_ms))
}

fn doubts(rules: &Rules, calls: &Survival, reading: &WindowReading, unseen: Option<f64>) -> Option<String> {
    let mut doubts: Vec<String> = reading.caveat.iter().cloned().collect();
    if rules.windows.low_confidence {
        let (wanted, name) = (
            rules.windows.min_samples,
            messages::percentile(rules.delay.quantile),
        );
        doubts.push(format!("minSamples {wanted} is less than {name} needs"));
    }
    if let Some(deadline) = rules.deadline
        && reading.timeouts.is_none()
        && calls.reach() < deadline.as_secs_f64()
    {
        // A bucket bound at the deadline still tells the calls that reached it apart.
        let deadline = messages::duration(deadline);
        doubts.push(format!("calls cut at the deadline of {deadline} are not seen: no timeouts are counted and no bucket reaches it"));
    }
    if rules.measures == Measures::Server && rules.delay.add.is_zero() && !rules.counted {
        doubts
            .push("a server does not see the network: no counters and no delay.add allow for it".to_owned());
    }
    if unseen.is_some() {
        doubts.push(
            "clients are told to hedge and no attempt was seen to be cut short: the delay does not fall"
                .to_owned(),
        );
    }
    (!doubts.is_empty()).then(|| doubts.join("; "))
}
