//! What the latency reading says: a distribution, a bound, or nothing.

use std::time::Duration;

use crate::binomial::unlikely;
use crate::delay::{self, Asked, Evidence, Target, aim, line_above, proved_by_share, target};
use crate::history::Coverage;
use crate::memory::Memory;
use crate::survival::Survival;
use crate::windows::{choose, ladder, wanted};
use crate::{
    Latency, LatencyView, Quantile, Rules, Timestamp, Unknown, UnknownReason, WindowReading, messages,
};

/// The latency reading, understood.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    /// What it says about the delay.
    pub(crate) finding: Result<Estimate, Finding>,
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
    /// When its newest sample was taken.
    pub(crate) at: Timestamp,
    /// The calls as observed.
    pub(crate) calls: Survival,
    /// One attempt.
    pub(crate) attempt: Survival,
    /// How much of it was hedged.
    pub(crate) coverage: Coverage,
    /// The attempt's median in seconds.
    pub(crate) p50: f64,
    /// The delay that it asks for.
    pub(crate) target: Target,
}

/// A reading that gives no delay.
#[derive(Clone, Debug)]
pub(crate) enum Finding {
    /// The quantile, and the median, are at least this, in seconds.
    AtLeast { bound: f64, p50: f64, why: Unknown },
    /// Nothing is known since.
    Nothing { since: Timestamp, why: Unknown },
}

/// One window of the reading.
struct Seen<'a> {
    reading: &'a WindowReading,
    /// `None` when nothing was counted.
    calls: Option<Survival>,
}

/// Reads the latency at `now`, with the delay that clients hedge at if they do; notes in `memory` the window in use, the
/// measure that proved plausible and a slow mode. `slow_together` judges one attempt and the calls as observed.
pub(crate) fn read(
    rules: &Rules,
    latency: Option<&Latency>,
    in_force_ms: Option<f64>,
    slow_together: impl FnOnce(&Survival, &Survival) -> bool,
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
    let counts: Vec<_> = seen
        .iter()
        .map(|seen| {
            (
                seen.reading.window,
                seen.calls.as_ref().map_or(0.0, Survival::calls),
            )
        })
        .collect();
    if counts.is_empty() {
        let why = fault.unwrap_or_else(|| Unknown::new(UnknownReason::BadResponse, "no window was read"));
        return nothing(why, now, Some(at));
    }
    let chosen = choose(&counts, current, rules.windows.min_samples);
    let wanted = wanted(&ladder, &counts, chosen, rules.windows.min_samples);
    let missing = wanted
        .iter()
        .any(|wanted| windows.iter().all(|reading| reading.window != *wanted));
    let mut sight = Sight {
        wants_wider: chosen.is_none() && missing,
        wanted,
        ..nothing(too_few(rules, &counts), now, Some(at))
    };
    let Some((index, calls)) = chosen.and_then(|index| Some((index, seen[index].calls.as_ref()?))) else {
        let why = fault.unwrap_or_else(|| too_few(rules, &counts));
        sight.view = LatencyView {
            samples: counts.last().map(|&(_, calls)| calls),
            ..sight.view
        };
        sight.view.window = counts.last().map(|&(window, _)| window);
        return sight.unknown(why, now);
    };
    let window = seen[index].reading.window;
    memory.window_ms = Some(u64::try_from(window.as_millis()).unwrap_or(u64::MAX));
    let coverage = |window| memory.history.coverage(at, window, rules.propagation);
    sight.view = view(calls, window, at);
    sight.low_confidence = doubts(rules, calls, seen[index].reading);
    let hedged = coverage(window);
    let attempt = calls.of_attempt(hedged.parts());
    let p50 = attempt.quantile(0.5).at_least();
    if let Some(why) = implausible(rules, memory, p50) {
        return sight.unknown(why, now);
    }
    let governed = governed_by_slow_mode(memory, now);
    let longest = seen
        .iter()
        .rposition(|seen| seen.reading.window <= governed.unwrap_or_default());
    let wide = longest.filter(|&longest| longest > index).and_then(|longest| {
        let (calls, coverage) = (
            seen[longest].calls.as_ref()?,
            coverage(seen[longest].reading.window),
        );
        Some((
            calls,
            calls.of_attempt(coverage.parts()),
            coverage.smallest_delay(),
        ))
    });
    let since_then = match &wide {
        Some((calls, attempt, hedged_from)) => delay::Seen {
            calls,
            attempt,
            hedged_from: *hedged_from,
        },
        None => delay::Seen {
            calls,
            attempt: &attempt,
            hedged_from: hedged.smallest_delay(),
        },
    };
    let evidence = Evidence {
        attempt: &attempt,
        calls,
        since_then,
        slow_together: slow_together(&attempt, calls),
    };
    let asked = Asked::by(rules);
    let aim = aim(&asked, &evidence, &mut memory.slow_mode, now);
    if let Some(governed) = governed_by_slow_mode(memory, now) {
        // What tells that it is gone may need more calls than the delay does.
        let enough = |&&(_, calls): &&(Duration, f64)| calls >= asked.calls_to_leave();
        let filled = counts.iter().find(enough).map(|&(window, _)| window);
        let more = |rung: &&Duration| **rung <= governed && filled.is_none_or(|filled| **rung <= filled);
        let rungs = ladder.iter().filter(more).count().max(sight.wanted.len());
        sight.wanted = ladder.iter().copied().take(rungs).collect();
    }
    let quantile = attempt.quantile(aim.quantile);
    let in_force = in_force_ms.map(|delay_ms| delay_ms / 1e3);
    let proved = proved_by_share(rules, &attempt, aim, in_force, hedged.smallest_delay(), calls)
        .filter(|proved| line_above(rules, proved, p50, memory.latch).is_none());
    let estimate = match (proved, quantile) {
        (Some(proved), _) => proved.delay,
        (None, Quantile::Estimate { seconds, .. }) => seconds,
        (None, Quantile::AtLeast(bound)) => {
            let (name, bound_ms) = (
                messages::percentile(rules.delay.quantile),
                messages::milliseconds(bound),
            );
            let message = format!("{name} is at least {bound_ms}, which is all that the buckets say");
            let why = Unknown::new(UnknownReason::AboveTopBucket, message);
            sight.view.unknown = Some(why.clone());
            sight.finding = Err(Finding::AtLeast { bound, p50, why });
            return sight;
        }
    };
    for narrower in &seen[..index] {
        let window = narrower.reading.window;
        let narrow = narrower
            .calls
            .as_ref()
            .map(|calls| calls.of_attempt(coverage(window).parts()));
        if let Some(why) = narrow.and_then(|narrow| contradiction(aim.share, &narrow, estimate, window)) {
            return sight.unknown(why, now);
        }
    }
    let Some(target) = proved.or_else(|| target(rules, &attempt, aim, quantile)) else {
        let name = messages::percentile(rules.delay.quantile);
        let message = format!(
            "{name} is {}, which is no delay",
            messages::milliseconds(estimate)
        );
        return sight.unknown(Unknown::new(UnknownReason::OutOfRange, message), now);
    };
    memory.accepted = Some(rules.measure.clone());
    let (coverage, calls) = (hedged, calls.clone());
    sight.finding = Ok(Estimate {
        at,
        calls,
        attempt,
        coverage,
        p50,
        target,
    });
    sight
}

/// How long the delay has been under a slow mode, if it is.
fn governed_by_slow_mode(memory: &Memory, now: Timestamp) -> Option<Duration> {
    let mode = memory.slow_mode.filter(|mode| mode.under)?;
    Some(now.since(mode.since))
}

impl Sight {
    fn unknown(mut self, why: Unknown, since: Timestamp) -> Self {
        self.view.unknown = Some(why.clone());
        self.finding = Err(Finding::Nothing { since, why });
        self
    }
}

impl Finding {
    /// Why there is no delay.
    pub(crate) const fn why(&self) -> &Unknown {
        match self {
            Self::AtLeast { why, .. } | Self::Nothing { why, .. } => why,
        }
    }
}

/// The windows up to the first that cannot be read, and why that one cannot.
fn observe<'a>(rules: &Rules, windows: &'a [WindowReading]) -> (Vec<Seen<'a>>, Option<Unknown>) {
    let deadline = rules.deadline.map(|deadline| deadline.as_secs_f64());
    let mut seen = Vec::with_capacity(windows.len());
    for reading in windows {
        let timeouts = reading.timeouts.unwrap_or(0.0);
        if !timeouts.is_finite() || timeouts < 0.0 {
            let message = format!("{timeouts} calls timed out");
            return (seen, Some(Unknown::new(UnknownReason::OutOfRange, message)));
        }
        let calls = match (&reading.distribution, deadline) {
            (Ok(histogram), _) => Some(Survival::observed(histogram, timeouts, deadline)),
            (Err(why), _) if why.reason != UnknownReason::NoTraffic => return (seen, Some(why.clone())),
            // No call ever answered: that is no lack of traffic.
            (Err(_), Some(deadline)) if timeouts > 0.0 => Some(Survival::all_timed_out(timeouts, deadline)),
            (Err(_), _) => None,
        };
        seen.push(Seen { reading, calls });
    }
    (seen, None)
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

/// A wider window may not contradict a narrower one: a drop of traffic in an incident would bring the time before the
/// incident back into view, and hedging with it.
fn contradiction(share: f64, narrow: &Survival, estimate: f64, window: Duration) -> Option<Unknown> {
    let calls = narrow.calls();
    let longer = calls * narrow.at_most(estimate);
    unlikely(longer, calls, share).then(|| {
        let (estimate, window) = (messages::milliseconds(estimate), messages::duration(window));
        Unknown::new(
            UnknownReason::TooFewSamples,
            format!("{longer:.0} of the last {calls:.0} calls ({window}) took longer than the {estimate} of a wider window"),
        )
    })
}

/// A first reading whose median is above the deadline has the wrong unit. Later it is a slow service.
fn implausible(rules: &Rules, memory: &Memory, p50: f64) -> Option<Unknown> {
    let deadline = rules.deadline?;
    (memory.accepted.as_ref() != Some(&rules.measure) && p50 > deadline.as_secs_f64()).then(|| {
        let (p50, deadline) = (messages::milliseconds(p50), messages::duration(deadline));
        Unknown::new(
            UnknownReason::ImplausibleUnit,
            format!("p50 reads {p50} with a deadline of {deadline}: is the unit right?"),
        )
    })
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
    }
}

fn doubts(rules: &Rules, calls: &Survival, reading: &WindowReading) -> Option<String> {
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
        && calls.last_bound() < deadline.as_secs_f64()
    {
        // A bucket bound at the deadline still tells the calls that reached it apart.
        let deadline = messages::duration(deadline);
        doubts.push(format!("calls cut at the deadline of {deadline} are not seen: no timeouts are counted and no bucket reaches it"));
    }
    (!doubts.is_empty()).then(|| doubts.join("; "))
}
