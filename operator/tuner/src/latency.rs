//! What the latency reading says: a distribution, a bound, or nothing.

use std::time::Duration;

use crate::binomial::unlikely;
use crate::delay::{Target, line_above, proved_by_share, target};
use crate::history::Coverage;
use crate::memory::Memory;
use crate::observation::{censoring_unseen, counted, hedging_in, least_while_unseen, observed};
use crate::survival::Survival;
use crate::windows::{choose, ladder, wanted};
use crate::{
    Counts, Latency, LatencyView, Measures, Quantile, Rules, Timestamp, Unknown, UnknownReason,
    WindowReading, messages,
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

/// Reads the latency at `now`, with the delay that clients hedge at if they do; notes in `memory` the window in use and the
/// measure that proved plausible.
pub(crate) fn read(
    rules: &Rules,
    latency: Option<&Latency>,
    counts: Option<&Counts>,
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
        .map(|seen| {
            (
                seen.reading.window,
                seen.calls.as_ref().map_or(0.0, Survival::calls),
            )
        })
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
    let mut sight = Sight {
        wants_wider: chosen.is_none() && missing,
        wanted,
        ..nothing(too_few(rules, &samples), now, Some(at))
    };
    let Some((index, calls)) = chosen.and_then(|index| Some((index, seen[index].calls.as_ref()?))) else {
        let why = fault.unwrap_or_else(|| too_few(rules, &samples));
        sight.view = LatencyView {
            samples: samples.last().map(|&(_, calls)| calls),
            ..sight.view
        };
        sight.view.window = samples.last().map(|&(window, _)| window);
        return sight.unknown(why, now);
    };
    let window = seen[index].reading.window;
    memory.window_ms = Some(u64::try_from(window.as_millis()).unwrap_or(u64::MAX));
    let coverage = |window| memory.history.coverage(at, window, rules.propagation);
    let counted = |window| counted(counts, at, window);
    let attempt_in = |calls: &Survival, window| {
        let hedged_at_most = counted(window).and_then(|counted| counted.hedged_at_most());
        let hedged = hedging_in(rules, coverage(window));
        (calls.of_attempt(hedged.parts(), hedged_at_most), hedged)
    };
    let reading = seen[index].reading;
    let in_window = counted(window);
    let (attempt, hedged) = attempt_in(calls, window);
    let quantile = attempt.quantile(rules.delay.quantile);
    sight.view = view(calls, window, at);
    sight.view.percentile_ms = interval(rules, &attempt);
    let least = least_while_unseen(rules, reading, calls, &coverage(window), in_window.as_ref());
    sight.low_confidence = doubts(rules, calls, reading, least);
    if let Some(why) = censoring_unseen(rules, reading, in_window.as_ref()) {
        return sight.unknown(why, now);
    }
    let p50 = attempt.quantile(0.5).at_least();
    if let Some(why) = implausible(rules, memory, p50) {
        return sight.unknown(why, now);
    }
    let proved = in_force_ms
        .filter(|_| rules.measures == Measures::LogicalCall)
        .map(|delay_ms| delay_ms / 1e3)
        .filter(|&delay| hedged.smallest_delay().is_none_or(|limit| delay <= limit))
        .and_then(|delay| proved_by_share(rules, &attempt, delay, calls.quantile(rules.delay.quantile)))
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
        let narrow = narrower.calls.as_ref().map(|calls| attempt_in(calls, window).0);
        if let Some(why) = narrow.and_then(|narrow| contradiction(rules, &narrow, estimate, window)) {
            return sight.unknown(why, now);
        }
    }
    let asked = || Some(target(rules, &attempt, quantile)?.no_shorter_than(least));
    let Some(target) = proved.or_else(asked) else {
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
    let mut seen = Vec::with_capacity(windows.len());
    for reading in windows {
        match observed(rules, reading) {
            Ok(calls) => seen.push(Seen { reading, calls }),
            Err(why) => return (seen, Some(why)),
        }
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
fn contradiction(rules: &Rules, narrow: &Survival, estimate: f64, window: Duration) -> Option<Unknown> {
    let calls = narrow.worth(rules.delay.quantile);
    let longer = calls * narrow.at_most(estimate);
    unlikely(longer, calls, 1.0 - rules.delay.quantile).then(|| {
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
        percentile_ms: None,
    }
}

/// Where the percentile lies with 95 % confidence, in milliseconds; `None` when that has no upper end.
fn interval(rules: &Rules, attempt: &Survival) -> Option<(f64, f64)> {
    let q = rules.delay.quantile;
    let doubt = 1.96 * attempt.deviation(q);
    let least = attempt.quantile((q - doubt).max(0.0)).at_least();
    let most = attempt.quantile((q + doubt).min(1.0)).estimate()?;
    [least, most]
        .iter()
        .all(|seconds| seconds.is_finite())
        .then_some((least * 1e3, most * 1e3))
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
