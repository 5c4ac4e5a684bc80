//! Histograms, and what is decided on them.
//!
//! The input is lines: `0.1 40` is a cumulative bucket, `0.1 0.2 7` one of a native histogram, and a word with a number says
//! the rest (`sum`, `count`, `timeouts`, `rules`). Buckets after `cancelled` are of attempts that were cut short.

use std::sync::LazyLock;
use std::time::Duration;

use hedgerow::compile::compile;
use hedgerow::settings::DeclaredSource;
use hedgerow_api::decode_spec;
use hedgerow_tuner::{
    Histogram, Latency, NativeBucket, Quantile, Readings, Reason, Rules, Timestamp, Unknown, WindowReading,
    decide_settled,
};
use serde_json::{Value, json};

/// An hour, as good as any.
const NOW: Timestamp = Timestamp::from_millis(1_796_032_800_000);

/// Rules by what an observation is, each with a deadline or without.
static RULES: LazyLock<Vec<Rules>> = LazyLock::new(|| {
    let latencies = [
        json!({ "metric": "t_seconds", "measures": "LogicalCall", "minSamples": 1 }),
        json!({ "metric": "t_seconds", "measures": "Attempt", "minSamples": 1, "outcomes": { "label": "status", "cancelled": ["C"] },
            "timeouts": { "rateOf": "timeouts_total" } }),
        json!({ "metric": "t_seconds", "measures": "Attempt", "minSamples": 1, "losersRunOn": true }),
        json!({ "metric": "t_seconds", "measures": "Server" }),
    ];
    let deadlines = [Some("1s"), None];
    latencies
        .iter()
        .flat_map(|latency| deadlines.map(|deadline| rules(latency, deadline)))
        .collect()
});

fn rules(latency: &Value, deadline: Option<&str>) -> Rules {
    let mut target =
        json!({ "name": "t", "idempotent": true, "latency": latency, "delay": { "add": "5ms" } });
    if let Some(deadline) = deadline {
        target["deadline"] = deadline.into();
    }
    let publish = json!([{ "configMap": "c", "key": "k", "targets": [{ "name": "t" }] }]);
    let spec = decode_spec(&json!({ "targets": [target], "publish": publish })).expect("a policy");
    let source = DeclaredSource::plain("default", "http://prometheus:9090");
    let compiled = compile(&spec, "n", &source, Duration::from_secs(90)).expect("rules");
    compiled.targets.into_iter().next().expect("a target").rules
}

pub(crate) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let written = Written::read(text);
    let distribution = written.answered.histogram(written.sum, written.count);
    let cancelled = written.cancelled.histogram(None, None).ok();
    for histogram in distribution.iter().chain(&cancelled) {
        holds_together(histogram);
    }
    let rules = &RULES[written.rules % RULES.len()];
    let reading = WindowReading {
        window: rules.windows.window,
        distribution,
        cancelled,
        timeouts: written.timeouts,
        caveat: None,
    };
    let readings = Readings {
        latency: Some(Latency {
            at: NOW,
            windows: Ok(vec![reading]),
        }),
        ..Readings::default()
    };
    is_within_bounds(rules, &readings);
}

/// What holds for any distribution.
pub(crate) fn holds_together(histogram: &Histogram) {
    let buckets = histogram.buckets();
    assert!(histogram.count() > 0.0 && histogram.count().is_finite());
    assert_eq!(buckets.last().map(|bucket| bucket.0), Some(f64::INFINITY));
    for pair in buckets.windows(2) {
        let [(lower, below), (upper, calls)] = pair else {
            continue;
        };
        // Equal where a native bucket has no width, as the one of zeros.
        assert!(lower <= upper && below <= calls, "{pair:?}");
    }
    let mut last = f64::NEG_INFINITY;
    for q in [0.01, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999] {
        let quantile = histogram.quantile(q);
        let least = quantile.at_least();
        assert!(least.is_finite(), "the {q}-quantile is {quantile:?}");
        // Rounded in the last place, where a bucket is narrow beside its bounds.
        assert!(
            least >= last - last.abs() * 1e-9,
            "the {q}-quantile {least} is below {last}"
        );
        if let Quantile::Estimate { seconds, bucket } = quantile {
            let (lower, upper) = bucket;
            assert!(lower <= seconds && seconds <= upper, "{quantile:?}");
        }
        last = least;
    }
}

/// What is decided stays within the policy, whatever is read.
fn is_within_bounds(rules: &Rules, readings: &Readings) {
    let decision = decide_settled(rules, readings, NOW);
    // For people: it is made only when asked for.
    assert!(!decision.message.to_string().is_empty());
    let Some(hedging) = decision.orders.hedging else {
        return;
    };
    assert!(matches!(decision.orders.reason, Reason::Tuned | Reason::Ramping));
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let (least, most) = (millis(rules.delay.min), millis(rules.delay.max));
    assert!(
        hedging.delay_ms >= least && hedging.delay_ms <= most,
        "{hedging:?}"
    );
    assert!(
        hedging.percent > 0.0 && hedging.percent <= rules.budget.percent,
        "{hedging:?}"
    );
    assert!(hedging.min_remaining_ms >= 0.0 && hedging.min_per_second >= 0.0);
}

/// An input, read.
#[derive(Default)]
struct Written {
    answered: Buckets,
    cancelled: Buckets,
    sum: Option<f64>,
    count: Option<f64>,
    timeouts: Option<f64>,
    rules: usize,
}

#[derive(Default)]
struct Buckets {
    classic: Vec<(f64, f64)>,
    native: Vec<NativeBucket>,
}

impl Written {
    fn read(text: &str) -> Self {
        let mut written = Self::default();
        let mut is_cancelled = false;
        for line in text.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let number = |text: &str| text.parse().unwrap_or(f64::NAN);
            let buckets = if is_cancelled {
                &mut written.cancelled
            } else {
                &mut written.answered
            };
            match words[..] {
                ["cancelled"] => is_cancelled = true,
                ["sum", sum] => written.sum = Some(number(sum)),
                ["count", count] => written.count = Some(number(count)),
                ["timeouts", timeouts] => written.timeouts = Some(number(timeouts)),
                ["rules", rules] => written.rules = rules.parse().unwrap_or_default(),
                [bound, calls] => buckets.classic.push((number(bound), number(calls))),
                [lower, upper, calls] => buckets.native.push(NativeBucket {
                    lower: number(lower),
                    upper: number(upper),
                    calls: number(calls),
                }),
                _ => {}
            }
        }
        written
    }
}

impl Buckets {
    fn histogram(self, sum: Option<f64>, count: Option<f64>) -> Result<Histogram, Unknown> {
        if self.native.is_empty() {
            return Histogram::from_cumulative(self.classic, sum, count);
        }
        let total = self.native.iter().map(|bucket| bucket.calls).sum();
        Histogram::from_native(self.native, sum, count.unwrap_or(total))
    }
}
