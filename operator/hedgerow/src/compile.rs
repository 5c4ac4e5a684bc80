//! From what a policy says to what is read and decided: defaults filled in, the source's ceilings applied. Shared by `run`
//! and `plan`. Pure.

use std::time::Duration;

use hedgerow_api as api;
use hedgerow_config::Limits;
use hedgerow_signals::{Counter, CountsQuery, SignalKind, SignalQuery, TargetQuery};
use hedgerow_tuner::{
    Budget, Delay, Line, Mode, NoBenefit, Plateau, Rules, SignalRules, SwitchRules, Windows,
};

use crate::settings::{Ceilings, DeclaredSource};

mod latency;
mod selector;

use latency::{latency, measures, metric, unit};
use selector::{counter, selector, witness};

/// A policy, ready to be read and decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// The source to read from.
    pub source: String,
    /// How often latency is read.
    pub interval: Duration,
    /// How often the saturation signals are read and the switch is evaluated.
    pub saturation_interval: Duration,
    /// How long documents hold; `None`: for ever.
    pub expiry: Option<Duration>,
    /// The targets, in the order of the policy.
    pub targets: Vec<Target>,
}

/// A target, ready to be read and decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// What is decided by.
    pub rules: Rules,
    /// What a policy fixes for its clients.
    pub limits: Limits,
    /// What is read; the windows are those for a target that nothing is known of.
    pub query: TargetQuery,
}

/// A field whose text is no number or duration. Never for a spec that passed [`api::validate`].
#[derive(Debug, thiserror::Error)]
#[error("a value of the spec is {0}")]
pub struct Malformed(String);

impl From<api::text::NotADuration> for Malformed {
    fn from(why: api::text::NotADuration) -> Self {
        Self(why.to_string())
    }
}

impl From<api::text::NotADecimal> for Malformed {
    fn from(why: api::text::NotADecimal) -> Self {
        Self(why.to_string())
    }
}

/// Compiles the `spec` of a policy in `namespace`, which was validated, within the ceilings of its source.
///
/// # Errors
/// When a text is no number or duration.
pub fn compile(
    spec: &api::HedgePolicySpec,
    namespace: &str,
    source: &DeclaredSource,
    propagation: Duration,
) -> Result<Compiled, Malformed> {
    let ceilings = &source.ceilings;
    let saturation_interval = at_least(
        spec.saturation_interval.parse()?,
        ceilings.min_saturation_interval,
    );
    let interval = at_least(spec.interval.parse()?, ceilings.min_interval).max(saturation_interval);
    let enforced = source
        .namespace_label
        .as_ref()
        .map(|label| (label.clone(), namespace.to_owned()));
    let policy = Policy {
        mode: mode(spec.mode),
        max_staleness: spec.max_staleness_in_use()?.max(interval.saturating_mul(2)),
        propagation,
        ceilings,
        enforced,
    };
    Ok(Compiled {
        source: source.settings.name.clone(),
        interval,
        saturation_interval,
        expiry: spec.expiry.parse()?,
        targets: spec
            .targets
            .iter()
            .map(|target| policy.target(target))
            .collect::<Result<_, _>>()?,
    })
}

/// What holds for every target of a policy.
struct Policy<'a> {
    mode: Mode,
    max_staleness: Duration,
    propagation: Duration,
    ceilings: &'a Ceilings,
    enforced: Option<(String, String)>,
}

impl Policy<'_> {
    fn target(&self, written: &api::Target) -> Result<Target, Malformed> {
        let target = &*written.written_out();
        let rules = self.rules(target)?;
        let signals = target
            .saturation
            .signals
            .iter()
            .map(|signal| self.signal_query(signal));
        let windows = vec![rules.windows.window];
        Ok(Target {
            name: target.name.to_string(),
            limits: Limits {
                deadline: rules.deadline,
                max_attempts: rules.budget.max_attempts,
                max_concurrent: rules.budget.max_concurrent,
            },
            query: TargetQuery {
                enforced: self.enforced.clone(),
                counts: target.hedging.as_ref().map(|counters| counts(counters, &windows)),
                latency: Some(latency(&target.latency, windows)?),
                signals: signals.collect::<Result<_, _>>()?,
            },
            rules,
        })
    }

    fn rules(&self, target: &api::Target) -> Result<Rules, Malformed> {
        let latency = &target.latency;
        let budget = &target.budget;
        let own_percent = budget.percent.parse()?;
        let own_per_second: f64 = budget.per_client.min_per_second.parse()?;
        // A ceiling is a share of calls, and what is paid by the second knows no calls.
        let (percent, min_per_second) = match self.ceilings.max_budget_percent {
            Some(most) => (own_percent.min(most), 0.0),
            None => (own_percent, own_per_second),
        };
        let at_most = |window: Duration| self.ceilings.max_window.map_or(window, |most| window.min(most));
        let window = at_most(latency.window.parse()?);
        let lines = target.saturation.signals.iter().map(line);
        Ok(Rules {
            mode: self.mode,
            measure: format!("{}/{:?}", metric(latency)?, unit(latency)?),
            measures: measures(latency)?,
            counted: target.hedging.is_some(),
            no_benefit: match target.no_benefit {
                api::NoBenefit::Report => NoBenefit::Report,
                api::NoBenefit::Disable => NoBenefit::Disable,
            },
            deadline: target
                .deadline
                .as_ref()
                .map(|deadline| deadline.parse())
                .transpose()?,
            fan_out: target
                .fan_out
                .map(|fan_out| whole("fanOut", fan_out))
                .transpose()?,
            delay: Delay {
                quantile: target.delay.quantile()?,
                min: target.delay.min.parse()?,
                max: target.delay_max_in_use()?,
                add: target.delay.add.parse()?,
                plateau: match target.delay.plateau {
                    api::Plateau::Follow => Plateau::Follow,
                    api::Plateau::Ignore => Plateau::Ignore,
                },
            },
            budget: Budget {
                percent,
                limited_by_source: percent < own_percent || min_per_second < own_per_second,
                max_attempts: whole("budget.maxAttempts", budget.max_attempts)?,
                max_concurrent: whole("budget.perClient.maxConcurrent", budget.per_client.max_concurrent)?,
                min_per_second,
            },
            windows: Windows {
                window,
                max_window: at_most(latency.max_window.parse()?).max(window),
                min_samples: target.min_samples_in_use()?,
                low_confidence: target.has_few_samples()?,
            },
            switch: SwitchRules {
                signals: lines.collect::<Result<_, _>>()?,
                max_unknown: target.saturation.max_unknown.parse()?,
                cooldown: target.saturation.cooldown.parse()?,
                ramp_step: target.saturation.ramp_step.parse()?,
            },
            max_staleness: self.max_staleness,
            propagation: self.propagation,
        })
    }

    fn signal_query(&self, signal: &api::Signal) -> Result<SignalQuery, Malformed> {
        let series = || selector(&signal.match_labels, &signal.match_expressions);
        let zero_when_absent = signal.zero_when_absent.as_ref().map(witness);
        let kind = match (&signal.metric, &signal.rate_of, &signal.alert) {
            (Some(metric), ..) => SignalKind::Gauge {
                metric: metric.to_string(),
                selector: series(),
            },
            (None, Some(rate_of), _) => SignalKind::Rate {
                of: Counter {
                    metric: rate_of.to_string(),
                    selector: series(),
                    zero_when_absent: zero_when_absent.clone(),
                },
                window: {
                    let window = signal.window_in_use()?;
                    self.ceilings.max_window.map_or(window, |most| window.min(most))
                },
                per: signal.per.as_ref().map(counter),
            },
            (None, None, Some(alert)) => SignalKind::Alert {
                name: alert.to_string(),
            },
            (None, None, None) => return Err(Malformed(format!("signal {} without a kind", signal.name))),
        };
        Ok(SignalQuery {
            kind,
            zero_when_absent,
        })
    }
}

fn line(signal: &api::Signal) -> Result<SignalRules, Malformed> {
    let on_below = signal.on_below_in_use()?;
    let line = match (&signal.off_above, on_below) {
        (Some(off_above), Some(on_below)) => Line::Value {
            off_above: off_above.parse()?,
            on_below,
            at_least: signal
                .at_least
                .map(|at_least| whole("atLeast", at_least))
                .transpose()?,
        },
        _ => Line::Alert,
    };
    Ok(SignalRules {
        name: signal.name.to_string(),
        line,
    })
}

/// A number that is counted.
fn whole<N: TryFrom<i32>>(field: &str, value: i32) -> Result<N, Malformed> {
    N::try_from(value).map_err(|_| Malformed(format!("out of range: {field} is {value}")))
}

fn mode(mode: api::Mode) -> Mode {
    match mode {
        api::Mode::Enforce => Mode::Enforce,
        api::Mode::Observe => Mode::Observe,
        api::Mode::Disabled => Mode::Disabled,
    }
}

fn counts(counters: &api::HedgingCounters, windows: &[Duration]) -> CountsQuery {
    CountsQuery {
        calls: counter(&counters.calls),
        hedges: counter(&counters.hedges),
        blocked: counters.blocked.as_ref().map(counter),
        wins: counters.wins.as_ref().map(counter),
        windows: windows.to_vec(),
    }
}

fn at_least(value: Duration, floor: Option<Duration>) -> Duration {
    floor.map_or(value, |floor| value.max(floor))
}

#[cfg(test)]
mod tests;
