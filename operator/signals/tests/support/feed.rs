//! Samples by remote write, which every server takes: numbers and native histograms at any time.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;

/// Seconds between samples.
pub(crate) const STEP: i64 = 15;

/// Now, in whole seconds since the epoch.
pub(crate) fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// Series to be written. Samples reach half an hour back and, so that they are fresh however long the tests take, nearly
/// ten minutes ahead. What is counted rises by the same at each scrape: its increase is then exact, whenever it is asked for.
pub(crate) struct Feed {
    series: Vec<TimeSeries>,
    from: i64,
    to: i64,
}

/// What a native histogram counts at each scrape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Native {
    /// -4..=8, or -53 for bounds of its own.
    pub(crate) schema: i32,
    /// Bounds of its own.
    pub(crate) bounds: Vec<f64>,
    /// In the bucket around zero.
    pub(crate) zero: u64,
    /// By the bucket's index.
    pub(crate) buckets: BTreeMap<i32, u64>,
    pub(crate) sum: f64,
}

impl Native {
    /// The histogram of these values, in seconds, all above 0.
    pub(crate) fn of(schema: i32, values: &[f64]) -> Self {
        let mut native = Self {
            schema,
            sum: values.iter().sum(),
            ..Self::default()
        };
        for value in values {
            // Bucket i holds what is above 2^((i-1)/2^schema) and at most 2^(i/2^schema).
            let index = (value.log2() * f64::from(schema).exp2()).ceil();
            *native.buckets.entry(index as i32).or_default() += 1;
        }
        native
    }

    /// The same with bounds of its own.
    pub(crate) fn with_bounds(bounds: &[f64], values: &[f64]) -> Self {
        let mut native = Self {
            schema: -53,
            bounds: bounds.to_vec(),
            sum: values.iter().sum(),
            ..Self::default()
        };
        for value in values {
            let index = bounds.partition_point(|bound| bound < value);
            *native.buckets.entry(i32::try_from(index).unwrap()).or_default() += 1;
        }
        native
    }
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self {
            series: Vec::new(),
            from: now() - 1800,
            to: now() + 580,
        }
    }

    /// What follows has samples only until `ago` seconds before now.
    pub(crate) fn until(&mut self, ago: i64) -> &mut Self {
        self.to = now() - ago;
        self
    }

    /// What follows has samples only since `ago` seconds before now.
    pub(crate) fn since(&mut self, ago: i64) -> &mut Self {
        (self.from, self.to) = (now() - ago, now() + 580);
        self
    }

    /// What follows has a single sample, now.
    pub(crate) fn once(&mut self) -> &mut Self {
        (self.from, self.to) = (now(), now());
        self
    }

    /// What follows has samples over the whole time again.
    pub(crate) fn throughout(&mut self) -> &mut Self {
        self.since(1800)
    }

    /// A series `name{labels}` with a value for each scrape.
    pub(crate) fn numbers(&mut self, name: &str, labels: &[(&str, &str)], value: impl Fn(i64) -> f64) {
        let samples = self
            .times()
            .map(|(scrape, timestamp)| Sample {
                value: value(scrape),
                timestamp,
            })
            .collect();
        self.push(name, labels, samples, Vec::new());
    }

    /// A counter that rises by `per_scrape`.
    pub(crate) fn counter(&mut self, name: &str, labels: &[(&str, &str)], per_scrape: f64) {
        self.numbers(name, labels, |scrape| per_scrape * scrape as f64);
    }

    /// A classic histogram: what is counted up to each bound at each scrape, and the sum.
    pub(crate) fn classic(
        &mut self,
        metric: &str,
        labels: &[(&str, &str)],
        buckets: &[(&str, f64)],
        sum: f64,
    ) {
        for (bound, count) in buckets {
            let labels = [labels, &[("le", *bound)]].concat();
            self.counter(&format!("{metric}_bucket"), &labels, *count);
        }
        self.counter(&format!("{metric}_count"), labels, buckets.last().unwrap().1);
        self.counter(&format!("{metric}_sum"), labels, sum);
    }

    /// A native histogram.
    pub(crate) fn native(&mut self, metric: &str, labels: &[(&str, &str)], native: &Native) {
        let histograms = self
            .times()
            .map(|(scrape, timestamp)| Histogram::of(native, scrape, timestamp))
            .collect();
        self.push(metric, labels, Vec::new(), histograms);
    }

    /// Every series of an exposition, each rising by its value at each scrape. Lines that are none are left out.
    pub(crate) fn exposition(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, labels, value)) = sample(line) {
                let labels: Vec<_> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
                self.counter(name, &labels, value);
            }
        }
    }

    /// Writes everything to `url`.
    pub(crate) async fn send(self, url: &str) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        for series in self.series.chunks(50) {
            let request = WriteRequest {
                timeseries: series.to_vec(),
            };
            let body = snap::raw::Encoder::new()
                .compress_vec(&request.encode_to_vec())
                .unwrap();
            let answer = client
                .post(url)
                .header("content-type", "application/x-protobuf")
                .header("content-encoding", "snappy")
                .header("x-prometheus-remote-write-version", "0.1.0")
                .body(body)
                .send()
                .await
                .unwrap();
            let status = answer.status();
            let said = answer.text().await.unwrap();
            assert!(status.is_success(), "{url}: {status} {said}");
        }
    }

    /// The number of each scrape, from 1, and its time in milliseconds.
    fn times(&self) -> impl Iterator<Item = (i64, i64)> + use<> {
        (self.from..=self.to)
            .step_by(usize::try_from(STEP).unwrap())
            .enumerate()
            .map(|(scrape, time)| (i64::try_from(scrape).unwrap() + 1, time * 1000))
    }

    fn push(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        samples: Vec<Sample>,
        histograms: Vec<Histogram>,
    ) {
        let mut labels: Vec<Label> = labels
            .iter()
            .chain([&("__name__", name)])
            .map(|&(name, value)| Label {
                name: name.to_owned(),
                value: value.to_owned(),
            })
            .collect();
        labels.sort_by(|one, other| one.name.cmp(&other.name));
        self.series.push(TimeSeries {
            labels,
            samples,
            histograms,
        });
    }
}

/// The labels of a series, by name.
type Labels = Vec<(String, String)>;

/// A line of an exposition: name, labels, value. A time at its end is left out.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    let (series, rest) = line.split_at(
        line.rfind('}')
            .map_or_else(|| line.find(' '), |end| Some(end + 1))?,
    );
    let value = rest.split_whitespace().next()?.parse().ok()?;
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let mut pairs = Vec::new();
    // Values in samples hold neither escaped quotes nor `="`.
    let mut rest = labels.strip_suffix('}')?.trim_end_matches(',');
    while let Some((label, tail)) = rest.split_once("=\"") {
        let (value, tail) = tail.split_once('"')?;
        pairs.push((label.trim_start_matches(',').to_owned(), value.to_owned()));
        rest = tail;
    }
    Some((name, pairs, value))
}

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    histograms: Vec<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    count: Option<u64>,
    #[prost(double, tag = "3")]
    sum: f64,
    #[prost(sint32, tag = "4")]
    schema: i32,
    #[prost(double, tag = "5")]
    zero_threshold: f64,
    #[prost(uint64, optional, tag = "6")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "11")]
    positive_spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "12")]
    positive_deltas: Vec<i64>,
    #[prost(int64, tag = "15")]
    timestamp: i64,
    #[prost(double, repeated, tag = "16")]
    custom_values: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

impl Histogram {
    fn of(native: &Native, scrape: i64, timestamp: i64) -> Self {
        let scrapes = u64::try_from(scrape).unwrap();
        let (mut spans, mut deltas) = (Vec::new(), Vec::new());
        let (mut after, mut last): (Option<i32>, i64) = (None, 0);
        for (&index, &count) in &native.buckets {
            match (after, spans.last_mut()) {
                (Some(after), Some(Span { length, .. })) if after == index => *length += 1,
                _ => spans.push(Span {
                    offset: index - after.unwrap_or(0),
                    length: 1,
                }),
            }
            let count = i64::try_from(count * scrapes).unwrap();
            deltas.push(count - last);
            (after, last) = (Some(index + 1), count);
        }
        let counted: u64 = native.buckets.values().sum::<u64>() + native.zero;
        let custom = native.schema == -53;
        Self {
            count: Some(counted * scrapes),
            sum: native.sum * scrape as f64,
            schema: native.schema,
            zero_threshold: if custom { 0.0 } else { 2f64.powi(-128) },
            zero_count: Some(native.zero * scrapes),
            positive_spans: spans,
            positive_deltas: deltas,
            timestamp,
            custom_values: native.bounds.clone(),
        }
    }
}
