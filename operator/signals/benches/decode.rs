//! How long it takes to decode what a source answers: 70 elements for each of 1,000 label sets, in queries of 200.
//!
//! `cargo bench -p hedgerow-signals`. The machine's measure stands beside it: what serde_json needs to read the same bytes
//! into its own tree.
#![allow(clippy::unwrap_used, reason = "a benchmark fails as a test does")]

use std::fmt::Write as _;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use hedgerow_signals::bench::Histograms;

/// Label sets that one query asks for at most.
const PER_QUERY: usize = 200;
const QUERIES: usize = 5;
/// Of one label set: 32 bounds counted and laid out, five totals and times, one share.
const ROWS: usize = 70;

fn main() {
    divan::main();
}

/// An answer for a query's label sets, as Prometheus writes it.
fn answer() -> String {
    let mut elements = Vec::new();
    for set in 0..PER_QUERY {
        let mut row = |part: &str, labels: &str, value: f64| {
            elements.push(format!(
                r#"{{"metric":{{"app":"{set}","hedgerow_part":"{part}"{labels}}},"value":[1790000000.123,"{value}"]}}"#
            ));
        };
        for bound in 0..32 {
            let spelled = if bound == 31 {
                "+Inf".to_owned()
            } else {
                (0.001 * 1.4_f64.powi(bound)).to_string()
            };
            let calls = 1234.5678901234 * f64::from(bound + 1);
            row("buckets", &format!(r#","le":"{spelled}","status":"OK""#), calls);
            row("layout", &format!(r#","le":"{spelled}""#), 12.0);
        }
        row("count", r#","status":"OK""#, 1234.5678901234 * 32.0);
        row("sum", r#","status":"OK""#, 1234.5678901234 * 32.0 * 3.0);
        for (part, value) in [
            ("newest", 1_790_000_000.0),
            ("scrapes_long", 20.0),
            ("scrapes_short", 4.0),
            ("unstable", 0.05),
        ] {
            row(part, "", value);
        }
    }
    assert_eq!(elements.len(), PER_QUERY * ROWS);
    let mut body = r#"{"status":"success","data":{"resultType":"vector","result":["#.to_owned();
    write!(body, "{}]}}}}", elements.join(",")).unwrap();
    body
}

/// Runs `each` on the answers of all queries.
fn all(bencher: Bencher<'_, '_>, each: impl Fn(&[u8]) -> usize + Sync, expected: usize) {
    let body = answer();
    assert_eq!(each(body.as_bytes()), expected);
    bencher.counter(BytesCount::new(QUERIES * body.len())).bench(|| {
        (0..QUERIES)
            .map(|_| each(black_box(body.as_bytes())))
            .sum::<usize>()
    });
}

#[divan::bench(sample_count = 20)]
fn decode(bencher: Bencher<'_, '_>) {
    all(bencher, Histograms::decode, PER_QUERY * ROWS);
}

#[divan::bench(sample_count = 20)]
fn decode_take_apart_and_build(bencher: Bencher<'_, '_>) {
    let histograms = Histograms::of(PER_QUERY);
    all(bencher, |body| histograms.read(body), PER_QUERY);
}

#[divan::bench(sample_count = 20)]
fn reference_serde_json_tree(bencher: Bencher<'_, '_>) {
    let rows = |body: &[u8]| {
        let tree: serde_json::Value = serde_json::from_slice(body).unwrap();
        tree["data"]["result"].as_array().unwrap().len()
    };
    all(bencher, rows, PER_QUERY * ROWS);
}
