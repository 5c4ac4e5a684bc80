//! Metrics that a test sets and Prometheus scrapes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// An HTTP server of `/metrics`. It serves for as long as this value and the runtime that started it live.
#[derive(Debug)]
pub struct Exposition {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    server: AbortHandle,
}

/// Series by name and labels, both as they are written. Kinds are not: Prometheus does not need them.
#[derive(Debug, Default)]
struct Metrics(Mutex<BTreeMap<(String, Labels), f64>>);

type Labels = BTreeMap<String, String>;

/// One series. It exists once it is set.
#[derive(Clone, Debug)]
pub struct Series {
    metrics: Arc<Metrics>,
    name: String,
    labels: Labels,
}

/// A classic histogram.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: Vec<f64>,
    buckets: Vec<Series>,
    count: Series,
    sum: Series,
}

impl Exposition {
    /// Starts to serve, on a port that the kernel chooses; nothing is exposed yet.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn serve() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let metrics = Arc::new(Metrics::default());
        let shown = Arc::clone(&metrics);
        let router = Router::new().route("/metrics", get(move || async move { shown.text() }));
        let server = tokio::spawn(async move { axum::serve(listener, router).await }).abort_handle();
        Ok(Self {
            address,
            metrics,
            server,
        })
    }

    /// Where it serves.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A gauge or counter.
    pub fn series(&self, name: &str, labels: &[(&str, &str)]) -> Series {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Series {
            metrics: Arc::clone(&self.metrics),
            name: name.to_owned(),
            labels,
        }
    }

    /// A histogram with these upper bounds, in rising order; +Inf is added. All its series exist at once, at 0.
    pub fn histogram(&self, name: &str, labels: &[(&str, &str)], bounds: &[f64]) -> Histogram {
        let series = |suffix: &str| self.series(&format!("{name}{suffix}"), labels);
        let bounds: Vec<_> = bounds.iter().copied().chain([f64::INFINITY]).collect();
        let bucket = |bound: &f64| {
            let le = if bound.is_finite() {
                bound.to_string()
            } else {
                "+Inf".to_owned()
            };
            series("_bucket").with("le", &le)
        };
        let buckets: Vec<_> = bounds.iter().map(bucket).collect();
        let histogram = Histogram {
            bounds,
            buckets,
            count: series("_count"),
            sum: series("_sum"),
        };
        histogram.observe(0.0, 0.0);
        histogram
    }
}

impl Drop for Exposition {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Series {
    /// The same series with one more label.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets its value.
    pub fn set(&self, value: f64) {
        self.metrics.lock().insert(self.key(), value);
    }

    /// Adds to its value; one that does not exist is 0.
    pub fn add(&self, value: f64) {
        *self.metrics.lock().entry(self.key()).or_default() += value;
    }

    /// Ends it.
    pub fn remove(&self) {
        self.metrics.lock().remove(&self.key());
    }

    fn key(&self) -> (String, Labels) {
        (self.name.clone(), self.labels.clone())
    }
}

impl Histogram {
    /// Counts `times` observations of `value`.
    pub fn observe(&self, value: f64, times: f64) {
        self.observe_each(&[value], times);
    }

    /// Counts `times` observations of each of `values`, all at once for a scrape.
    pub fn observe_each(&self, values: &[f64], times: f64) {
        let mut metrics = self.count.metrics.lock();
        let mut add =
            |series: &Series, value: f64| *metrics.entry(series.key()).or_default() += value * times;
        for (bound, bucket) in self.bounds.iter().zip(&self.buckets) {
            let within: f64 = values.iter().filter(|value| *value <= bound).map(|_| 1.0).sum();
            add(bucket, within);
        }
        add(&self.count, values.iter().map(|_| 1.0).sum());
        add(&self.sum, values.iter().sum());
    }
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, Labels), f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for ((name, labels), value) in &*self.lock() {
            let labels: Vec<_> = labels
                .iter()
                .map(|(key, value)| format!("{key}={value:?}"))
                .collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
        }
        text
    }
}
