//! What every simulation shares: bucket layouts, the help-desk case, and the rules decided by.

use std::time::Duration;

use hedgerow_tuner::{Budget, Delay, Measures, Mode, NoBenefit, Plateau, Rules, SwitchRules, Windows};

/// Prometheus' default bounds, in seconds.
pub(crate) const DEFAULT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// OpenTelemetry's for HTTP durations.
pub(crate) const OTEL: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// The `p`-quantile of the help-desk case, in seconds: p50 0.15, p95 0.5, p98 1.0, p99 3.0 s, at most 6 s; log-linear between
/// these.
pub(crate) fn help_desk_quantile(p: f64) -> f64 {
    let marks: [(f64, f64); 6] = [
        (0.0, 0.05),
        (0.5, 0.15),
        (0.95, 0.5),
        (0.98, 1.0),
        (0.99, 3.0),
        (1.0, 6.0),
    ];
    let upper = marks.iter().position(|&(mark, _)| p < mark).unwrap();
    let ((p0, t0), (p1, t1)) = (marks[upper - 1], marks[upper]);
    t0 * (t1 / t0).powf((p - p0) / (p1 - p0))
}

/// Percentile 95, budget 10 %; no signals, no counters.
pub(crate) fn rules() -> Rules {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    Rules {
        mode: Mode::Enforce,
        measure: "simulated_seconds/Seconds".to_owned(),
        measures: Measures::default(),
        counted: false,
        no_benefit: NoBenefit::default(),
        deadline: None,
        fan_out: None,
        delay: Delay {
            quantile: 0.95,
            min: Duration::from_millis(1),
            max: Duration::from_secs(10),
            add: Duration::ZERO,
            plateau: Plateau::Follow,
        },
        budget: Budget {
            percent: 10.0,
            limited_by_source: false,
            max_attempts: 2,
            max_concurrent: 100,
            min_per_second: 0.0,
        },
        windows: Windows {
            window: minutes(10),
            max_window: minutes(60),
            min_samples: 400,
            low_confidence: false,
        },
        switch: SwitchRules {
            signals: Vec::new(),
            max_unknown: Duration::from_secs(90),
            cooldown: minutes(2),
            ramp_step: minutes(2),
        },
        max_staleness: minutes(5),
        propagation: Duration::from_secs(90),
    }
}
