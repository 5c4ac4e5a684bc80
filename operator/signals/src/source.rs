//! One Prometheus-compatible endpoint.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hedgerow_tuner::{Counts, Latency, Signal, Unknown};

use crate::alerts::Rules;
use crate::backoff::Backoffs;
use crate::clock::{Moment, Skew};
use crate::culprits::Culprits;
use crate::failure::Failure;
use crate::http::{Http, now_ms};
use crate::intervals::Intervals;
use crate::permits::Permits;
use crate::plan::{Ask, plan};
use crate::question::{Answers, Question, SignalQuestions, State as Answered, TargetQuestions};
use crate::round::Round;
use crate::{
    ReadingKind, SourceSettings, SourceStats, TargetQuery, clauses, counts, latency, promql, signal,
};

/// How often more is asked in one round. How often a gauge is scraped is not known when it is seen for the first time: then its
/// largest value was taken over minutes, and may be a peak long past. The series of alerts that have no rules are gauges that
/// are asked for a step later.
const AGAIN: usize = 2;

/// One Prometheus-compatible endpoint: one pooled client, one concurrency limit.
#[derive(Debug)]
pub struct Source {
    pub(crate) settings: SourceSettings,
    pub(crate) permits: Permits,
    http: Http,
    state: Mutex<State>,
}

/// What a source remembers between rounds.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) stats: SourceStats,
    pub(crate) culprits: Culprits,
    pub(crate) intervals: Intervals,
    pub(crate) skew: Skew,
    backoffs: Backoffs,
    /// The failure since which nothing was answered.
    failing: Option<Failure>,
}

/// A source that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Its URL is not one that can be used.
    #[error("source {name}: {url:?} cannot be used as its URL: {why}")]
    Url {
        /// The source.
        name: String,
        /// What was given, without credentials.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The process has not chosen who does its cryptography.
    #[error(
        "no TLS provider is installed in this process; install rustls' ring provider before the first source is made"
    )]
    NoTlsProvider,
}

/// What one target's signals say, in the order asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetReadings {
    /// The latency, when it was asked for.
    pub latency: Option<Latency>,
    /// The counters that clients export, when they were asked for.
    pub counts: Option<Counts>,
    /// The saturation signals asked for, in order. A ratio whose denominator alone is 0 reads `f64::MAX`: above every line,
    /// and finite.
    pub signals: Vec<Signal>,
    /// The scrape interval of the latency's series as measured, where it could be.
    pub scrape_interval: Option<Duration>,
}

impl Source {
    /// A source as the administrator declared it. Nothing is sent yet.
    ///
    /// # Errors
    /// A URL that is not one, is not http or https, or holds credentials; and a process without a TLS provider (a binary
    /// installs rustls' ring provider first thing in `main`).
    pub fn new(settings: SourceSettings) -> Result<Self, SourceError> {
        Ok(Self {
            http: Http::new(&settings)?,
            permits: Permits::new(settings.concurrency),
            state: Mutex::default(),
            settings,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Reads all targets, in as few queries as possible. Never fails as a whole: each reading says for itself what it is.
    ///
    /// It takes at most a few times the source's `timeout`: a request that waits for others has its own, and silence may
    /// lead to a second and third question (is there a witness; why is there nothing). While the source backs off nothing
    /// is sent and all is unknown.
    ///
    /// Latency and the signals are best read apart, and may be at the same time: then slow or failing latency queries do
    /// not delay the signals. What is read together counts as latency.
    ///
    /// Times are on our clock, ages were measured on the server's.
    pub async fn read(&self, targets: &[TargetQuery]) -> Vec<TargetReadings> {
        let mut questions = self.questions(targets);
        if targets.is_empty() {
            return Vec::new();
        }
        let kind = if targets.iter().any(|target| target.asks(ReadingKind::Latency)) {
            ReadingKind::Latency
        } else {
            ReadingKind::Saturation
        };
        if let Some(failure) = self.waiting(kind) {
            return self.nothing(targets, &failure);
        }
        let client = match self.http.client(&self.settings).await {
            Ok(client) => client,
            Err(failure) => {
                self.state().failing = Some(failure.clone());
                return self.nothing(targets, &failure);
            }
        };
        let round = Round::new(self, kind, client, self.evaluated_at());
        let asked = questions.iter().flat_map(TargetQuestions::all).collect();
        let names: BTreeSet<&str> = questions.iter().flat_map(TargetQuestions::alerts).collect();
        let (mut answers, alerts) = tokio::join!(self.ask(&round, asked), round.alerts(names));
        let without_rules = alerts.as_ref().is_err_and(|failure| failure.not_there);
        for _ in 0..AGAIN {
            for (questions, now) in questions.iter_mut().zip(self.questions(targets)) {
                questions.ask_gauges_as(now);
            }
            let firing = questions
                .iter()
                .filter(|_| without_rules)
                .flat_map(TargetQuestions::alerts_firing);
            let all = questions.iter().flat_map(TargetQuestions::all).chain(firing);
            let unasked: Vec<_> = all
                .filter(|question| !answers.0.contains_key(&question.ask))
                .collect();
            if unasked.is_empty() {
                break;
            }
            let more = self.ask(&round, unasked).await;
            answers.0.extend(more.0);
        }
        self.conclude(round);
        questions
            .iter()
            .map(|target| self.readings(target, &answers, &alerts))
            .collect()
    }

    /// What it has done so far, and how it is now.
    pub fn stats(&self) -> SourceStats {
        let state = self.state();
        SourceStats {
            clock_skew_ms: state.skew.measured_ms(),
            failing: state
                .failing
                .as_ref()
                .map(|failure| failure.reading(&format!("source {}", self.settings.name))),
            ..state.stats.clone()
        }
    }

    /// The PromQL that is sent for one target, to paste into the source's own console. Nothing is sent.
    ///
    /// Alerts are read from the rules API; for them it is the query that shows their instances.
    pub fn queries_for(&self, target: &TargetQuery) -> Vec<String> {
        let questions = self.questions(std::slice::from_ref(target));
        let asks = questions.iter().flat_map(TargetQuestions::all);
        let batches = plan(asks.map(|question| question.ask.clone()).collect(), |_| false);
        let queries = batches
            .iter()
            .map(|batch| clauses::text(&clauses::clauses(batch, self.settings.replica_label.as_deref())));
        let alerts = questions.iter().flat_map(TargetQuestions::alerts).map(|name| {
            let labels = [("alertname", name)].into_iter().chain(
                target
                    .enforced
                    .as_ref()
                    .map(|(label, value)| (label.as_str(), value.as_str())),
            );
            let matchers: Vec<_> = labels
                .map(|(label, value)| promql::is_one_of(label, &[value]))
                .collect();
            promql::selector("ALERTS", &matchers)
        });
        queries.chain(alerts).collect()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn questions(&self, targets: &[TargetQuery]) -> Vec<TargetQuestions> {
        let state = self.state();
        targets
            .iter()
            .map(|target| TargetQuestions::of(target, |family| state.intervals.get(family)))
            .collect()
    }

    /// When queries are evaluated: at the server's now unless an offset is set. Then its clock decides, not ours.
    fn evaluated_at(&self) -> Option<i64> {
        let offset = i64::try_from(self.settings.offset.as_millis()).unwrap_or(i64::MAX);
        (offset > 0).then(|| self.state().skew.server(now_ms()).saturating_sub(offset))
    }

    /// Asks all questions; then the witnesses of those that found nothing; then why the others found nothing.
    async fn ask(&self, round: &Round<'_>, questions: Vec<&Question>) -> Answers {
        let offset = self.settings.offset;
        let all = || questions.iter().copied();
        let mut answers = Answers::default();
        let asks: BTreeSet<Ask> = all().map(|question| question.ask.clone()).collect();
        answers.0.extend(round.ask(asks).await);

        let unseen =
            |question: &&Question| matches!(answers.state(&question.ask, offset), Answered::Absent(_));
        let witnesses = all()
            .filter(unseen)
            .filter_map(|question| question.witness.clone())
            .collect();
        let witnesses = round.ask(witnesses).await;
        answers.0.extend(witnesses);

        let unexplained = all()
            .filter_map(|question| answers.presence_wanted(question, offset))
            .collect();
        let explanations = round.ask(unexplained).await;
        answers.0.extend(explanations);
        answers
    }

    /// The failure for which the source is left alone for now.
    fn waiting(&self, kind: ReadingKind) -> Option<Failure> {
        let mut state = self.state();
        let failure = state.backoffs.waiting(kind, Instant::now())?;
        // While the source itself asks to be left alone it answers nothing of either kind.
        if state.failing.is_some() || failure.retry_after.is_some() {
            state.failing = Some(failure.clone());
        }
        Some(failure)
    }

    fn conclude(&self, round: Round<'_>) {
        let kind = round.kind();
        let outcome = round.outcome();
        let mut state = self.state();
        match outcome.failure {
            // One slow query among many is no reason to leave the source alone; being asked to wait is.
            Some(failure) if !outcome.answered || failure.retry_after.is_some() => {
                state.failing = (!outcome.answered).then(|| failure.clone());
                let backoff = state.backoffs.of(kind);
                backoff.failed(failure, Instant::now(), rand::random());
            }
            _ if outcome.answered => {
                state.failing = None;
                state.backoffs.of(kind).answered();
            }
            _ => {}
        }
    }

    fn readings(
        &self,
        target: &TargetQuestions,
        answers: &Answers,
        alerts: &Result<Rules, Failure>,
    ) -> TargetReadings {
        let moment = self.moment();
        let latency = target
            .latency
            .as_ref()
            .map(|latency| latency::reading(latency, answers, moment));
        let signals = target.signals.iter().map(|signal| match signal {
            SignalQuestions::Series(question) => signal::series(question, answers, moment),
            SignalQuestions::Ratio(both) => signal::ratio(&both.0, &both.1, answers, moment),
            SignalQuestions::Alert { name, firing } => match (alerts, firing) {
                (Ok(rules), _) => rules.reading(name, target.enforced.as_ref(), moment),
                (Err(failure), Some(firing)) if failure.not_there => signal::firing(firing, answers, moment),
                (Err(failure), _) => signal::unread(self.alert_failed(name, failure), moment),
            },
        });
        let (latency, scrape_interval) = latency.unzip();
        TargetReadings {
            signals: signals.collect(),
            latency,
            counts: target
                .counts
                .as_ref()
                .map(|counts| counts::reading(counts, answers, moment)),
            scrape_interval: scrape_interval.flatten(),
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            offset: self.settings.offset,
            skew: self.state().skew,
            now_ms: now_ms(),
        }
    }

    fn alert_failed(&self, name: &str, failure: &Failure) -> Unknown {
        let mut unknown = failure.reading(&format!("alert {name} from source {}", self.name()));
        if failure.not_there {
            unknown
                .message
                .push_str("; an alert of a source without the rules API needs zeroWhenAbsent with a witness");
        }
        unknown
    }

    /// The readings when nothing could be asked.
    fn nothing(&self, targets: &[TargetQuery], failure: &Failure) -> Vec<TargetReadings> {
        let moment = self.moment();
        let unknown =
            |asked: &str| -> Unknown { failure.reading(&format!("{asked} from source {}", self.name())) };
        targets
            .iter()
            .map(|target| TargetReadings {
                latency: target.latency.as_ref().map(|latency| Latency {
                    at: moment.now(),
                    windows: Err(unknown(&latency.metric)),
                }),
                signals: target
                    .signals
                    .iter()
                    .map(|signal| signal::unread(unknown(signal.kind.name()), moment))
                    .collect(),
                counts: target.counts.as_ref().map(|counts| Counts {
                    at: moment.now(),
                    windows: Err(unknown(&counts.calls.metric)),
                }),
                scrape_interval: None,
            })
            .collect()
    }
}
