//! Rules and readings to start from, and a target that is decided again and again.

use std::time::Duration;

use hedgerow_tuner::{
    Alert, Budget, Counts, Decision, Delay, Diagnosis, DiagnosisReason, Hedging, Histogram, Latency, Line,
    Measures, Memory, Mode, NoBenefit, Plateau, Readings, Reason, Rules, Signal, SignalRules, SignalValue,
    Stop, SwitchRules, Timestamp, Unknown, UnknownReason, WindowCounts, WindowReading, Windows, decide,
};

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The help-desk policy: percentile 95, deadline 1 s, budget 10 %, one queue with its line at 50.
pub(crate) fn rules() -> Rules {
    Rules {
        mode: Mode::Enforce,
        measure: "shard_read_duration_seconds/Seconds".to_owned(),
        measures: Measures::default(),
        counted: false,
        no_benefit: NoBenefit::default(),
        deadline: Some(secs(1)),
        fan_out: Some(8),
        delay: Delay {
            quantile: 0.95,
            min: Duration::from_millis(1),
            max: secs(1),
            add: Duration::ZERO,
            plateau: Plateau::default(),
        },
        budget: Budget {
            percent: 10.0,
            limited_by_source: false,
            max_attempts: 2,
            max_concurrent: 100,
            min_per_second: 0.0,
        },
        windows: Windows {
            window: secs(600),
            max_window: secs(3600),
            min_samples: 400,
            low_confidence: false,
        },
        switch: SwitchRules {
            signals: vec![line("queue", 50.0, 35.0)],
            max_unknown: secs(90),
            cooldown: secs(120),
            ramp_step: secs(120),
        },
        max_staleness: secs(300),
        propagation: secs(90),
    }
}

/// Those rules without saturation signals.
pub(crate) fn rules_without_signals() -> Rules {
    let mut rules = rules();
    rules.switch.signals.clear();
    rules
}

pub(crate) fn line(name: &str, off_above: f64, on_below: f64) -> SignalRules {
    SignalRules {
        name: name.to_owned(),
        line: Line::Value {
            off_above,
            on_below,
            at_least: None,
        },
    }
}

pub(crate) fn histogram(buckets: &[(f64, f64)]) -> Histogram {
    Histogram::from_cumulative(buckets.iter().copied(), None, None).unwrap()
}

/// The help-desk case at 1000 calls: p50 0.15 s, p95 0.5 s, p98 1.0 s, p99 3.0 s, each at a bucket's edge.
pub(crate) fn help_desk() -> Histogram {
    scaled_help_desk(1.0)
}

/// The help-desk case `factor` times slower.
pub(crate) fn scaled_help_desk(factor: f64) -> Histogram {
    let shape = [
        (0.15, 500.0),
        (0.3, 800.0),
        (0.5, 950.0),
        (1.0, 980.0),
        (2.0, 985.0),
        (3.0, 990.0),
        (6.0, 1000.0),
    ];
    let buckets = shape.iter().map(|&(bound, count)| (bound * factor, count));
    Histogram::from_cumulative(buckets.chain([(f64::INFINITY, 1000.0)]), None, None).unwrap()
}

/// The same distribution from a hundred times as many calls: nearly without doubt.
pub(crate) fn many(histogram: &Histogram) -> Histogram {
    times(100.0, histogram)
}

/// The same distribution from so many times as many calls.
pub(crate) fn times(factor: f64, histogram: &Histogram) -> Histogram {
    let buckets = histogram
        .buckets()
        .iter()
        .map(|&(bound, count)| (bound, count * factor));
    Histogram::from_cumulative(buckets, None, None).unwrap()
}

/// What calls look like when those that pass `delay` are hedged with probability `share` and attempts are like `attempt`:
/// `S_L(t) = S(t) (1 - a (1 - S(t-d)))` at each bound.
pub(crate) fn hedged(attempt: &Histogram, delay: f64, share: f64) -> Histogram {
    let calls = attempt.count();
    let survival = |t: f64| {
        let (mut lower, mut below) = (0.0, 0.0);
        for &(upper, count) in attempt.buckets() {
            if t <= upper {
                let within = if upper.is_finite() {
                    (t - lower) / (upper - lower)
                } else {
                    1.0
                };
                return 1.0 - (below + (count - below) * within.max(0.0)) / calls;
            }
            (lower, below) = (upper, count);
        }
        0.0
    };
    let seen = |t: f64| match t - delay {
        after if after > 0.0 => survival(t) * (1.0 - share * (1.0 - survival(after))),
        _ => survival(t),
    };
    let bounds = attempt.buckets().iter().map(|&(bound, _)| bound);
    Histogram::from_cumulative(
        bounds.map(|bound| (bound, calls * (1.0 - seen(bound)))),
        None,
        None,
    )
    .unwrap()
}

pub(crate) fn window(seconds: u64, distribution: Result<Histogram, Unknown>) -> WindowReading {
    WindowReading {
        window: secs(seconds),
        distribution,
        cancelled: None,
        timeouts: None,
        caveat: None,
    }
}

/// Counts over a window: calls, hedges, those kept back, those that won.
pub(crate) fn counts(seconds: u64, calls: f64, hedges: f64, blocked: f64, wins: f64) -> WindowCounts {
    WindowCounts {
        window: secs(seconds),
        calls,
        hedges,
        blocked: Some(blocked),
        wins: Some(wins),
    }
}

/// What a decision says of one thing that makes hedging pay less.
pub(crate) fn diagnosis(decision: &Decision, reason: DiagnosisReason) -> Option<&Diagnosis> {
    decision
        .diagnoses
        .iter()
        .find(|diagnosis| diagnosis.reason == reason)
}

pub(crate) fn unknown(reason: UnknownReason) -> Unknown {
    Unknown::new(reason, "for a test")
}

/// One target through time.
pub(crate) struct Target {
    pub(crate) rules: Rules,
    pub(crate) memory: Memory,
    pub(crate) readings: Readings,
    pub(crate) now: Timestamp,
    /// Readings are taken anew at each step.
    pub(crate) live: bool,
}

impl Target {
    /// A target that was never decided, with a help-desk latency and an empty queue.
    pub(crate) fn new(rules: Rules) -> Self {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let mut target = Self {
            rules,
            memory: Memory::default(),
            readings: Readings::default(),
            now,
            live: true,
        };
        target.latency(help_desk());
        target.queue(&[3.0]);
        target
    }

    /// The same, hedging at full budget for an hour.
    pub(crate) fn tuned(rules: Rules) -> Self {
        let mut target = Self::new(rules);
        target.decide();
        target.run(3600, 30);
        assert_eq!(target.hedging().unwrap().percent, target.rules.budget.percent);
        target
    }

    pub(crate) fn windows(&mut self, windows: Vec<WindowReading>) {
        self.readings.latency = Some(Latency {
            at: self.now,
            windows: Ok(windows),
        });
    }

    pub(crate) fn latency(&mut self, histogram: Histogram) {
        self.windows(vec![window(600, Ok(histogram))]);
    }

    /// What clients counted over each window.
    pub(crate) fn counted(&mut self, windows: Vec<WindowCounts>) {
        self.readings.counts = Some(Counts {
            at: self.now,
            windows: Ok(windows),
        });
    }

    pub(crate) fn no_latency(&mut self, reason: UnknownReason) {
        self.readings.latency = Some(Latency {
            at: self.now,
            windows: Err(unknown(reason)),
        });
    }

    /// What the first signal says: one value per series.
    pub(crate) fn queue(&mut self, series: &[f64]) {
        self.signals(vec![Ok(SignalValue::Series(series.to_vec()))]);
    }

    pub(crate) fn signals(&mut self, values: Vec<Result<SignalValue, Unknown>>) {
        let signal = |value| {
            Some(Signal {
                at: self.now,
                scrape_interval: Some(secs(15)),
                value,
            })
        };
        self.readings.signals = values.into_iter().map(signal).collect();
    }

    /// What clients counted in the last `seconds`: calls, hedges, hedges kept back.
    pub(crate) fn counts(&mut self, seconds: u64, calls: f64, hedges: f64, blocked: Option<f64>) {
        let windows = vec![WindowCounts {
            window: secs(seconds),
            calls,
            hedges,
            blocked,
            wins: None,
        }];
        self.readings.counts = Some(Counts {
            at: self.now,
            windows: Ok(windows),
        });
    }

    /// Counters that are read do not move the delay.
    pub(crate) fn keep_the_delay(&mut self) {
        self.rules.counted = false;
    }

    pub(crate) fn no_counts(&mut self, reason: UnknownReason) {
        self.readings.counts = Some(Counts {
            at: self.now,
            windows: Err(unknown(reason)),
        });
    }

    pub(crate) fn stop(&mut self, stopped: bool) {
        self.readings.stop = stopped.then(|| Stop {
            reason: Reason::Stopped,
            message: "ConfigMap helpdesk/hedgerow-off: incident 7".to_owned(),
        });
    }

    pub(crate) fn decide(&mut self) -> Decision {
        let (decision, memory) = decide(&self.rules, &self.memory, &self.readings, self.now);
        self.memory = memory;
        decision
    }

    /// Time passes; readings say the same as before, taken now.
    pub(crate) fn pass(&mut self, seconds: u64) {
        self.now = self.now.plus(secs(seconds));
        if self.live {
            if let Some(latency) = &mut self.readings.latency {
                latency.at = self.now;
            }
            if let Some(counts) = &mut self.readings.counts {
                counts.at = self.now;
            }
            for signal in self.readings.signals.iter_mut().flatten() {
                signal.at = self.now;
            }
        }
    }

    /// Time passes, then a decision.
    pub(crate) fn after(&mut self, seconds: u64) -> Decision {
        self.pass(seconds);
        self.decide()
    }

    /// Decides every `step` seconds for `seconds`.
    pub(crate) fn run(&mut self, seconds: u64, step: u64) -> Decision {
        let mut decision = self.decide();
        for _ in 0..seconds / step {
            decision = self.after(step);
        }
        decision
    }

    /// The delay in force.
    pub(crate) fn memory_delay_ms(&self) -> f64 {
        let memory = serde_json::to_value(&self.memory).unwrap();
        memory["orders"]["hedging"]["delayMs"].as_f64().unwrap()
    }

    /// What clients are told.
    pub(crate) fn hedging(&mut self) -> Option<Hedging> {
        self.decide().orders.hedging
    }

    /// The memory written and read back: what a restart leaves.
    pub(crate) fn restart(&mut self) {
        let written = serde_json::to_string(&self.memory).unwrap();
        self.memory = serde_json::from_str(&written).unwrap();
    }
}

pub(crate) fn alert(alert: Alert) -> Result<SignalValue, Unknown> {
    Ok(SignalValue::Alert(alert))
}
