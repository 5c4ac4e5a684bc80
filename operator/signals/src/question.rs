//! What one target asks, and how its questions are settled. Pure.

use std::collections::HashMap;
use std::time::Duration;

use hedgerow_tuner::{Unknown, UnknownReason};

use crate::freshness;
use crate::group::Group;
use crate::layout;
use crate::measure::{Measure, Part};
use crate::plan::{Ask, Family};
use crate::presence;
use crate::{
    Counter, CountsQuery, LatencyQuery, Outcomes, Selector, SignalKind, SignalQuery, TargetQuery, Unit,
    Witness,
};

/// A question, and the witness that makes silence a zero.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) ask: Ask,
    pub(crate) witness: Option<Ask>,
}

/// All questions of one target.
#[derive(Debug, Default)]
pub(crate) struct TargetQuestions {
    pub(crate) latency: Option<LatencyQuestions>,
    pub(crate) counts: Option<CountsQuestions>,
    pub(crate) signals: Vec<SignalQuestions>,
    /// The enforced label pair, for alerts.
    pub(crate) enforced: Option<(String, String)>,
}

/// The questions of a latency reading.
#[derive(Debug)]
pub(crate) struct LatencyQuestions {
    pub(crate) unit: Unit,
    pub(crate) outcomes: Option<Outcomes>,
    /// For each window its distribution, and the timeouts in it.
    pub(crate) windows: Vec<(Duration, Question, Option<Question>)>,
}

/// The questions about the counters that clients export, window by window.
#[derive(Debug)]
pub(crate) struct CountsQuestions {
    pub(crate) windows: Vec<WindowQuestions>,
}

/// The questions about the counters over one window.
#[derive(Debug)]
pub(crate) struct WindowQuestions {
    pub(crate) window: Duration,
    pub(crate) calls: Question,
    pub(crate) hedges: Question,
    pub(crate) blocked: Option<Question>,
    pub(crate) wins: Option<Question>,
}

impl WindowQuestions {
    fn all(&self) -> impl Iterator<Item = &Question> {
        [&self.calls, &self.hedges]
            .into_iter()
            .chain(&self.blocked)
            .chain(&self.wins)
    }
}

/// The questions of a saturation signal.
#[derive(Debug)]
pub(crate) enum SignalQuestions {
    /// One value per series.
    Series(Box<Question>),
    /// One sum divided by another.
    Ratio(Box<(Question, Question)>),
    /// An alert's state.
    Alert {
        /// Its name.
        name: String,
        /// Its series while it fires, for a source without the rules API; only with a witness.
        firing: Option<Box<Question>>,
    },
}

impl SignalQuestions {
    /// Whether it asks for the largest value of two scrapes.
    fn is_gauge(&self) -> bool {
        match self {
            Self::Series(question) => matches!(question.ask.measure, Measure::Gauge { .. }),
            Self::Alert { .. } => true,
            Self::Ratio(_) => false,
        }
    }
}

impl TargetQuestions {
    /// The questions of `target`; `interval` tells the scrape intervals that are known.
    pub(crate) fn of(target: &TargetQuery, interval: impl Fn(&Family) -> Option<Duration>) -> Self {
        let writer = Writer {
            enforced: target.enforced.as_ref(),
            interval,
        };
        Self {
            latency: target.latency.as_ref().map(|latency| writer.latency(latency)),
            counts: target.counts.as_ref().map(|counts| writer.counts(counts)),
            signals: target
                .signals
                .iter()
                .map(|signal| writer.signal(signal))
                .collect(),
            enforced: target.enforced.clone(),
        }
    }

    /// Every question but those of [`Self::alerts_firing`].
    pub(crate) fn all(&self) -> impl Iterator<Item = &Question> {
        let latency = self.latency.iter().flat_map(|latency| &latency.windows);
        let counts = self.counts.iter().flat_map(|counts| &counts.windows);
        let signals = self.signals.iter().flat_map(|signal| match signal {
            SignalQuestions::Series(question) => vec![question.as_ref()],
            SignalQuestions::Ratio(both) => vec![&both.0, &both.1],
            SignalQuestions::Alert { .. } => vec![],
        });
        latency
            .flat_map(|(_, distribution, timeouts)| std::iter::once(distribution).chain(timeouts))
            .chain(counts.flat_map(WindowQuestions::all))
            .chain(signals)
    }

    /// Asks for gauges as `now` does.
    pub(crate) fn ask_gauges_as(&mut self, now: Self) {
        for (signal, now) in self.signals.iter_mut().zip(now.signals) {
            if now.is_gauge() {
                *signal = now;
            }
        }
    }

    /// The names of the alerts asked for.
    pub(crate) fn alerts(&self) -> impl Iterator<Item = &str> {
        self.signals.iter().filter_map(|signal| match signal {
            SignalQuestions::Alert { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }

    /// What is asked for alerts where the source has no rules API.
    pub(crate) fn alerts_firing(&self) -> impl Iterator<Item = &Question> {
        self.signals.iter().filter_map(|signal| match signal {
            SignalQuestions::Alert { firing, .. } => firing.as_deref(),
            _ => None,
        })
    }
}

/// Writes the questions of one target.
struct Writer<'a, I> {
    enforced: Option<&'a (String, String)>,
    interval: I,
}

impl<I: Fn(&Family) -> Option<Duration>> Writer<'_, I> {
    fn latency(&self, latency: &LatencyQuery) -> LatencyQuestions {
        let windows = latency.windows.iter().map(|&window| {
            let distribution = Question {
                ask: self.ask(
                    Measure::Histogram {
                        window,
                        outcome: latency.outcomes.as_ref().map(|outcomes| outcomes.label.clone()),
                    },
                    &latency.metric,
                    &latency.selector,
                ),
                witness: None,
            };
            let timeouts = latency
                .timeouts
                .as_ref()
                .map(|counter| self.increase(counter, window));
            (window, distribution, timeouts)
        });
        LatencyQuestions {
            unit: latency.unit,
            outcomes: latency.outcomes.clone(),
            windows: windows.collect(),
        }
    }

    fn counts(&self, counts: &CountsQuery) -> CountsQuestions {
        let windows = counts.windows.iter().map(|&window| {
            let increase = |counter: &Counter| self.increase(counter, window);
            WindowQuestions {
                window,
                calls: increase(&counts.calls),
                hedges: increase(&counts.hedges),
                blocked: counts.blocked.as_ref().map(increase),
                wins: counts.wins.as_ref().map(increase),
            }
        });
        CountsQuestions {
            windows: windows.collect(),
        }
    }

    fn signal(&self, signal: &SignalQuery) -> SignalQuestions {
        let absent = signal.zero_when_absent.as_ref();
        match &signal.kind {
            SignalKind::Alert { name } => SignalQuestions::Alert {
                name: name.clone(),
                firing: absent.map(|_| Box::new(self.firing(name, absent))),
            },
            SignalKind::Gauge { metric, selector } => {
                SignalQuestions::Series(Box::new(self.gauge(metric, selector, absent)))
            }
            SignalKind::Rate {
                of,
                window,
                per: None,
            } => {
                let absent = absent.or(of.zero_when_absent.as_ref());
                SignalQuestions::Series(Box::new(self.paced(
                    &of.metric,
                    &of.selector,
                    absent,
                    |interval| Measure::Rate {
                        window: *window,
                        linger: freshness::linger(interval),
                    },
                )))
            }
            SignalKind::Rate {
                of,
                window,
                per: Some(per),
            } => {
                let mut of = self.increase(of, *window);
                of.witness = of.witness.or_else(|| absent.map(|witness| self.witness(witness)));
                SignalQuestions::Ratio(Box::new((of, self.increase(per, *window))))
            }
        }
    }

    fn gauge(&self, metric: &str, selector: &Selector, absent: Option<&Witness>) -> Question {
        self.paced(metric, selector, absent, |interval| Measure::Gauge {
            over: freshness::two_scrapes(interval),
            linger: freshness::linger(interval),
        })
    }

    /// The series that an alert has while it fires.
    fn firing(&self, name: &str, absent: Option<&Witness>) -> Question {
        let labels = [("alertname", name), ("alertstate", "firing")];
        let selector = Selector {
            match_labels: labels
                .map(|(label, value)| (label.to_owned(), value.to_owned()))
                .into(),
            requirements: Vec::new(),
        };
        self.gauge("ALERTS", &selector, absent)
    }

    /// A question whose text depends on the scrape interval.
    fn paced(
        &self,
        metric: &str,
        selector: &Selector,
        absent: Option<&Witness>,
        measure: impl Fn(Option<Duration>) -> Measure,
    ) -> Question {
        let mut ask = self.ask(measure(None), metric, selector);
        ask.measure = measure((self.interval)(&ask.family));
        Question {
            ask,
            witness: absent.map(|witness| self.witness(witness)),
        }
    }

    fn increase(&self, counter: &Counter, window: Duration) -> Question {
        Question {
            ask: self.ask(Measure::Increase { window }, &counter.metric, &counter.selector),
            witness: counter
                .zero_when_absent
                .as_ref()
                .map(|witness| self.witness(witness)),
        }
    }

    fn witness(&self, witness: &Witness) -> Ask {
        let selector = Selector {
            match_labels: witness.match_labels.clone(),
            requirements: Vec::new(),
        };
        self.ask(Measure::Witness, &witness.metric, &selector)
    }

    fn ask(&self, measure: Measure, metric: &str, selector: &Selector) -> Ask {
        Ask::new(measure, metric, selector, self.enforced)
    }
}

/// The answers to questions.
#[derive(Debug, Default)]
pub(crate) struct Answers(pub(crate) HashMap<Ask, Result<Group, Unknown>>);

/// What an answer says by itself.
pub(crate) enum State<'a> {
    /// Values, and the time of the newest sample in milliseconds on the server's clock.
    Present(&'a Group, i64),
    /// Nothing that can be used.
    Unknown(Unknown),
    /// There are no series now; why, where that is known without looking further.
    Absent(Option<Unknown>),
}

/// What a question comes to.
#[derive(Debug)]
pub(crate) struct Settled<'a> {
    /// The group; where a witness proves that silence is zero it may be empty.
    pub(crate) group: &'a Group,
    /// The time of the newest sample in milliseconds on the server's clock.
    pub(crate) at_ms: i64,
}

impl Answers {
    /// What the answer to `ask` says by itself. `offset` is the source's.
    pub(crate) fn state(&self, ask: &Ask, offset: Duration) -> State<'_> {
        match self.0.get(ask) {
            Some(Ok(group)) => state(&ask.measure, group, offset),
            Some(Err(unknown)) => State::Unknown(unknown.clone()),
            None => State::Unknown(Unknown::new(
                UnknownReason::Unavailable,
                "the source was not asked",
            )),
        }
    }

    /// The question that tells why `question` has no series, where that must be looked for.
    pub(crate) fn presence_wanted(&self, question: &Question, offset: Duration) -> Option<Ask> {
        let State::Absent(None) = self.state(&question.ask, offset) else {
            return None;
        };
        let witnessed = |witness| self.witness(witness, offset).is_ok();
        (!question.witness.as_ref().is_some_and(witnessed)).then(|| presence::ask(&question.ask))
    }

    /// What a question comes to, its witness and the search for absent series included.
    pub(crate) fn settle(&self, question: &Question, offset: Duration) -> Result<Settled<'_>, Unknown> {
        let ask = &question.ask;
        let told = |mut unknown: Unknown| {
            let asked = ask.describe();
            if !unknown.message.starts_with(&asked) {
                unknown.message = format!("{asked}: {}", unknown.message);
            }
            unknown
        };
        let known = match self.state(ask, offset) {
            State::Present(group, at_ms) => return Ok(Settled { group, at_ms }),
            State::Unknown(unknown) => return Err(told(unknown)),
            State::Absent(known) => known,
        };
        let witness = question
            .witness
            .as_ref()
            .map(|witness| self.witness(witness, offset));
        if let (Some(Ok(at_ms)), Some(Ok(group))) = (&witness, self.0.get(ask)) {
            return Ok(Settled { group, at_ms: *at_ms });
        }
        let mut unknown = known.unwrap_or_else(|| {
            let search = presence::ask(ask);
            let first = self.0.get(ask).and_then(|answer| answer.as_ref().ok());
            presence::reading(ask, first.is_none_or(Group::is_empty), self.0.get(&search))
        });
        match witness {
            Some(Err(why)) => {
                unknown.message = format!("{}; its absence is no zero: {}", unknown.message, why.message);
            }
            None if ask.measure.counts() => unknown.message.push_str(
                "; where it does not exist before its first increment, give zeroWhenAbsent a witness",
            ),
            _ => {}
        }
        Err(told(unknown))
    }

    /// Whether a witness proves that absence means zero, and the time of its oldest sample.
    fn witness(&self, ask: &Ask, offset: Duration) -> Result<i64, Unknown> {
        let told = |unknown: Unknown| {
            Unknown::new(
                unknown.reason,
                format!("witness {}: {}", ask.describe(), unknown.message),
            )
        };
        match self.state(ask, offset) {
            State::Present(_, at_ms) => Ok(at_ms),
            State::Unknown(unknown) => Err(told(unknown)),
            State::Absent(_) => Err(told(Unknown::new(
                UnknownReason::SelectorMatchesNothing,
                "it has no series",
            ))),
        }
    }
}

fn state<'a>(measure: &Measure, group: &'a Group, offset: Duration) -> State<'a> {
    if let Err(unknown) = group.usable() {
        return State::Unknown(unknown);
    }
    match measure {
        Measure::Presence { .. } => State::Present(group, 0),
        Measure::Witness => witness_state(group, offset),
        Measure::Histogram { .. } if !group.has_distribution() => State::Absent(None),
        Measure::Gauge { .. } | Measure::Rate { .. } | Measure::Increase { .. }
            if group.points(Part::Value).is_empty() =>
        {
            match group.point(Part::Newest) {
                None => State::Absent(None),
                Some(_) => State::Unknown(freshness::newest(group, offset).err().unwrap_or_else(|| {
                    Unknown::new(
                        UnknownReason::TooFewSamples,
                        "the series has begun and has not yet two samples in the window",
                    )
                })),
            }
        }
        _ => {
            let sound = match measure {
                // What is no histogram has no bucket by which its age could be told.
                Measure::Histogram { .. } if group.natives().is_empty() => layout::check(group),
                _ => Ok(()),
            };
            if let Err(fault) = sound.and_then(|()| freshness::stable(group)) {
                return State::Unknown(fault);
            }
            match freshness::newest(group, offset) {
                Ok(at_ms) => State::Present(group, at_ms),
                Err(gone) if group.point(Part::Newest).is_none() => State::Absent(Some(gone)),
                Err(stale) => State::Unknown(stale),
            }
        }
    }
}

fn witness_state(group: &Group, offset: Duration) -> State<'_> {
    match group.number(Part::Value) {
        None => State::Absent(None),
        Some(value) if value > 0.0 => match freshness::oldest(group, offset) {
            Ok(at_ms) => State::Present(group, at_ms),
            Err(stale) => State::Unknown(stale),
        },
        Some(value) => State::Unknown(Unknown::new(
            UnknownReason::SelectorMatchesNothing,
            format!("it is {value} in one of its series, so that what it vouches for is not there to count"),
        )),
    }
}
