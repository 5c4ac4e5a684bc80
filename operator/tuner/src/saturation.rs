//! What the saturation signals say.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::memory::{Memory, Seen};
use crate::messages;
use crate::{
    Alert, Line, Readings, Rules, Signal, SignalRules, SignalValue, SignalView, Timestamp, Unknown,
    UnknownReason,
};

/// What the saturation signals say, together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Saturation {
    /// Each, in the order of the rules; `saturated` is filled in by [`Saturation::views`].
    signals: Vec<State>,
}

/// One signal.
#[derive(Clone, Debug, PartialEq)]
struct State {
    view: SignalView,
    /// Above its line: turns hedging off.
    above: bool,
    /// Not below the value that it must be under before hedging comes back.
    not_back: bool,
    /// Unknown for longer than hedging may go on.
    blind: bool,
}

impl Saturation {
    /// Reads the signals at `now`, and notes in `memory` which are unknown and since when.
    pub(crate) fn read(rules: &Rules, readings: &Readings, memory: &mut Memory, now: Timestamp) -> Self {
        forget_others(rules, memory);
        let mut signals = Vec::with_capacity(rules.switch.signals.len());
        for (index, signal) in rules.switch.signals.iter().enumerate() {
            let reading = readings.signals.get(index).and_then(Option::as_ref);
            let before = memory.signals_seen.get(&signal.name);
            let scrape = reading
                .and_then(|reading| reading.scrape_interval)
                .or(before.and_then(|before| before.scrape_interval));
            // A signal that is scraped once a minute is not unknown for being a minute old.
            let patience = rules
                .switch
                .max_unknown
                .max(scrape.unwrap_or_default().saturating_mul(3));
            let value = fresh_value(signal, reading, now, patience);
            let fresh_at = match (&value, reading) {
                (Ok(_), Some(reading)) => Some(reading.at.min(now)),
                _ => before.and_then(|before| before.at),
            };
            let seen = Seen {
                at: fresh_at,
                scrape_interval: scrape,
            };
            note(&mut memory.signals_seen, &signal.name, Some(seen));
            let unknown_since = value.as_ref().err().map(|_| {
                let known = memory.signals_unknown.get(&signal.name).copied();
                known.or(fresh_at).unwrap_or(now)
            });
            note(&mut memory.signals_unknown, &signal.name, unknown_since);
            let blind = unknown_since.is_some_and(|since| now.since(since) > patience);
            signals.push(State::new(signal, value, unknown_since, blind));
        }
        Self { signals }
    }

    /// Whether a signal is above its line.
    pub(crate) fn is_above(&self) -> bool {
        self.signals.iter().any(|signal| signal.above)
    }

    /// Whether a signal keeps hedging from coming back.
    pub(crate) fn is_not_back(&self) -> bool {
        self.signals.iter().any(|signal| signal.not_back)
    }

    /// Whether every signal is known now. Unknown never closes the switch and never raises a budget.
    pub(crate) fn is_known(&self) -> bool {
        self.signals.iter().all(|signal| signal.view.unknown.is_none())
    }

    /// Whether a signal has been unknown for too long.
    pub(crate) fn is_blind(&self) -> bool {
        self.signals.iter().any(|signal| signal.blind)
    }

    /// The signals as status tells them; `waiting` while it is saturation that keeps hedging off.
    pub(crate) fn views(self, waiting: bool) -> Vec<SignalView> {
        let finished = |mut signal: State| {
            signal.view.saturated = signal.above || (waiting && signal.not_back);
            signal.view
        };
        self.signals.into_iter().map(finished).collect()
    }

    /// The signals above their lines, or not back under them: `queue 61, off above 50, back under 35`.
    pub(crate) fn told_saturated(&self) -> String {
        let told = |signal: &State| {
            let view = &signal.view;
            match (view.value, view.off_above, view.on_below) {
                (Some(value), Some(off), Some(on)) if signal.above => {
                    let (value, off, on) = (
                        messages::number(value),
                        messages::number(off),
                        messages::number(on),
                    );
                    format!("{} {value}, off above {off}, back at {on}", view.name)
                }
                (Some(value), _, Some(on)) => {
                    format!(
                        "{} {}, back at {}",
                        view.name,
                        messages::number(value),
                        messages::number(on)
                    )
                }
                _ => format!("{} fires", view.name),
            }
        };
        let told: Vec<_> = self
            .signals
            .iter()
            .filter(|signal| signal.above || signal.not_back)
            .map(told)
            .collect();
        told.join("; ")
    }

    /// The signals that are unknown: `queue unknown for 95s (Stale: ...)`.
    pub(crate) fn told_unknown(&self, now: Timestamp) -> String {
        let told = |view: &SignalView| {
            let (why, since) = (view.unknown.as_ref()?, view.unknown_since?);
            Some(format!(
                "{} unknown for {} ({why})",
                view.name,
                messages::duration(now.since(since))
            ))
        };
        let told: Vec<_> = self
            .signals
            .iter()
            .filter_map(|signal| told(&signal.view))
            .collect();
        told.join("; ")
    }
}

/// Forgets what was noted of signals that the policy does not name any more.
fn forget_others(rules: &Rules, memory: &mut Memory) {
    let is_named = |name: &String| rules.switch.signals.iter().any(|signal| signal.name == *name);
    memory.signals_unknown.retain(|name, _| is_named(name));
    memory.signals_seen.retain(|name, _| is_named(name));
}

/// Notes what there is to note of a signal.
fn note<T>(notes: &mut BTreeMap<String, T>, name: &str, noted: Option<T>) {
    match (notes.get_mut(name), noted) {
        (Some(before), Some(noted)) => *before = noted,
        (None, Some(noted)) => drop(notes.insert(name.to_owned(), noted)),
        (_, None) => drop(notes.remove(name)),
    }
}

impl State {
    fn new(
        rules: &SignalRules,
        value: Result<f64, Unknown>,
        unknown_since: Option<Timestamp>,
        blind: bool,
    ) -> Self {
        let (off_above, on_below) = match rules.line {
            Line::Value {
                off_above, on_below, ..
            } => (Some(off_above), Some(on_below)),
            Line::Alert => (None, None),
        };
        let (value, unknown) = match value {
            Ok(value) => (Some(value), None),
            Err(why) => (None, Some(why)),
        };
        let above = value.is_some_and(|value| value > off_above.unwrap_or(0.0));
        let at_or_over = |line: f64| value.is_some_and(|value| value >= line);
        Self {
            above,
            not_back: above || on_below.is_some_and(at_or_over),
            blind,
            view: SignalView {
                name: rules.name.clone(),
                value,
                unknown,
                unknown_since,
                off_above,
                on_below,
                saturated: above,
            },
        }
    }
}

/// The value to compare with the line, unless the reading is unknown or too old.
fn fresh_value(
    rules: &SignalRules,
    reading: Option<&Signal>,
    now: Timestamp,
    patience: Duration,
) -> Result<f64, Unknown> {
    let Some(reading) = reading else {
        return Err(Unknown::new(UnknownReason::Stale, "not read yet"));
    };
    let value = value(&rules.line, reading.value.as_ref().map_err(Clone::clone)?)?;
    let age = now.since(reading.at);
    if age > patience {
        let message = format!("the last reading is {} old", messages::duration(age));
        return Err(Unknown::new(UnknownReason::Stale, message));
    }
    Ok(value)
}

fn value(line: &Line, value: &SignalValue) -> Result<f64, Unknown> {
    match (line, value) {
        (Line::Value { at_least, .. }, SignalValue::Series(series)) => nth_largest(series, *at_least),
        (Line::Alert, SignalValue::Alert(alert)) => Ok(f64::from(u8::from(*alert == Alert::Firing))),
        _ => Err(Unknown::new(
            UnknownReason::BadResponse,
            "a value where an alert was asked for, or the reverse",
        )),
    }
}

/// The `at_least`-th largest series. Unset: the second, or that at 10 % of them if more; the only one when there is one,
/// so that a single noisy replica does not switch a fleet off. The smallest when there are fewer than that.
fn nth_largest(series: &[f64], at_least: Option<u32>) -> Result<f64, Unknown> {
    if series.iter().any(|value| value.is_nan()) {
        return Err(Unknown::new(UnknownReason::NotANumber, "a series is NaN"));
    }
    let mut sorted = series.to_vec();
    sorted.sort_by(|left, right| right.total_cmp(left));
    let nth = match at_least {
        Some(nth) => usize::try_from(nth).unwrap_or(usize::MAX).max(1),
        None => (sorted.len() / 10).max(2),
    };
    let value = sorted.get(nth - 1).or(sorted.last());
    value
        .map(|value| value.clamp(f64::MIN, f64::MAX))
        .ok_or_else(|| Unknown::new(UnknownReason::SelectorMatchesNothing, "no series"))
}
