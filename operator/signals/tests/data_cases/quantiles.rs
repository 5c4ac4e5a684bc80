//! Quantiles against the server's own `histogram_quantile`, on the same data: 240 distributions, classic and native.

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand_distr::{Distribution as _, Exp, LogNormal, Pareto};

use crate::stage;
use crate::support::feed::{Feed, Native};
use crate::support::*;

const DISTRIBUTIONS: u32 = 240;

/// Bounds of client libraries, in seconds: the default, tight ones, and one that starts at 0.
const LAYOUTS: [&[f64]; 3] = [
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
    &[
        0.01, 0.02, 0.03, 0.05, 0.08, 0.13, 0.21, 0.34, 0.55, 0.89, 1.44, 2.33,
    ],
    &[0.0, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0],
];

pub(crate) fn samples(feed: &mut Feed) {
    // Little more than the window: these are most of what is written.
    feed.since(700);
    for i in 0..DISTRIBUTIONS {
        let values = values(i);
        let shape = i.to_string();
        let labels = [("shape", shape.as_str())];
        let bounds = LAYOUTS[i as usize % LAYOUTS.len()];
        let sum = values.iter().sum();
        let spelled: Vec<String> = bounds.iter().map(f64::to_string).collect();
        let up_to = |bound: f64| values.iter().filter(|value| **value <= bound).count() as f64;
        let buckets: Vec<(&str, f64)> = spelled
            .iter()
            .map(String::as_str)
            .zip(bounds.iter().map(|&bound| up_to(bound)))
            .chain([("+Inf", values.len() as f64)])
            .collect();
        feed.classic("drawn_classic_seconds", &labels, &buckets, sum);
        let mut native = Native::of(i32::try_from(i % 6).unwrap(), &values);
        native.zero = u64::from(i % 4);
        feed.native("drawn_native_seconds", &labels, &native);
        feed.native(
            "drawn_own_bounds_seconds",
            &labels,
            &Native::with_bounds(bounds, &values),
        );
    }
}

/// Latencies of four shapes, from a tenth of a millisecond to minutes.
fn values(i: u32) -> Vec<f64> {
    let mut random = StdRng::seed_from_u64(u64::from(i));
    let scale = 10f64.powf(-3.0 + f64::from(i % 30) / 10.0);
    let count = 100 + 10 * i as usize;
    let mut draw = |shape: u32| -> f64 {
        match shape {
            0 => LogNormal::new(scale.ln(), 0.4).unwrap().sample(&mut random),
            1 => Exp::new(1.0 / scale).unwrap().sample(&mut random),
            2 => Pareto::new(scale, 1.5).unwrap().sample(&mut random),
            _ => LogNormal::new((20.0 * scale).ln(), 0.2)
                .unwrap()
                .sample(&mut random),
        }
    };
    // Every fourth has a slow mode of one in twelve.
    (0..count)
        .map(|n| match i % 4 {
            3 if n % 12 == 0 => draw(3),
            3 => draw(0),
            shape => draw(shape),
        })
        .map(|value| value.clamp(1e-4, 300.0))
        .collect()
}

/// What the server computes, by shape.
async fn theirs(q: f64, metric: &str, by: &str) -> Vec<f64> {
    let client = prometheus_http_query::Client::try_from(stage::url().await).unwrap();
    let query = format!("histogram_quantile({q}, sum by ({by}) (increase({metric}[10m])))");
    let answer = client.query(query).post().await.unwrap();
    let mut values = vec![f64::NAN; DISTRIBUTIONS as usize];
    for sample in answer.data().as_vector().unwrap() {
        let shape: usize = sample.metric()["shape"].parse().unwrap();
        values[shape] = sample.sample().value();
    }
    values
}

/// The largest relative difference between our quantiles of `metric` and the server's, and how many were compared.
async fn largest_difference(metric: &str, stored: &str, by: &str) -> (f64, usize) {
    let source = source(stage::url().await);
    let targets: Vec<_> = (0..DISTRIBUTIONS)
        .map(|i| latency(metric, &[("shape", &i.to_string())]))
        .collect();
    let readings = source.read(&targets).await;
    assert_eq!(source.stats().requests, 2, "200 label sets a query");
    let (mut largest, mut compared) = (0.0_f64, 0);
    for q in [0.05, 0.5, 0.9, 0.95, 0.99, 0.999] {
        let theirs = theirs(q, stored, by).await;
        for (readings, theirs) in readings.iter().zip(theirs) {
            let ours = distribution(readings).quantile(q).at_least();
            // Where we say "at least", the server says the last bound.
            let difference = (ours - theirs).abs() / theirs.abs().max(1e-9);
            assert!(
                difference < 1e-9,
                "{metric} p{q}: ours {ours}, the server's {theirs}"
            );
            largest = largest.max(difference);
            compared += 1;
        }
    }
    (largest, compared)
}

#[tokio::test]
async fn classic_quantiles_are_those_of_the_server() {
    let (largest, compared) = largest_difference(
        "drawn_classic_seconds",
        "drawn_classic_seconds_bucket",
        "shape, le",
    )
    .await;
    println!(
        "classic: {compared} quantiles of {DISTRIBUTIONS} distributions, largest relative difference {largest:e}"
    );
}

#[tokio::test]
async fn native_quantiles_are_those_of_the_server() {
    let (largest, compared) =
        largest_difference("drawn_native_seconds", "drawn_native_seconds", "shape").await;
    println!(
        "native: {compared} quantiles of {DISTRIBUTIONS} distributions, largest relative difference {largest:e}"
    );
}

#[tokio::test]
async fn quantiles_of_native_histograms_with_bounds_of_their_own_are_those_of_the_server() {
    let metric = "drawn_own_bounds_seconds";
    let (largest, compared) = largest_difference(metric, metric, "shape").await;
    println!(
        "own bounds: {compared} quantiles of {DISTRIBUTIONS} distributions, largest relative difference {largest:e}"
    );
}
