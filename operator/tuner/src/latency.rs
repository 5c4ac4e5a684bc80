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
    let wants_wider = chosen.is_none() && missing;
    let Some((index, calls)) = chosen.and_then(|index| Some((index, seen[index].calls.as_ref()?))) else {
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
        counts,
        at,
        now,
    };
    let (attempt, hedged) = look.attempt(calls, window);
    let least = look.least_while_unseen(reading, calls);
    let mut view = view(calls, window, at);
    view.percentile_ms = interval(rules, &attempt);
    let found = look.found(&seen[..=index], &attempt, &hedged, in_force_ms, least);
    view.unknown = found.as_ref().err().map(|finding| finding.why().clone());
    if found.is_ok() {
        memory.accepted = Some(rules.measure.clone());
    }
    Sight {
        finding: found.map(|(p50, target)| Estimate {
            at,
            calls: calls.clone(),
            attempt,
            coverage: hedged,
            p50,
            target,
        }),
        view,
        low_confidence: doubts(rules, calls, reading, least),
        wanted,
        wants_wider,
    }
}

/// What a reading is seen against.
struct Look<'a> {
    rules: &'a Rules,
    memory: &'a Memory,
    counts: Option<&'a Counts>,
    at: Timestamp,
    now: Timestamp,
}

impl Look<'_> {
    fn coverage(&self, window: Duration) -> Coverage {
        self.memory
            .history
            .coverage(self.at, window, self.rules.propagation)
    }

    /// One attempt, by the calls of a window, and how those were hedged.
    fn attempt(&self, calls: &Survival, window: Duration) -> (Survival, Coverage) {
        let counted = counted(self.counts, self.at, window);
        let hedged_at_most = counted.and_then(|counted| counted.hedged_at_most());
        let hedged = hedging_in(self.rules, self.coverage(window));
        (calls.of_attempt(hedged.parts(), hedged_at_most), hedged)
    }

    fn least_while_unseen(&self, reading: &WindowReading, calls: &Survival) -> Option<f64> {
        let counted = counted(self.counts, self.at, reading.window);
        least_while_unseen(
            self.rules,
            reading,
            calls,
            &self.coverage(reading.window),
            counted.as_ref(),
        )
    }

    /// The attempt's median and the delay that it asks for, by the last of the windows, which the ones before it must not
    /// contradict.
    fn found(
        &self,
        windows: &[Seen<'_>],
        attempt: &Survival,
        hedged: &Coverage,
        in_force_ms: Option<f64>,
        least: Option<f64>,
    ) -> Result<(f64, Target), Finding> {
        let rules = self.rules;
        let name = || messages::percentile(rules.delay.quantile);
        let nothing = |why| Finding::Nothing { since: self.now, why };
        let Some((chosen, narrower)) = windows.split_last() else {
            return Err(nothing(Unknown::new(
                UnknownReason::BadResponse,
                "no window was read",
            )));
        };
        let counted = counted(self.counts, self.at, chosen.reading.window);
        if let Some(why) = censoring_unseen(rules, chosen.reading, counted.as_ref()) {
            return Err(nothing(why));
        }
        let (quantile, p50) = (
            attempt.quantile(rules.delay.quantile),
            attempt.quantile(0.5).at_least(),
        );
        if let Some(why) = implausible(rules, self.memory, p50) {
            return Err(nothing(why));
        }
        let proved = in_force_ms
            .filter(|_| rules.measures == Measures::LogicalCall)
            .map(|delay_ms| delay_ms / 1e3)
            .filter(|&delay| hedged.smallest_delay().is_none_or(|limit| delay <= limit))
            .and_then(|delay| {
                let seen = chosen.calls.as_ref()?.quantile(rules.delay.quantile);
                proved_by_share(rules, attempt, delay, seen)
            })
            .filter(|proved| line_above(rules, proved, p50, self.memory.latch).is_none());
        let estimate = match (proved, quantile) {
            (Some(proved), _) => proved.delay,
            (None, Quantile::Estimate { seconds, .. }) => seconds,
            (None, Quantile::AtLeast(bound)) => {
                let bound_ms = messages::milliseconds(bound);
                let message = format!(
                    "{} is at least {bound_ms}, which is all that the buckets say",
                    name()
                );
                let why = Unknown::new(UnknownReason::AboveTopBucket, message);
                return Err(Finding::AtLeast { bound, p50, why });
            }
        };
        for narrower in narrower {
            let window = narrower.reading.window;
            let narrow = narrower.calls.as_ref().map(|calls| self.attempt(calls, window).0);
            if let Some(why) = narrow.and_then(|narrow| contradiction(rules, &narrow, estimate, window)) {
                return Err(nothing(why));
            }
        }
        let asked = || Some(target(rules, attempt, quantile)?.no_shorter_than(least));
        let target = proved.or_else(asked).ok_or_else(|| {
            let estimate_ms = messages::milliseconds(estimate);
            let message = format!("{} is {estimate_ms}, which is no delay", name());
            nothing(Unknown::new(UnknownReason::OutOfRange, message))
        })?;
        Ok((p50, target))
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
