//! What is known of each target at the moment of a scrape. Read from the index, so that the series of a deleted policy go
//! with it.

use std::fmt::Error;

use hedgerow_tuner::{Decision, SwitchState};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::waiting;
use crate::cluster::WriteQueue;
use crate::index::{Index, TargetView};

/// The targets.
#[derive(Debug)]
pub(super) struct Targets {
    index: Index,
}

/// The write queue.
#[derive(Debug)]
pub(super) struct Waiting {
    queue: WriteQueue,
}

type Labels = Vec<(&'static str, String)>;

/// A gauge of a target, and its values for one decision.
struct TargetGauge {
    /// With its unit, without the prefix.
    name: &'static str,
    help: &'static str,
    values: fn(&Decision, &Labels) -> Vec<(Labels, f64)>,
}

const GAUGES: [TargetGauge; 10] = [
    TargetGauge {
        name: "target_hedging",
        help: "1 while clients of the target are told to hedge, else 0.",
        values: |decision, labels| {
            let mut labels = labels.clone();
            labels.push(("reason", decision.reason.as_str().to_owned()));
            vec![(labels, f64::from(u8::from(decision.orders.hedging.is_some())))]
        },
    },
    TargetGauge {
        name: "target_delay_seconds",
        help: "The delay in use; absent while hedging is off.",
        values: |decision, labels| {
            one(
                labels,
                decision.orders.hedging.map(|hedging| hedging.delay_ms / 1e3),
            )
        },
    },
    TargetGauge {
        name: "target_recommended_delay_seconds",
        help: "The delay that the percentile asks for; absent while it is unknown.",
        values: |decision, labels| one(labels, decision.recommended_ms.map(|ms| ms / 1e3)),
    },
    TargetGauge {
        name: "target_budget_ratio",
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
        help: "1 for the state that the off-switch is in.",
        values: |decision, labels| {
            let state = match decision.switch {
                SwitchState::Closed => "closed",
                SwitchState::Open { .. } => "open",
                SwitchState::Ramping { .. } => "ramping",
            };
            let mut labels = labels.clone();
            labels.push(("state", state.to_owned()));
            vec![(labels, 1.0)]
        },
    },
    TargetGauge {
        name: "target_latency_seconds",
        help: "Percentiles of the latency as read last; absent while it is unknown.",
        values: |decision, labels| {
            let view = &decision.latency;
            let percentiles = [("50", view.p50_ms), ("95", view.p95_ms), ("99", view.p99_ms)];
            percentiles
                .into_iter()
                .filter_map(|(percentile, ms)| {
                    let mut labels = labels.clone();
                    labels.push(("percentile", percentile.to_owned()));
                    Some((labels, ms? / 1e3))
                })
                .collect()
        },
    },
    TargetGauge {
        name: "target_signal_value",
        help: "The value of a saturation signal as read last; absent while it is unknown.",
        values: |decision, labels| {
            let signals = decision.signals.iter();
            signals
                .filter_map(|signal| Some((with_signal(labels, &signal.name), signal.value?)))
                .collect()
        },
    },
    TargetGauge {
        name: "target_signal_unknown",
        help: "1 while a saturation signal is unknown, else 0.",
        values: |decision, labels| {
            let unknown = |signal: &hedgerow_tuner::SignalView| f64::from(u8::from(signal.unknown.is_some()));
            let signals = decision.signals.iter();
            signals
                .map(|signal| (with_signal(labels, &signal.name), unknown(signal)))
                .collect()
        },
    },
    TargetGauge {
        name: "target_low_confidence",
        help: "1 while the delay deserves little confidence, else 0.",
        values: |decision, labels| {
            let doubted = decision.low_confidence.is_some();
            one(labels, Some(f64::from(u8::from(doubted))))
        },
    },
    TargetGauge {
        name: "target_diagnosis",
        help: "1 for each reason that makes hedging pay less than it could; absent for the others.",
        values: |decision, labels| {
            let diagnoses = decision.diagnoses.iter();
            diagnoses
                .map(|diagnosis| {
                    let mut labels = labels.clone();
                    labels.push(("reason", diagnosis.reason.as_str().to_owned()));
                    (labels, 1.0)
                })
                .collect()
        },
    },
];

fn one(labels: &Labels, value: Option<f64>) -> Vec<(Labels, f64)> {
    value.map(|value| (labels.clone(), value)).into_iter().collect()
}

fn with_signal(labels: &Labels, signal: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push(("signal", signal.to_owned()));
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
            let mut family = encoder.encode_descriptor(gauge.name, gauge.help, None, MetricType::Gauge)?;
            for (labels, decision) in &targets {
                for (labels, value) in (gauge.values)(decision, labels) {
                    ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}

impl Waiting {
    pub(super) fn new(queue: WriteQueue) -> Self {
        Self { queue }
    }
}

impl Collector for Waiting {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Policies that wait to be written, by lane.";
        let mut family = encoder.encode_descriptor("queue_waiting", help, None, MetricType::Gauge)?;
        for (lane, waiting) in waiting(&self.queue) {
            ConstGauge::new(waiting).encode(family.encode_family(&[("lane", lane)])?)?;
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

    #[test]
    fn each_diagnosis_has_a_series_while_it_holds() {
        let index = index();
        sample(&index, at(0), |now| read(now, 3.0));
        let mut decision = index.view(&policy()).unwrap().remove(0).decision.unwrap();
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
