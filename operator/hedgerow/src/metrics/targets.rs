//! What is known of each target at the moment of a scrape. Read from the index, so that the series of a deleted policy go
//! with it.

use std::fmt::Error;

use hedgerow_tuner::{Decision, SignalView, SwitchState, UnknownReason, WindowCounts};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::{Labels, gauges};
use crate::index::{Index, TargetView};

/// The targets.
#[derive(Debug)]
pub(super) struct Targets {
    index: Index,
}

/// A gauge of a target, and its values for one decision.
struct TargetGauge {
    /// Without prefix and unit.
    name: &'static str,
    /// Empty for none.
    unit: &'static str,
    help: &'static str,
    values: fn(&Decision, &Labels) -> Vec<(Labels, f64)>,
}

const GAUGES: [TargetGauge; 16] = [
    TargetGauge {
        name: "target_hedging",
        unit: "",
        help: "1 while clients of the target are told to hedge, else 0.",
        values: |decision, labels| {
            let hedging = truth(decision.orders.hedging.is_some());
            vec![(with(labels, "reason", decision.reason.as_str()), hedging)]
        },
    },
    TargetGauge {
        name: "target_delay",
        unit: "seconds",
        help: "The delay in use; absent while hedging is off.",
        values: |decision, labels| {
            one(
                labels,
                decision.orders.hedging.map(|hedging| hedging.delay_ms / 1e3),
            )
        },
    },
    TargetGauge {
        name: "target_recommended_delay",
        unit: "seconds",
        help: "The delay that the percentile asks for; absent while it is unknown.",
        values: |decision, labels| one(labels, decision.recommended_ms.map(|ms| ms / 1e3)),
    },
    TargetGauge {
        name: "target_budget",
        unit: "ratio",
        help: "Hedges per call in use; absent while hedging is off.",
        values: |decision, labels| {
            one(
                labels,
                decision.orders.hedging.map(|hedging| hedging.percent / 100.0),
            )
        },
    },
    TargetGauge {
        name: "target_switch",
        unit: "",
        help: "1 for the state that the off-switch is in, 0 for the others.",
        values: |decision, labels| {
            let now = match decision.switch {
                SwitchState::Closed => "closed",
                SwitchState::Open { .. } => "open",
                SwitchState::Ramping { .. } => "ramping",
            };
            let states = ["closed", "open", "ramping"];
            states
                .map(|state| (with(labels, "state", state), truth(state == now)))
                .to_vec()
        },
    },
    TargetGauge {
        name: "target_latency",
        unit: "seconds",
        help: "Percentiles of the latency as read last; absent while it is unknown.",
        values: |decision, labels| {
            let view = &decision.latency;
            let percentiles = [("50", view.p50_ms), ("95", view.p95_ms), ("99", view.p99_ms)];
            percentiles
                .into_iter()
                .filter_map(|(percentile, ms)| Some((with(labels, "percentile", percentile), ms? / 1e3)))
                .collect()
        },
    },
    TargetGauge {
        name: "target_latency_unknown",
        unit: "",
        help: "1 while latency is unknown although there are calls enough, else 0.",
        values: |decision, labels| {
            let unknown = decision.latency.unknown.as_ref();
            let is_quiet = |reason| matches!(reason, UnknownReason::NoTraffic | UnknownReason::TooFewSamples);
            let alarms = unknown.is_some_and(|why| !is_quiet(why.reason));
            one(labels, Some(truth(alarms)))
        },
    },
    TargetGauge {
        name: "target_signal_value",
        unit: "",
        help: "The value of a saturation signal as read last; absent while it is unknown.",
        values: |decision, labels| of_signals(decision, labels, |signal| signal.value),
    },
    TargetGauge {
        name: "target_signal_off_above",
        unit: "",
        help: "The line of a saturation signal: hedging goes off above it. Absent for an alert.",
        values: |decision, labels| of_signals(decision, labels, |signal| signal.off_above),
    },
    TargetGauge {
        name: "target_signal_unknown",
        unit: "",
        help: "1 while a saturation signal is unknown, else 0.",
        values: |decision, labels| {
            of_signals(decision, labels, |signal| Some(truth(signal.unknown.is_some())))
        },
    },
    TargetGauge {
        name: "target_hedged",
        unit: "ratio",
        help: "Hedges sent per call, as clients counted them last; absent without counters.",
        values: |decision, labels| one(labels, counted(decision).and_then(WindowCounts::hedged)),
    },
    TargetGauge {
        name: "target_expected_hedged",
        unit: "ratio",
        help: "Hedges per call that delay and budget let expect; absent while latency is unknown.",
        values: |decision, labels| one(labels, decision.effect.hedge_share),
    },
    TargetGauge {
        name: "target_won",
        unit: "ratio",
        help: "The share of the hedges sent that answered first, as clients counted them last; absent without counters.",
        values: |decision, labels| one(labels, counted(decision).and_then(WindowCounts::won)),
    },
    TargetGauge {
        name: "target_missed_deadline",
        unit: "ratio",
        help: "The share of user queries that miss the deadline, with hedging as it is and without; absent while not known.",
        values: |decision, labels| {
            let effect = &decision.effect;
            let shares = [
                ("with", effect.miss_share_hedged),
                ("without", effect.miss_share_unhedged),
            ];
            let known = shares
                .into_iter()
                .filter_map(|(hedging, share)| Some((with(labels, "hedging", hedging), share?)));
            known.collect()
        },
    },
    TargetGauge {
        name: "target_low_confidence",
        unit: "",
        help: "1 while the delay deserves little confidence, else 0.",
        values: |decision, labels| one(labels, Some(truth(decision.low_confidence.is_some()))),
    },
    TargetGauge {
        name: "target_diagnosis",
        unit: "",
        help: "1 for each reason that makes hedging pay less than it could; absent for the others.",
        values: |decision, labels| {
            let diagnoses = decision.diagnoses.iter();
            diagnoses
                .map(|diagnosis| (with(labels, "reason", diagnosis.reason.as_str()), 1.0))
                .collect()
        },
    },
];

fn one(labels: &Labels, value: Option<f64>) -> Vec<(Labels, f64)> {
    value.map(|value| (labels.clone(), value)).into_iter().collect()
}

fn of_signals(
    decision: &Decision,
    labels: &Labels,
    value: fn(&SignalView) -> Option<f64>,
) -> Vec<(Labels, f64)> {
    let signals = decision.signals.iter();
    signals
        .filter_map(|signal| Some((with(labels, "signal", &signal.name), value(signal)?)))
        .collect()
}

/// What clients counted over the narrowest window in use.
fn counted(decision: &Decision) -> Option<&WindowCounts> {
    decision.counts.as_ref()?.windows.first()
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

fn with(labels: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.to_owned()));
    labels
}

impl Targets {
    pub(super) fn new(index: Index) -> Self {
        Self { index }
    }
}

impl Collector for Targets {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let targets: Vec<(Labels, Decision)> = self
            .index
            .views()
            .into_iter()
            .flat_map(|(policy, targets)| targets.into_iter().map(move |target| (policy.clone(), target)))
            .filter_map(|(policy, TargetView { name, decision, .. })| {
                let labels = vec![
                    ("namespace", policy.namespace),
                    ("policy", policy.name),
                    ("target", name),
                ];
                Some((labels, decision?))
            })
            .collect();
        for gauge in &GAUGES {
            let series: Vec<_> = targets
                .iter()
                .flat_map(|(labels, decision)| (gauge.values)(decision, labels))
                .collect();
            let values = series.iter().map(|(labels, value)| (labels, *value));
            gauges(&mut encoder, gauge.name, gauge.unit, gauge.help, values)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_tuner::{Diagnosis, DiagnosisReason};

    use super::*;
    use crate::fixtures::{at, index, policy, read, sample};

    fn values(name: &str, decision: &Decision) -> Vec<(Labels, f64)> {
        let gauge = GAUGES.iter().find(|gauge| gauge.name == name).unwrap();
        (gauge.values)(decision, &Vec::new())
    }

    fn decided() -> Decision {
        let index = index();
        sample(&index, at(0), |now| read(now, 3.0));
        index.view(&policy()).unwrap().remove(0).decision.unwrap()
    }

    #[test]
    fn the_switch_is_in_one_of_its_states() {
        let states = |decision: &Decision| -> Vec<_> {
            let values = values("target_switch", decision);
            values
                .iter()
                .map(|(labels, value)| (labels[0].1.clone(), *value))
                .collect()
        };
        let told = |closed, open, ramping| {
            [("closed", closed), ("open", open), ("ramping", ramping)]
                .map(|(state, value)| (state.to_owned(), value))
        };
        let mut decision = decided();
        decision.switch = SwitchState::Closed;
        assert_eq!(states(&decision), told(1.0, 0.0, 0.0));
        decision.switch = SwitchState::Open {
            since: at(0),
            until: None,
        };
        assert_eq!(states(&decision), told(0.0, 1.0, 0.0));
    }

    #[test]
    fn a_quiet_service_is_no_alarm() {
        let mut decision = decided();
        let mut unknown = |reason| {
            decision.latency.unknown = Some(hedgerow_tuner::Unknown::new(reason, ""));
            values("target_latency_unknown", &decision)
        };
        assert_eq!(unknown(UnknownReason::NoTraffic), [(Vec::new(), 0.0)]);
        assert_eq!(unknown(UnknownReason::TooFewSamples), [(Vec::new(), 0.0)]);
        assert_eq!(unknown(UnknownReason::MetricNotFound), [(Vec::new(), 1.0)]);
    }

    #[test]
    fn each_diagnosis_has_a_series_while_it_holds() {
        let mut decision = decided();
        assert_eq!(values("target_diagnosis", &decision), []);
        decision.diagnoses.push(Diagnosis {
            reason: DiagnosisReason::RequestBound,
            message: "9 of 400 hedges win".to_owned(),
        });
        let labels = vec![("reason", "RequestBound".to_owned())];
        assert_eq!(values("target_diagnosis", &decision), [(labels, 1.0)]);

        decision.low_confidence = None;
        assert_eq!(values("target_low_confidence", &decision), [(Vec::new(), 0.0)]);
        decision.low_confidence = Some("few samples".to_owned());
        assert_eq!(values("target_low_confidence", &decision), [(Vec::new(), 1.0)]);
    }
}
