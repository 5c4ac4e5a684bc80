//! Watches the demo from outside: what the front end and the replicas export, and what the document says.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hedgerow_config::NativeDocument;
use hedgerow_stage::{NAMESPACE, series};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::task::JoinHandle;

use crate::record::{Document, Phase, Record, Sample};
use crate::stage::{CONFIG_MAP, KEY, Stage};

/// Often enough to time an off-switch, seldom enough to cost nothing.
const EVERY: Duration = Duration::from_millis(200);
/// The help desk's p95 before any drift.
const P95_MS: f64 = 500.0;

/// Watches the demo from outside.
#[derive(Debug)]
pub(crate) struct Observer {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    start: Instant,
    record: Mutex<Record>,
    drift: Mutex<f64>,
}

struct Eyes {
    http: reqwest::Client,
    front_end: String,
    replicas: String,
    config_maps: Api<ConfigMap>,
}

impl Observer {
    /// Begins to watch.
    pub(crate) async fn start(stage: &Stage) -> Result<Self> {
        let eyes = Eyes {
            http: reqwest::Client::builder()
                .no_proxy()
                .timeout(Duration::from_secs(1))
                .build()?,
            front_end: stage.front_end_metrics(),
            replicas: stage.replica_metrics(),
            config_maps: Api::namespaced(stage.client(), NAMESPACE),
        };
        let shared = Arc::new(Shared {
            start: Instant::now(),
            record: Mutex::default(),
            drift: Mutex::new(1.0),
        });
        let task = tokio::spawn(watch(eyes, Arc::clone(&shared)));
        Ok(Self { shared, task })
    }

    /// Seconds since it began.
    pub(crate) fn seconds(&self) -> f64 {
        self.shared.start.elapsed().as_secs_f64()
    }

    /// From now on the replicas are `factor` times as slow as usual.
    pub(crate) fn drifted(&self, factor: f64) {
        *self.shared.drift.lock().unwrap_or_else(PoisonError::into_inner) = factor;
    }

    /// Everything seen so far.
    pub(crate) fn record(&self) -> Record {
        self.shared
            .record
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The last sample.
    pub(crate) fn latest(&self) -> Option<Sample> {
        self.shared
            .record
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .samples
            .last()
            .copied()
    }

    /// The sample in force at a time.
    pub(crate) fn sample_at(&self, seconds: f64) -> Sample {
        let record = self.shared.record.lock().unwrap_or_else(PoisonError::into_inner);
        let after = record.samples.partition_point(|sample| sample.at <= seconds);
        record
            .samples
            .get(after.saturating_sub(1))
            .copied()
            .unwrap_or_default()
    }

    /// A phase begins: the one before ends.
    pub(crate) fn begin(&self, title: &'static str) {
        let now = self.seconds();
        let mut record = self.shared.record.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = record.phases.last_mut() {
            last.to = now;
        }
        record.phases.push(Phase {
            title,
            from: now,
            to: now,
        });
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(eyes: Eyes, shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        ticks.tick().await;
        let drift = *shared.drift.lock().unwrap_or_else(PoisonError::into_inner);
        // A look that fails leaves a gap in the record, not a zero.
        let Ok(sample) = eyes.look(P95_MS * drift).await else {
            continue;
        };
        let at = shared.start.elapsed().as_secs_f64();
        let mut record = shared.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.samples.push(Sample { at, ..sample });
        if let Some(phase) = record.phases.last_mut() {
            phase.to = at;
        }
    }
}

impl Eyes {
    async fn look(&self, true_p95_ms: f64) -> Result<Sample> {
        let (front, replicas, document) = tokio::try_join!(
            self.text(&self.front_end),
            self.text(&self.replicas),
            self.document()
        )?;
        let count = |name: &str| series(&front, name).sum::<f64>();
        Ok(Sample {
            at: 0.0,
            queries: count("search_queries_total"),
            missed: count("search_queries_missed_total"),
            calls: count("hedgerow_client_calls_total"),
            hedges: count("hedgerow_client_hedges_total"),
            queue_depth: series(&replicas, "shard_queue_depth").reduce(f64::max),
            true_p95_ms,
            document,
        })
    }

    async fn text(&self, url: &str) -> Result<String> {
        Ok(self
            .http
            .get(url)
            .send()
            .await?
            .error_for_status()?
            .text()
            .await?)
    }

    async fn document(&self) -> Result<Document> {
        let Some(map) = self.config_maps.get_opt(CONFIG_MAP).await? else {
            return Ok(Document::default());
        };
        let text = map
            .data
            .as_ref()
            .and_then(|data| data.get(KEY))
            .context("the ConfigMap has no such key")?;
        let document = NativeDocument::parse(text.as_bytes()).map_err(|why| anyhow!("{why}"))?;
        Ok(document.hedging.map_or_else(Document::default, |terms| Document {
            delay_ms: Some(1000.0 * terms.delay.as_secs_f64()),
            percent: terms.budget.percent,
        }))
    }
}
