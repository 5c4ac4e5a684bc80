//! Quantiles of classic and native histograms against those that Prometheus' own algorithm gives.

#[cfg(test)]
mod against_prometheus {
    use hedgerow_tuner::{Histogram, NativeBucket};
    use serde::Deserialize;

    /// A line of `expected.jsonl`, which `prometheus.py` wrote.
    #[derive(Deserialize)]
    struct Case {
        kind: String,
        buckets: Vec<Vec<Option<f64>>>,
        sum: Option<f64>,
        count: f64,
        expected: Vec<(f64, f64)>,
    }

    impl Case {
        fn read(&self) -> Histogram {
            let rows = self.buckets.iter();
            let read = if self.kind == "classic" {
                let buckets = rows.map(|row| (row[0].unwrap_or(f64::INFINITY), row[1].unwrap()));
                Histogram::from_cumulative(buckets, self.sum, Some(self.count))
            } else {
                let buckets = rows.map(|row| NativeBucket {
                    lower: row[0].unwrap_or(f64::NEG_INFINITY),
                    upper: row[1].unwrap_or(f64::INFINITY),
                    calls: row[2].unwrap(),
                });
                Histogram::from_native(buckets, self.sum.or(Some(f64::NAN)), self.count)
            };
            read.unwrap_or_else(|why| panic!("{why}: {} {:?}", self.kind, self.buckets))
        }
    }

    #[test]
    fn every_quantile_is_the_one_that_prometheus_gives() {
        let cases: Vec<Case> = include_str!("expected.jsonl")
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for kind in ["classic", "custom", "exponential"] {
            let mut largest: f64 = 0.0;
            let of_kind: Vec<_> = cases.iter().filter(|case| case.kind == kind).collect();
            for case in &of_kind {
                let histogram = case.read();
                for &(q, expected) in &case.expected {
                    let found = histogram.quantile(q).at_least();
                    // Prometheus clips to the last bound, which is no time where it is not above zero.
                    let difference = (found - expected.max(found.min(0.0))).abs() / expected.abs().max(1e-9);
                    assert!(
                        difference < 1e-9,
                        "{kind} q {q}: {found}, Prometheus {expected}: {:?}",
                        case.buckets
                    );
                    largest = largest.max(difference);
                }
            }
            println!(
                "{kind}: {} distributions, largest difference {largest:e} of the value",
                of_kind.len()
            );
            assert!(of_kind.len() >= 90, "{} of {kind}", of_kind.len());
        }
    }
}
