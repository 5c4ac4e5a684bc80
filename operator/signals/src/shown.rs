//! Queries for people: what a target reads, one query a thing, to be pasted into Prometheus. The reader itself asks for many
//! targets at once; these say the same of one.

use std::time::Duration;

use crate::{
    Counter, LatencyQuery, Operator, Requirement, Selector, SignalKind, SignalQuery, TargetQuery, promql,
};

/// The queries of one target, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The quantile of the latency, in the unit of the metric.
    pub latency: Option<String>,
    /// Attempts that were cut short.
    pub cancelled: Option<String>,
    /// Calls that timed out and never entered the histogram.
    pub timeouts: Option<String>,
    /// Each counter that clients export, with its name: `calls`, `hedges`, `blocked`, `wins`.
    pub counts: Vec<(&'static str, String)>,
    /// What each saturation signal compares with its line, in order.
    pub signals: Vec<String>,
}

impl TargetQuery {
    /// The queries for the `quantile` in `[0, 1]` of the latency and for all else, counted over `window`.
    pub fn shown(&self, quantile: f64, window: Duration) -> Shown {
        let writer = Writer {
            enforced: self.enforced.as_ref(),
            window,
        };
        let mut shown = Shown {
            signals: self.signals.iter().map(|signal| writer.signal(signal)).collect(),
            ..Shown::default()
        };
        if let Some(latency) = &self.latency {
            shown.latency = Some(writer.quantile(latency, quantile));
            shown.cancelled = writer.cancelled(latency);
            shown.timeouts = latency
                .timeouts
                .as_ref()
                .map(|counter| writer.increase(counter, window));
        }
        if let Some(counts) = &self.counts {
            let counters = [
                ("calls", Some(&counts.calls)),
                ("hedges", Some(&counts.hedges)),
                ("blocked", counts.blocked.as_ref()),
                ("wins", counts.wins.as_ref()),
            ];
            let given = counters
                .into_iter()
                .filter_map(|(name, counter)| Some((name, counter?)));
            shown.counts = given
                .map(|(name, counter)| (name, writer.increase(counter, window)))
                .collect();
        }
        shown
    }
}

/// Writes the queries of one target.
struct Writer<'a> {
    enforced: Option<&'a (String, String)>,
    window: Duration,
}

impl Writer<'_> {
    fn quantile(&self, latency: &LatencyQuery, quantile: f64) -> String {
        let left_out = latency.outcomes.as_ref().and_then(|outcomes| {
            let values: Vec<_> = outcomes
                .cancelled
                .iter()
                .chain(&outcomes.ignored)
                .cloned()
                .collect();
            (!values.is_empty()).then(|| {
                promql::requirement(&Requirement {
                    key: outcomes.label.clone(),
                    operator: Operator::NotIn,
                    values,
                })
            })
        });
        let buckets = self.selector(&format!("{}_bucket", latency.metric), &latency.selector, left_out);
        let window = promql::duration(self.window);
        format!("histogram_quantile({quantile}, sum by (le) (increase({buckets}[{window}])))")
    }

    fn cancelled(&self, latency: &LatencyQuery) -> Option<String> {
        let outcomes = latency
            .outcomes
            .as_ref()
            .filter(|outcomes| !outcomes.cancelled.is_empty())?;
        let values: Vec<_> = outcomes.cancelled.iter().map(String::as_str).collect();
        let cut_short = promql::is_one_of(&outcomes.label, &values);
        let count = self.selector(
            &format!("{}_count", latency.metric),
            &latency.selector,
            Some(cut_short),
        );
        Some(format!(
            "sum(increase({count}[{}]))",
            promql::duration(self.window)
        ))
    }

    fn signal(&self, signal: &SignalQuery) -> String {
        match &signal.kind {
            SignalKind::Gauge { metric, selector } => self.selector(metric, selector, None),
            SignalKind::Rate {
                of,
                window,
                per: None,
            } => {
                let series = self.selector(&of.metric, &of.selector, None);
                format!("rate({series}[{}])", promql::duration(*window))
            }
            SignalKind::Rate {
                of,
                window,
                per: Some(per),
            } => format!("{} / {}", self.increase(of, *window), self.increase(per, *window)),
            SignalKind::Alert { name } => {
                let labels = [("alertname", name.as_str()), ("alertstate", "firing")];
                let selector = Selector {
                    match_labels: labels
                        .map(|(label, value)| (label.to_owned(), value.to_owned()))
                        .into(),
                    requirements: Vec::new(),
                };
                self.selector("ALERTS", &selector, None)
            }
        }
    }

    fn increase(&self, counter: &Counter, window: Duration) -> String {
        let series = self.selector(&counter.metric, &counter.selector, None);
        format!("sum(increase({series}[{}]))", promql::duration(window))
    }

    fn selector(&self, metric: &str, selector: &Selector, further: Option<String>) -> String {
        let enforced = self
            .enforced
            .map(|(label, value)| promql::is_one_of(label, &[value]));
        let labels = selector
            .match_labels
            .iter()
            .map(|(label, value)| promql::is_one_of(label, &[value]));
        let requirements = selector.requirements.iter().map(promql::requirement);
        let matchers: Vec<String> = enforced
            .into_iter()
            .chain(labels)
            .chain(requirements)
            .chain(further)
            .collect();
        promql::selector(metric, &matchers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CountsQuery, Outcomes, Unit};

    const TEN_MINUTES: Duration = Duration::from_secs(600);

    fn labels(pairs: &[(&str, &str)]) -> Selector {
        Selector {
            match_labels: pairs
                .iter()
                .map(|&(label, value)| (label.to_owned(), value.to_owned()))
                .collect(),
            requirements: Vec::new(),
        }
    }

    fn counter(metric: &str) -> Counter {
        Counter {
            metric: metric.to_owned(),
            selector: labels(&[("index", "kb")]),
            zero_when_absent: None,
        }
    }

    fn target() -> TargetQuery {
        TargetQuery {
            latency: Some(LatencyQuery {
                metric: "attempt_seconds".to_owned(),
                selector: labels(&[("index", "k\"b")]),
                unit: Unit::Seconds,
                windows: vec![TEN_MINUTES],
                outcomes: None,
                timeouts: Some(counter("timeouts_total")),
            }),
            ..TargetQuery::default()
        }
    }

    #[test]
    fn the_latency_is_a_quantile_of_summed_increases() {
        let shown = target().shown(0.95, TEN_MINUTES);
        assert_eq!(
            shown.latency.unwrap(),
            r#"histogram_quantile(0.95, sum by (le) (increase(attempt_seconds_bucket{index="k\"b"}[10m])))"#
        );
        assert_eq!(
            shown.timeouts.unwrap(),
            r#"sum(increase(timeouts_total{index="kb"}[10m]))"#
        );
        assert_eq!(shown.cancelled, None);
    }

    #[test]
    fn outcomes_are_left_out_and_the_cancelled_counted_apart() {
        let mut target = target();
        target.latency.as_mut().unwrap().outcomes = Some(Outcomes {
            label: "status".to_owned(),
            cancelled: vec!["499".to_owned()],
            ignored: vec!["50.".to_owned()],
        });
        let shown = target.shown(0.5, TEN_MINUTES);
        assert!(
            shown
                .latency
                .unwrap()
                .contains(r#"{index="k\"b",status!~"499|50\\."}"#)
        );
        assert_eq!(
            shown.cancelled.unwrap(),
            r#"sum(increase(attempt_seconds_count{index="k\"b",status="499"}[10m]))"#
        );
    }

    #[test]
    fn each_kind_of_signal_is_shown_as_it_is_compared() {
        let query = |kind| SignalQuery {
            kind,
            zero_when_absent: None,
        };
        let mut gauge = labels(&[]);
        gauge.requirements.push(Requirement {
            key: "zone".to_owned(),
            operator: Operator::NotIn,
            values: vec!["a".to_owned()],
        });
        let window = Duration::from_secs(120);
        let target = TargetQuery {
            enforced: Some(("namespace".to_owned(), "helpdesk".to_owned())),
            counts: Some(CountsQuery {
                calls: counter("calls_total"),
                hedges: counter("hedges_total"),
                blocked: None,
                wins: Some(counter("wins_total")),
                windows: vec![TEN_MINUTES],
            }),
            signals: vec![
                query(SignalKind::Gauge {
                    metric: "depth".to_owned(),
                    selector: gauge,
                }),
                query(SignalKind::Rate {
                    of: counter("rejected_total"),
                    window,
                    per: None,
                }),
                query(SignalKind::Rate {
                    of: counter("rejected_total"),
                    window,
                    per: Some(counter("calls_total")),
                }),
                query(SignalKind::Alert {
                    name: "Down".to_owned(),
                }),
            ],
            ..TargetQuery::default()
        };
        let shown = target.shown(0.95, TEN_MINUTES);
        let of = r#"{namespace="helpdesk",index="kb"}"#;
        assert_eq!(
            shown.signals,
            [
                r#"depth{namespace="helpdesk",zone!="a"}"#.to_owned(),
                format!("rate(rejected_total{of}[2m])"),
                format!("sum(increase(rejected_total{of}[2m])) / sum(increase(calls_total{of}[2m]))"),
                r#"ALERTS{namespace="helpdesk",alertname="Down",alertstate="firing"}"#.to_owned(),
            ]
        );
        let names: Vec<_> = shown.counts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["calls", "hedges", "wins"]);
    }
}
