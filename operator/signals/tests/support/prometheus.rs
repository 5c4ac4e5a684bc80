//! A real Prometheus with generated samples.

use std::fmt::Write as _;
use std::process::Command;
use std::sync::OnceLock;

use crate::support::process::{self, Running, folder, free_port};

/// Seconds between samples.
pub(crate) const STEP: i64 = 15;

/// The URL of the one Prometheus of this test binary.
///
/// Samples reach half an hour back and ten minutes ahead, so that they are fresh however long the tests take. Every counter
/// rises by the same amount each second: its increase is then exact, whenever it is asked for.
pub(crate) fn url() -> &'static str {
    static RUNNING: OnceLock<(String, Running)> = OnceLock::new();
    let (url, _) = RUNNING.get_or_init(start);
    url
}

fn start() -> (String, Running) {
    let [prometheus, promtool] = process::parts(["prometheus", "promtool"]);
    let folder = folder();
    let (samples, data) = (folder.join("samples.om"), folder.join("data"));
    std::fs::write(&samples, samples_text()).unwrap();
    let made = Command::new(promtool)
        .args(["tsdb", "create-blocks-from", "openmetrics", "--quiet"])
        .args([&samples, &data])
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "promtool: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    std::fs::write(folder.join("rules.yaml"), RULES).unwrap();
    std::fs::write(
        folder.join("prometheus.yaml"),
        "global: { evaluation_interval: 1s }\nrule_files: [rules.yaml]\n",
    )
    .unwrap();
    let port = free_port();
    let address = format!("--web.listen-address=127.0.0.1:{port}");
    let arguments = [
        "--config.file=prometheus.yaml",
        "--storage.tsdb.path=data",
        &address,
    ];
    let running = process::run(&folder, &prometheus, &arguments, port, "/-/ready");
    (format!("http://127.0.0.1:{port}"), running)
}

pub(crate) const RULES: &str = r#"
groups:
- name: alerts
  interval: 1s
  rules:
  - { alert: Burning, expr: "queue_depth{pod='a'} > 1" }
  - { alert: Quiet, expr: "queue_depth > 1e9" }
  - { alert: Smouldering, expr: "queue_depth{pod='a'} > 1", for: 1h }
- name: broken
  interval: 1s
  rules:
  - { alert: Broken, expr: "up + on (nothing) up" }
- name: slow
  interval: 10h
  rules:
  - { alert: NotYet, expr: "queue_depth > 1e9" }
"#;

pub(crate) use crate::support::feed::now;

/// Writes series as OpenMetrics text.
struct Writer {
    text: String,
    from: i64,
    to: i64,
}

impl Writer {
    fn series(&mut self, series: &str, value: impl Fn(i64) -> String) {
        for time in (self.from..=self.to).step_by(usize::try_from(STEP).unwrap()) {
            let value = value(time - self.from);
            writeln!(self.text, "{series} {value} {time}").unwrap();
        }
    }

    /// A value that does not move.
    fn still(&mut self, series: &str, value: &str) {
        self.series(series, |_| value.to_owned());
    }

    /// A counter that rises by `per_second`.
    fn counter(&mut self, series: &str, per_second: f64) {
        self.series(series, |elapsed| {
            (1000.0 + per_second * f64::from(i32::try_from(elapsed).unwrap())).to_string()
        });
    }

    /// A histogram: calls a second up to each bound, and the sum of their durations a second.
    fn histogram(&mut self, metric: &str, labels: &str, buckets: &[(&str, f64)], sum: f64) {
        let comma = if labels.is_empty() { "" } else { "," };
        for (bound, rate) in buckets {
            self.counter(
                &format!("{metric}_bucket{{{labels}{comma}le=\"{bound}\"}}"),
                *rate,
            );
        }
        let total = buckets.last().unwrap().1;
        self.counter(&format!("{metric}_count{{{labels}}}"), total);
        self.counter(&format!("{metric}_sum{{{labels}}}"), sum);
    }
}

fn samples_text() -> String {
    let now = now();
    let mut w = Writer {
        text: String::new(),
        from: now - 1800,
        to: now + 600,
    };
    let shard = [
        ("0.1", 2.0),
        ("0.3", 6.0),
        ("0.5", 9.0),
        ("1", 9.8),
        ("+Inf", 10.0),
    ];
    for index in ["kb", "faq"] {
        for pod in ["a", "b"] {
            w.histogram(
                "shard_read_duration_seconds",
                &format!("index=\"{index}\",pod=\"{pod}\",namespace=\"helpdesk\""),
                &shard,
                2.5,
            );
        }
    }
    w.histogram(
        "rpc_duration_milliseconds",
        "",
        &[("5", 1.0), ("10", 8.0), ("50", 9.0), ("+Inf", 10.0)],
        120.0,
    );
    w.histogram(
        "idle_seconds",
        "",
        &[("0.1", 0.0), ("1", 0.0), ("+Inf", 0.0)],
        0.0,
    );
    w.histogram(
        "mixed_seconds",
        "pod=\"a\"",
        &[("0.5", 5.0), ("1", 9.0), ("+Inf", 10.0)],
        5.0,
    );
    w.histogram(
        "mixed_seconds",
        "pod=\"b\"",
        &[("0.5", 5.0), ("0.75", 8.0), ("1", 9.0), ("+Inf", 10.0)],
        5.0,
    );
    for i in 0..50 {
        w.histogram(
            "fleet_seconds",
            &format!("app=\"app-{i}\",zone=\"z{i}\""),
            &[("0.1", 1.0), ("1", 2.0), ("+Inf", f64::from(i) + 3.0)],
            f64::from(i) + 3.0,
        );
    }
    for replica in ["0", "1"] {
        w.histogram(
            "paired_seconds",
            &format!("app=\"a\",replica=\"{replica}\""),
            &[("0.1", 1.0), ("1", 2.0), ("+Inf", 2.0)],
            1.0,
        );
    }
    for (i, value) in ODD_VALUES.iter().enumerate() {
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let count = f64::from(u32::try_from(i).unwrap()) + 1.0;
        w.counter(&format!("odd_events_total{{value=\"{value}\"}}"), count);
    }
    // Two workers behind one port.
    for series in [
        "workers_seconds_count",
        "workers_seconds_bucket{le=\"1\"}",
        "workers_seconds_bucket{le=\"+Inf\"}",
    ] {
        w.series(series, |elapsed| {
            if (elapsed / STEP) % 2 == 0 { "1" } else { "35" }.to_owned()
        });
    }
    w.still("spring_seconds_count", "5");
    w.still("spring_seconds_sum", "1");
    for quantile in ["0.5", "0.99"] {
        w.still(&format!("summary_seconds{{quantile=\"{quantile}\"}}"), "0.3");
    }
    w.still("summary_seconds_count", "5");
    // A queue that was long at every other scrape.
    w.series("queue_depth{pod=\"a\"}", |elapsed| {
        if (elapsed / STEP) % 2 == 0 { "60" } else { "40" }.to_owned()
    });
    w.still("queue_depth{pod=\"b\"}", "3");
    w.still("queue_depth{pod=\"c\"}", "-4");
    w.still("queue_depth{pod=\"d\"}", "NaN");
    // A queue that was long until three scrapes ago.
    w.series("drained_depth", |elapsed| {
        if elapsed <= 1800 - 3 * STEP { "80" } else { "3" }.to_owned()
    });
    w.still("only_nan", "NaN");
    w.still("endless", "+Inf");
    w.counter("requests_total{job=\"kb\",pod=\"a\"}", 8.0);
    w.counter("requests_total{job=\"kb\",pod=\"b\"}", 2.0);
    w.counter("rejected_total{job=\"kb\",pod=\"a\"}", 0.5);
    w.counter("idle_total{job=\"kb\"}", 0.0);
    w.counter("timeouts_total{index=\"kb\"}", 0.25);
    w.still("up{job=\"kb\",pod=\"a\"}", "1");
    w.still("up{job=\"kb\",pod=\"b\"}", "1");
    w.still("up{job=\"half\",pod=\"a\"}", "1");
    w.still("up{job=\"half\",pod=\"b\"}", "0");
    // Gone three minutes ago, without a word.
    let mut gone = Writer {
        text: String::new(),
        from: now - 1800,
        to: now - 180,
    };
    gone.histogram(
        "gone_seconds",
        "",
        &[("0.1", 1.0), ("1", 2.0), ("+Inf", 2.0)],
        1.0,
    );
    gone.still("gone_depth", "7");
    gone.still("up{job=\"gone\"}", "1");
    w.text + &gone.text + "# EOF\n"
}

/// Label values that are patterns, break strings, or both.
pub(crate) const ODD_VALUES: &[&str] = &[
    "abc",
    "a.c",
    ".*",
    "a|b",
    "x\"} or vector(1) #",
    "back\\slash",
    "\\d+",
    "two\nlines",
    "ü→🦔",
    "{",
    "}",
    "$1",
    "^a$",
];
