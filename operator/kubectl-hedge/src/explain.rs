//! `kubectl hedge explain`: from the readings to the decision, and what would have to change.

mod change;

pub(crate) use self::change::{Trouble, of_policy};

use std::fmt::Write;

use hedgerow::chain::Step;
use hedgerow::exit::Outcome;
use hedgerow::print;
use hedgerow_api::{HedgePolicyStatus, SignalStatus, TargetState, TargetStatus};
use serde::Serialize;
use serde_json::Value;

use crate::cli::ExplainArgs;
use crate::leader;
use crate::output;
use crate::session::{Policy, Session, key};
use crate::status::behind;

/// What `-o json` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    policy: String,
    /// Whom it is from.
    from: String,
    /// What the leader says; `null` where it could not be asked.
    explanation: Option<Value>,
    targets: Vec<Target>,
    conditions: Vec<String>,
    status: HedgePolicyStatus,
}

/// One target.
#[derive(Debug, Serialize)]
struct Target {
    name: String,
    /// From the readings to the decision.
    chain: Vec<Step>,
    /// What would have to change.
    change: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(session: &Session, args: &ExplainArgs) -> Outcome {
    let policy = session.policy(&args.policy.name).await?;
    let asked = leader::explanation(session, &args.leader, &key(&policy)).await;
    let report = report(&policy, asked);
    if let Some(behind) = behind(&policy) {
        eprintln!("note: {behind}");
    }
    match args.policy.output {
        Some(format) => output::machine(format, &report),
        None => print::stdout(&render(&report)),
    }
}

fn report(policy: &Policy, asked: Result<(Value, String), String>) -> Report {
    let status = policy.status.clone().unwrap_or_default();
    let (explanation, from) = match asked {
        Ok((explanation, from)) => (Some(explanation), from),
        Err(why) => (
            None,
            format!("the status alone; the leading replica could not be asked: {why}"),
        ),
    };
    let targets = status.targets.iter().map(|target| Target {
        name: target.name.clone(),
        chain: explanation
            .as_ref()
            .and_then(|explanation| live_chain(explanation, &target.name))
            .unwrap_or_else(|| written_chain(target)),
        change: change::of_target(target),
    });
    Report {
        policy: key(policy).to_string(),
        from,
        targets: targets.collect(),
        conditions: of_policy(&status)
            .into_iter()
            .map(|trouble| trouble.text)
            .collect(),
        explanation,
        status,
    }
}

/// The chain of a target as the leader tells it.
fn live_chain(explanation: &Value, target: &str) -> Option<Vec<Step>> {
    let mut targets = explanation["targets"].as_array()?.iter();
    let found = targets.find(|one| one["target"] == target)?;
    serde_json::from_value(found["chain"].clone()).ok()
}

/// The chain of a target as far as its status tells it.
fn written_chain(target: &TargetStatus) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = |about: &str, text: String| steps.push(Step::new(about, text));
    let or = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    if let Some(in_use) = &target.in_use {
        step(
            "metric",
            format!(
                "{}, in {}, of each {}",
                or(&in_use.metric),
                or(&in_use.unit),
                or(&in_use.measures)
            ),
        );
    }
    let readings = target.readings.clone().unwrap_or_default();
    let at = readings
        .time
        .as_ref()
        .map_or_else(String::new, |time| format!(", read at {}", time.0));
    match (&readings.reason, readings.samples) {
        (Some(reason), _) => step(
            "latency",
            format!("unknown, {reason}: {}{at}", or(&readings.message)),
        ),
        (None, Some(samples)) => step(
            "latency",
            format!(
                "p50 {}, p95 {}, p99 {} from {samples} samples in {}{at}",
                or(&readings.p50),
                or(&readings.p95),
                or(&readings.p99),
                or(&readings.window)
            ),
        ),
        (None, None) => step("latency", "unknown: not read yet".to_owned()),
    }
    let delay = target.delay.clone().unwrap_or_default();
    step(
        "delay",
        delay
            .message
            .or(delay.applied)
            .unwrap_or_else(|| "unknown".to_owned()),
    );
    let budget = target.budget.clone().unwrap_or_default();
    let is_off = target.state.as_deref() == Some(TargetState::NotHedging.as_str());
    let now = match budget.percent {
        Some(percent) => format!("now {percent}"),
        None if is_off => "none while off".to_owned(),
        None => "what is in use is unknown".to_owned(),
    };
    let whose = match budget.limited_by.as_deref() {
        Some(_) => ", a ceiling of the source, under which perClient.minPerSecond does not count",
        None => "",
    };
    step(
        "budget",
        format!("at most {} of the calls{whose}; {now}", or(&budget.cap)),
    );
    for signal in &target.signals {
        step("signal", format!("{}: {}", signal.name, line(signal)));
    }
    step("rule", format!("{}: {}", or(&target.reason), or(&target.message)));
    if let Some(doubt) = readings.low_confidence {
        step("confidence", format!("low: {doubt}"));
    }
    for diagnosis in &target.diagnoses {
        step(
            "diagnosis",
            format!("{}: {}", diagnosis.reason, or(&diagnosis.message)),
        );
    }
    steps
}

/// What a signal said, beside its line.
fn line(signal: &SignalStatus) -> String {
    let or = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    if let Some(reason) = &signal.reason {
        let since = signal.unknown_since.as_ref();
        let since = since.map_or_else(String::new, |since| format!(" since {}", since.0));
        return format!("unknown{since}, {reason}: {}", or(&signal.message));
    }
    let saturated = if signal.saturated == Some(true) {
        " (saturated)"
    } else {
        ""
    };
    match (&signal.value, &signal.off_above) {
        (None, _) => "unknown: not read yet".to_owned(),
        (Some(value), Some(off_above)) => {
            format!(
                "{value}, off above {off_above}, back under {}{saturated}",
                or(&signal.on_below)
            )
        }
        (Some(_), None) if signal.saturated == Some(true) => format!("firing{saturated}"),
        (Some(_), None) => "not firing".to_owned(),
    }
}

fn render(report: &Report) -> String {
    let mut text = format!("{}\n", report.policy);
    let mut line = |label: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {label:<12}{value}");
    };
    line("from", &report.from);
    for condition in &report.conditions {
        line("problem", condition);
    }
    if report.targets.is_empty() {
        line("targets", "nothing is known of them yet");
    }
    for output in &report.status.outputs {
        let state = output.state.as_deref().unwrap_or("unknown");
        let by = match output.delivery.as_deref() {
            Some("Manual") => ", reaches clients by a restart or a person",
            _ => "",
        };
        line(
            "document",
            &format!("{}/{}: {state}{by}", output.config_map, output.key),
        );
    }
    for target in &report.targets {
        let _ = write!(text, "\n{} {}\n", report.policy, target.name);
        let mut line = |label: &str, value: &str| {
            let _ = writeln!(text, "  {label:<12}{value}");
        };
        for step in &target.chain {
            line(&step.about, &step.text);
        }
        for (at, change) in target.change.iter().enumerate() {
            line(if at == 0 { "to change" } else { "" }, change);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{golden, policies};

    #[test]
    fn the_status_alone_explains_what_it_can_and_says_whom_it_is_from() {
        let told: Vec<String> = policies()
            .iter()
            .map(|policy| render(&report(policy, Err("nobody holds the Lease".to_owned()))))
            .collect();
        golden("explain.txt", &told.join("\n"));
    }

    #[test]
    fn what_the_leader_says_goes_before_the_status() {
        let live = json!({ "targets": [
            { "target": "shard-read", "chain": [{ "about": "query", "text": "histogram_quantile(0.95, x)" }] },
            { "target": "faq-read", "chain": null },
        ] });
        let told = report(
            &policies()[0],
            Ok((live, "the leading replica, pod a/b".to_owned())),
        );
        assert_eq!(
            told.targets[0].chain,
            [Step::new("query", "histogram_quantile(0.95, x)")]
        );
        // Nothing is decided of it there yet.
        assert_eq!(told.targets[1].chain, written_chain(&told.status.targets[1]));
        assert!(render(&told).contains("from        the leading replica, pod a/b"));
    }
}
