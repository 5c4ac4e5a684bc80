//! One round of requests: batches in parallel within the source's limit, each with its halves within one deadline.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use hedgerow_tuner::{Unknown, UnknownReason};
use prometheus_http_query::Client;
use tokio::time::Instant;
use tracing::Instrument;

use crate::alerts::Rules;
use crate::answer::{self, Answer};
use crate::clauses;
use crate::failure::Failure;
use crate::group::{Group, take_apart};
use crate::halving::Halving;
use crate::http::{Request, now_ms, send};
use crate::plan::{Ask, Batch, plan};
use crate::source::Source;
use crate::{ReadingKind, TRACES};

/// Names of alerts that one request asks for, so that its URL stays short.
const NAMES_PER_REQUEST: usize = 50;

/// One round of requests.
pub(crate) struct Round<'a> {
    source: &'a Source,
    kind: ReadingKind,
    client: Client,
    /// When queries are evaluated, in milliseconds on the server's clock; its now when unset.
    at_ms: Option<i64>,
    outcome: Mutex<Outcome>,
}

/// What the round says about the source.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Whether anything was answered.
    pub(crate) answered: bool,
    /// The failure of the source, where there was one.
    pub(crate) failure: Option<Failure>,
}

impl<'a> Round<'a> {
    pub(crate) fn new(source: &'a Source, kind: ReadingKind, client: Client, at_ms: Option<i64>) -> Self {
        Self {
            source,
            kind,
            client,
            at_ms,
            outcome: Mutex::default(),
        }
    }

    /// The kind of reading that it is for.
    pub(crate) const fn kind(&self) -> ReadingKind {
        self.kind
    }

    /// What the round says about the source.
    pub(crate) fn outcome(self) -> Outcome {
        self.outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answers to all questions.
    pub(crate) async fn ask(&self, asks: BTreeSet<Ask>) -> HashMap<Ask, Result<Group, Unknown>> {
        let mut answers = HashMap::new();
        let batches = {
            let now = std::time::Instant::now();
            let mut state = self.source.state();
            state.culprits.forget(now);
            let mut awake = BTreeSet::new();
            for ask in asks {
                match state.culprits.resting(&ask, now) {
                    Some(failure) => {
                        let unknown = self.reading(&ask, failure);
                        answers.insert(ask, Err(unknown));
                    }
                    None => drop(awake.insert(ask)),
                }
            }
            plan(awake, |ask| state.culprits.is_alone(ask))
        };
        for batch in join_all(batches.into_iter().map(|batch| self.ask_batch(batch))).await {
            answers.extend(batch);
        }
        answers
    }

    /// The alerting rules of these names.
    pub(crate) async fn alerts(&self, names: BTreeSet<&str>) -> Result<Rules, Failure> {
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let requests = names.chunks(NAMES_PER_REQUEST).map(|names| async {
            let Ok(_permit) = self.source.permits.acquire(self.kind).await else {
                return Err(closed());
            };
            let deadline = Instant::now() + self.source.settings.timeout;
            let body = self.request(&Request::Alerts(names.to_vec()), deadline).await?;
            self.decoded(Rules::decode(&body))
        });
        let mut all = Rules::default();
        for rules in join_all(requests).await {
            all.extend(rules?);
        }
        Ok(all)
    }

    async fn ask_batch(&self, batch: Batch) -> Vec<(Ask, Result<Group, Unknown>)> {
        let Ok(_permit) = self.source.permits.acquire(self.kind).await else {
            return self.failed(&batch, &closed());
        };
        // The wait for other requests does not count; halves share what is left of the deadline.
        let deadline = Instant::now() + self.source.settings.timeout;
        let may_split = self.source.state().culprits.may_split(&batch);
        let mut halving = Halving::new(batch, may_split);
        let mut answers = Vec::new();
        while let Some(batch) = halving.next() {
            match self.ask_once(&batch, deadline).await {
                Ok(groups) => answers.extend(
                    batch
                        .sets
                        .iter()
                        .zip(groups)
                        .map(|(set, group)| (batch.ask(set), Ok(group))),
                ),
                Err(failure) => {
                    if let Some(batch) = halving.failed(batch, &failure) {
                        if failure.may_be_one_culprit() {
                            let now = std::time::Instant::now();
                            self.source.state().culprits.blame(&batch, &failure, now);
                        }
                        answers.extend(self.failed(&batch, &failure));
                    }
                }
            }
        }
        answers
    }

    /// Sends the query of a batch and takes its answer apart.
    async fn ask_once(&self, batch: &Batch, deadline: Instant) -> Result<Vec<Group>, Failure> {
        let clauses = clauses::clauses(batch, self.source.settings.replica_label.as_deref());
        let request = Request::Query {
            promql: clauses::text(&clauses),
            at_ms: self.at_ms,
        };
        let body = self.request(&request, deadline).await?;
        let Answer { samples, infos } = self.decoded(answer::vector(&body))?;
        let (groups, dropped) = take_apart(batch, &clauses, &samples);
        let mut state = self.source.state();
        state.stats.dropped_groups += dropped;
        if let Some(info) = infos.first() {
            state.stats.infos += 1;
            tracing::debug!(
                source = self.source.name(),
                metric = batch.family.metric,
                info,
                "the source remarks"
            );
        }
        state.intervals.learn(batch, &groups, std::time::Instant::now());
        Ok(groups)
    }

    /// Sends one request. When the source has already failed in this round and answered nothing, it is spared.
    async fn request(&self, request: &Request, deadline: Instant) -> Result<Vec<u8>, Failure> {
        {
            let outcome = self.locked();
            if let (false, Some(failure)) = (outcome.answered, &outcome.failure) {
                return Err(failure.clone());
            }
        }
        tracing::trace!(source = self.source.name(), ?request, "asks");
        let (sent_ms, begun) = (now_ms(), Instant::now());
        let span = span(self.source.name(), request);
        let result = send(
            &self.client,
            request,
            deadline,
            self.source.settings.max_body_bytes,
        )
        .instrument(span.clone())
        .await;
        if let Err(failure) = &result {
            span.record("error.type", failure.reason.as_str());
        }
        let received_ms = now_ms();
        let result = {
            let mut state = self.source.state();
            state.stats.requests += 1;
            state.stats.busy += begun.elapsed();
            result.and_then(|response| {
                state.stats.bytes += u64::try_from(response.body.len()).unwrap_or(u64::MAX);
                if let Some(server_ms) = response.server_ms {
                    state.skew.learn(server_ms, sent_ms, received_ms);
                }
                response.into_body()
            })
        };
        match &result {
            // A source may well have no rules API; its queries will tell whether its URL is wrong.
            Err(failure) if failure.not_there && matches!(request, Request::Alerts(_)) => {}
            Err(failure) => self.note(failure),
            Ok(_) => {}
        }
        result
    }

    /// Notes a failure that only shows in the body.
    fn decoded<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        match &result {
            Ok(_) => self.locked().answered = true,
            Err(failure) => self.note(failure),
        }
        result
    }

    fn note(&self, failure: &Failure) {
        *self
            .source
            .state()
            .stats
            .failures
            .entry(failure.reason)
            .or_insert(0) += 1;
        let mut outcome = self.locked();
        if !failure.concerns_source() {
            // It has looked at the query: the source itself is well.
            outcome.answered = true;
        } else if outcome
            .failure
            .as_ref()
            .is_none_or(|known| known.retry_after < failure.retry_after)
        {
            outcome.failure = Some(failure.clone());
        }
    }

    fn failed(&self, batch: &Batch, failure: &Failure) -> Vec<(Ask, Result<Group, Unknown>)> {
        batch
            .sets
            .iter()
            .map(|set| batch.ask(set))
            .map(|ask| {
                let unknown = self.reading(&ask, failure);
                (ask, Err(unknown))
            })
            .collect()
    }

    fn reading(&self, ask: &Ask, failure: &Failure) -> Unknown {
        failure.reading(&format!("{} from source {}", ask.describe(), self.source.name()))
    }

    fn locked(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> Failure {
    Failure::new(UnknownReason::Unavailable, "the source is being shut down")
}

/// A request as it is traced. The text is cut: a batch of many label sets is long.
fn span(source: &str, request: &Request) -> tracing::Span {
    const SHOWN: usize = 400;
    let text: String = match request {
        Request::Query { promql, .. } => promql.chars().take(SHOWN).collect(),
        Request::Alerts(names) => names.join(", ").chars().take(SHOWN).collect(),
    };
    tracing::info_span!(
        target: TRACES,
        "query",
        otel.kind = "client",
        db.system.name = "prometheus",
        db.query.text = text,
        source,
        "error.type" = tracing::field::Empty,
    )
}
