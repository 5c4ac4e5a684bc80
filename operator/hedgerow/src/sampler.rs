//! Polling is not reconciling: a sampler reads every due target of its source in one batch, on its own schedule, and decides
//! each. Only a target whose decision differs from what was handed on is pushed to the queue, so in steady state nothing is
//! written, and an edit storm does not multiply queries.
//!
//! Each source has two samplers, one for latency and one for the saturation signals, and neither waits for the other: the
//! switch must not be late because the buckets of a large histogram are.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_signals::{ReadingKind, Source, TargetQuery, TargetReadings};
use hedgerow_tuner::Timestamp;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tracing::field::Empty;
use tracing::{Instrument, info, info_span, warn};

use crate::cluster::{Lane, WriteQueue};
use crate::heartbeat::Heartbeat;
use crate::index::{Due, Index};
use crate::metrics::Metrics;
use crate::telemetry::TRACES;
use crate::words;

/// A sampler looks at the clock at least this often, so that a step of the system's clock is noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Told when a source begins or ceases to fail for all its targets.
pub type OnSourceState = Arc<dyn Fn(&str, Option<&hedgerow_tuner::Unknown>) + Send + Sync>;

/// Takes one kind of reading of the targets of one source, and decides them.
pub struct Sampler {
    /// The source.
    pub source: Arc<Source>,
    /// The kind of reading.
    pub kind: ReadingKind,
    /// Its place in time; see `schedule`.
    pub phase: Duration,
    /// The targets.
    pub index: Index,
    /// Where policies that must be written go.
    pub queue: WriteQueue,
    /// Woken when a policy is followed anew.
    pub wake: Arc<Notify>,
    /// Where reads are counted.
    pub metrics: Metrics,
    /// Shows that the sampler moves.
    pub heartbeat: Heartbeat,
    /// Told when the source begins or ceases to fail.
    pub on_state: OnSourceState,
}

impl Sampler {
    /// Samples for ever.
    pub async fn run(self) {
        loop {
            self.heartbeat.beat();
            let now = words::now();
            let (due, next) = self.index.due(self.source.name(), self.kind, self.phase, now);
            if due.is_empty() {
                let sleep = next.map_or(LONGEST_SLEEP, |next| next.since(now).min(LONGEST_SLEEP));
                // Woken or not, the next round looks for itself.
                let _ = timeout(sleep, self.wake.notified()).await;
                continue;
            }
            let begun = Instant::now();
            let span = info_span!(
                target: TRACES,
                "poll",
                source = self.source.name(),
                kind = self.kind.as_str(),
                targets = due.len(),
            );
            self.round(&due).instrument(span).await;
            self.metrics.read(self.source.name(), self.kind, begun.elapsed());
        }
    }

    /// One round: reads what is due, decides, and hands on what must be written.
    async fn round(&self, due: &[Due]) {
        let readings = self.read(due).await;
        self.tell_state();
        let now = words::now();
        for (due, readings) in due.iter().zip(readings) {
            self.metrics.readings(self.source.name(), &readings);
            let span = info_span!(
                target: TRACES,
                "decide",
                policy = %due.key.policy,
                target = due.key.target,
                lane = Empty,
            );
            let lane = span.in_scope(|| self.index.take(due, readings, now));
            if let Some(lane) = lane {
                span.record("lane", lane.as_str());
                self.queue.push(due.key.policy.clone(), lane);
            }
        }
        self.late(due, now);
    }

    /// Asks for what is due; of a target of which only time has passed nothing is asked.
    async fn read(&self, due: &[Due]) -> Vec<TargetReadings> {
        let asks = |query: &TargetQuery| query.asks(self.kind);
        let queries: Vec<TargetQuery> = due
            .iter()
            .map(|due| &due.query)
            .filter(|query| asks(query))
            .cloned()
            .collect();
        let mut answers = if queries.is_empty() {
            Vec::new()
        } else {
            self.source.read(&queries).await
        }
        .into_iter();
        due.iter()
            .map(|due| {
                if asks(&due.query) {
                    answers.next().unwrap_or_default()
                } else {
                    TargetReadings::default()
                }
            })
            .collect()
    }

    /// Tells once when the source begins or ceases to fail for all its targets.
    fn tell_state(&self) {
        let name = self.source.name();
        let stats = self.source.stats();
        let failing = stats.failing.clone();
        self.metrics.source(name, &stats);
        let concerned = self.index.set_failing(name, failing.clone(), words::now());
        if concerned.is_empty() {
            return;
        }
        let policies = concerned.len();
        match &failing {
            Some(why) => {
                warn!(source = name, reason = %why.reason, message = why.message, policies, "source fails");
            }
            None => info!(source = name, policies, "source answers again"),
        }
        (self.on_state)(name, failing.as_ref());
        for policy in concerned {
            self.queue.push(policy, Lane::Rest);
        }
    }

    /// How late the round was done, after its due time.
    fn late(&self, due: &[Due], now: Timestamp) {
        if let Some(at) = due.iter().filter_map(|due| due.at).min() {
            self.metrics
                .lateness(self.source.name(), self.kind, now.since(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::body::{Body, Bytes};
    use axum::response::{IntoResponse, Response};
    use futures::stream;
    use hedgerow_tests::eventually;
    use hedgerow_tuner::{Memory, Reason};
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;
    use crate::cluster::{Caches, Work, WriteRate, Writes};
    use crate::fixtures::{follow, policy, written_spec};
    use crate::heartbeat::Heartbeats;
    use crate::settings::DeclaredSource;

    /// Longer than any machine needs; only a test that fails waits for so long.
    const AT_LAST: Duration = Duration::from_secs(60);

    /// How often a Prometheus was asked for each kind of reading that never answers about latency.
    #[derive(Default)]
    struct Asked {
        latency: AtomicUsize,
        signals: AtomicUsize,
    }

    /// Says that the queue is 80 deep, and nothing about histograms.
    fn answer(asked: &Asked, query: &[u8]) -> Response {
        if String::from_utf8_lossy(query).contains("_bucket") {
            asked.latency.fetch_add(1, Ordering::SeqCst);
            return Body::from_stream(stream::pending::<std::io::Result<Bytes>>()).into_response();
        }
        asked.signals.fetch_add(1, Ordering::SeqCst);
        let now = words::now().as_millis() / 1000;
        let element = |part, value: i64| json!({ "metric": { "hedgerow_part": part }, "value": [now, value.to_string()] });
        let result = [element("value", 80), element("newest", now)];
        axum::Json(json!({ "status": "success", "data": { "resultType": "vector", "result": result } }))
            .into_response()
    }

    async fn source(asked: Arc<Asked>) -> Source {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let handle = move |query: Bytes| async move { answer(&asked, &query) };
        tokio::spawn(async move {
            axum::serve(listener, Router::new().fallback(handle))
                .await
                .unwrap();
        });
        let mut settings = DeclaredSource::plain("default", &url).settings;
        (settings.concurrency, settings.timeout) = (2, AT_LAST * 2);
        Source::new(settings).unwrap()
    }

    /// Told to hedge at full budget, long ago.
    fn remembered() -> Memory {
        let hedging =
            json!({ "delayMs": 500.0, "minRemainingMs": 150.0, "percent": 10.0, "minPerSecond": 0.0 });
        serde_json::from_value(json!({
            "written": 1, "revision": 7, "orders": { "hedging": hedging, "reason": "Tuned" }, "phase": { "Full": { "since": 1 } },
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn signals_are_read_and_turn_hedging_off_while_latency_is_not_answered() {
        let asked = Arc::<Asked>::default();
        let source = Arc::new(source(Arc::clone(&asked)).await);
        let mut spec = written_spec();
        spec["saturationInterval"] = json!("1s");
        let (index, queue) = (Index::default(), WriteQueue::new(WriteRate::default()));
        index.follow(&policy(), follow(&spec), |_| {
            vec![("kb-hedging".to_owned(), remembered())]
        });
        let heartbeats = Heartbeats::default();
        for kind in ReadingKind::ALL {
            let sampler = Sampler {
                source: Arc::clone(&source),
                kind,
                phase: Duration::ZERO,
                index: index.clone(),
                queue: queue.clone(),
                wake: Arc::default(),
                metrics: Metrics::new(index.clone(), queue.clone(), Caches::default()),
                heartbeat: heartbeats.of(kind.as_str()),
                on_state: Arc::new(|_, _| {}),
            };
            tokio::spawn(sampler.run());
        }
        let work = timeout(AT_LAST, queue.pop(Writes::All))
            .await
            .expect("hedging goes off");
        let off = Work {
            policy: policy(),
            lane: Lane::Safe,
        };
        assert_eq!(work, off);
        let decided = index.decide(&policy(), words::now()).unwrap();
        assert_eq!(decided.targets[0].0.reason, Reason::Saturated);
        eventually("the signals are read again", AT_LAST, async || {
            anyhow::ensure!(asked.signals.load(Ordering::SeqCst) >= 4);
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(
            asked.latency.load(Ordering::SeqCst),
            1,
            "and latency is still waited for"
        );
    }
}
