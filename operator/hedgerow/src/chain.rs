//! Why a target is decided as it is: from each query, which can be pasted into Prometheus, to the number, the bound and the
//! rule that decided. All text of it is here; `plan`, status and `/explain` show the same.

mod counted;

use hedgerow_signals::{Shown, TargetQuery};
use hedgerow_tuner::{Decision, LimitedBy, Rules, SignalView, SwitchState};
use serde::{Deserialize, Serialize};

use crate::words;

/// One step from what was read to what was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What the step is about, in a word or two.
    pub about: String,
    /// What is so.
    pub text: String,
}

impl Step {
    /// A step about something, in words.
    pub fn new(about: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            about: about.into(),
            text: text.into(),
        }
    }
}

/// The steps to a decision, in the order in which they are made.
pub(crate) fn chain(query: &TargetQuery, rules: &Rules, decision: &Decision) -> Vec<Step> {
    let window = decision.latency.window.unwrap_or(rules.windows.window);
    let shown = query.shown(rules.delay.quantile, window);
    let mut steps = Vec::new();
    let mut step = |about: &str, text: String| {
        steps.push(Step::new(about, text));
    };
    for (about, promql) in queries(&shown) {
        step(about, promql.clone());
    }
    if let Some(counts) = &decision.counts {
        for line in counted::read(counts, &shown.counts) {
            step("counted", line);
        }
        step("", counted::guidance(counts, rules, decision));
    }
    step("latency", latency(decision));
    step("bounds", bounds(rules));
    step("delay", delay(rules, decision));
    step("budget", budget(rules, decision));
    for (signal, promql) in decision.signals.iter().zip(&shown.signals) {
        step("signal", format!("{}: {promql}", signal.name));
        step("", line(signal));
    }
    step("rule", format!("{}: {}", decision.reason, decision.message));
    if let Some(doubt) = &decision.low_confidence {
        step("confidence", format!("low: {doubt}"));
    }
    for diagnosis in &decision.diagnoses {
        step(
            "diagnosis",
            format!("{}: {}", diagnosis.reason, diagnosis.message),
        );
    }
    steps
}

/// The queries behind the delay, with what each is of.
fn queries(shown: &Shown) -> impl Iterator<Item = (&str, &String)> {
    let counts = shown.counts.iter().map(|(name, promql)| (*name, Some(promql)));
    [
        ("query", shown.latency.as_ref()),
        ("cut short", shown.cancelled.as_ref()),
        ("timeouts", shown.timeouts.as_ref()),
    ]
    .into_iter()
    .chain(counts)
    .filter_map(|(about, promql)| Some((about, promql?)))
}

/// What the latency metric says.
pub(crate) fn latency(decision: &Decision) -> String {
    let view = &decision.latency;
    if let Some(why) = &view.unknown {
        return format!("unknown, {}: {}", why.reason, why.message);
    }
    let millis = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), words::millis);
    format!(
        "p50 {}, p95 {}, p99 {} from {} samples in {}",
        millis(view.p50_ms),
        millis(view.p95_ms),
        millis(view.p99_ms),
        view.samples.map_or_else(|| "-".to_owned(), words::number),
        view.window.map_or_else(|| "-".to_owned(), words::duration),
    )
}

fn bounds(rules: &Rules) -> String {
    let delay = &rules.delay;
    let deadline = rules.deadline.map_or_else(
        || "no deadline".to_owned(),
        |deadline| format!("deadline {}", words::duration(deadline)),
    );
    let add = if delay.add.is_zero() {
        String::new()
    } else {
        format!(", delay.add {}", words::duration(delay.add))
    };
    format!(
        "delay.min {}, delay.max {}{add}, {deadline}",
        words::duration(delay.min),
        words::duration(delay.max),
    )
}

/// The delay in use, what the percentile asks for, and what stands between the two.
pub(crate) fn delay(rules: &Rules, decision: &Decision) -> String {
    let percentile = format!("p{}", words::number(rules.delay.quantile * 100.0));
    let applied = decision
        .orders
        .hedging
        .map(|hedging| words::millis(hedging.delay_ms));
    let asked = decision.recommended_ms.map(words::millis);
    let between = decision
        .latency
        .percentile_ms
        .map_or_else(String::new, |(least, most)| {
            let add = rules.delay.add.as_secs_f64() * 1e3;
            let (least, most) = (words::millis(least + add), words::millis(most + add));
            format!(" (between {least} and {most} with 95% confidence)")
        });
    // The budget's limit is told with the budget.
    let limit = decision.limited_by.filter(|&limit| limit != LimitedBy::Source);
    match (applied, asked, limit) {
        (None, None, _) => "off".to_owned(),
        (None, Some(asked), _) => format!("off; {percentile} asks for {asked}{between}"),
        (Some(applied), None, _) => format!("{applied}, as it was: what {percentile} asks for is not known"),
        (Some(applied), Some(asked), Some(limit)) => {
            format!(
                "{applied}; {percentile} asks for {asked}{between}: {}",
                limited_by(limit)
            )
        }
        (Some(applied), Some(asked), None) if applied == asked => {
            format!("{applied}, as {percentile} asks{between}")
        }
        (Some(applied), Some(asked), None) => format!("{applied}; {percentile} asks for {asked}{between}"),
    }
}

/// What a limit does, in a sentence.
fn limited_by(limit: LimitedBy) -> &'static str {
    match limit {
        LimitedBy::Min => "it is raised to delay.min",
        LimitedBy::FallRate => "it falls by at most 20 % per 30 s of new samples",
        LimitedBy::LowResolution => {
            "the buckets are too wide to place it inside one, so it is at the edge of one"
        }
        LimitedBy::HoldBand => "it is kept while the share of calls that it hedges stays near what is asked",
        LimitedBy::Plateau => {
            "it is placed under a slow mode of a few per cent, where the percentile would save nothing"
        }
        LimitedBy::Source => "a ceiling of the source holds",
    }
}

fn budget(rules: &Rules, decision: &Decision) -> String {
    let cap = words::percent(rules.budget.percent);
    let whose = if rules.budget.limited_by_source {
        ", a ceiling of the source, under which perClient.minPerSecond does not count"
    } else {
        ""
    };
    let now = match (decision.orders.hedging, decision.switch) {
        (None, _) => "; none while off".to_owned(),
        (Some(hedging), SwitchState::Ramping { .. }) => {
            format!(
                "; {} of the calls while it comes back",
                words::percent(hedging.percent)
            )
        }
        (Some(_), _) => String::new(),
    };
    format!("at most {cap} of the calls{whose}{now}")
}

/// What a signal says, beside its line.
pub(crate) fn line(signal: &SignalView) -> String {
    let saturated = if signal.saturated { " (saturated)" } else { "" };
    match (&signal.unknown, signal.value, signal.off_above) {
        (Some(why), ..) => format!("unknown, {}: {}", why.reason, why.message),
        (None, Some(value), Some(off_above)) => {
            let back = signal.on_below.map_or_else(String::new, |on_below| {
                format!(", back under {}", words::number(on_below))
            });
            format!(
                "{}, off above {}{back}{saturated}",
                words::number(value),
                words::number(off_above)
            )
        }
        (None, Some(value), None) => {
            format!("{}{saturated}", if value > 0.0 { "firing" } else { "not firing" })
        }
        (None, None, _) => "not read yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_tuner::{Readings, decide_settled};

    use super::*;
    use crate::fixtures::{at, follow, read, unread, written_spec};

    /// The chain of the target of the fixtures after these readings.
    fn steps(readings: hedgerow_signals::TargetReadings) -> Vec<(String, String)> {
        let follow = follow(&written_spec());
        let target = &follow.compiled.targets[0];
        let readings = Readings {
            latency: readings.latency,
            signals: readings.signals.into_iter().map(Some).collect(),
            ..Readings::default()
        };
        let decision = decide_settled(&target.rules, &readings, at(0));
        let chain = chain(&target.query, &target.rules, &decision);
        chain.into_iter().map(|step| (step.about, step.text)).collect()
    }

    fn text_of(steps: &[(String, String)], about: &str) -> String {
        steps.iter().find(|(of, _)| of == about).unwrap().1.clone()
    }

    #[test]
    fn a_tuned_target_is_explained_from_its_query_to_its_rule() {
        let steps = steps(read(at(0), 3.0));
        assert_eq!(
            text_of(&steps, "query"),
            r#"histogram_quantile(0.95, sum by (le) (increase(shard_read_duration_seconds_bucket{index="kb"}[10m])))"#
        );
        let latency = text_of(&steps, "latency");
        assert!(
            latency.contains("p95 500ms") && latency.ends_with("from 10000 samples in 10m"),
            "{latency}"
        );
        assert_eq!(
            text_of(&steps, "bounds"),
            "delay.min 1ms, delay.max 1s, deadline 1s"
        );
        // Of 10,000 calls 1.96 sqrt(0.95 x 0.05 / 10,000) = 0.427 %: 94.573 and 95.427 % are at 0.25 + 0.25 x 2457.3 / 2500 and
        // at 0.5 + 0.5 x 42.7 / 450 s.
        assert_eq!(
            text_of(&steps, "delay"),
            "500ms, as p95 asks (between 496ms and 547ms with 95% confidence)"
        );
        assert_eq!(text_of(&steps, "budget"), "at most 10% of the calls");
        assert_eq!(text_of(&steps, "signal"), "queue: shard_queue_depth");
        assert_eq!(text_of(&steps, ""), "3, off above 50, back under 35");
        assert!(text_of(&steps, "rule").starts_with("Tuned: "));
    }

    #[test]
    fn what_the_percentile_is_between_has_the_network_added_as_the_delay_has() {
        let mut spec = written_spec();
        spec["targets"][0]["delay"] = serde_json::json!({ "add": "20ms" });
        let follow = follow(&spec);
        let rules = &follow.compiled.targets[0].rules;
        let readings = read(at(0), 3.0);
        let readings = Readings {
            latency: readings.latency,
            signals: readings.signals.into_iter().map(Some).collect(),
            ..Readings::default()
        };
        let told = delay(rules, &decide_settled(rules, &readings, at(0)));
        assert_eq!(
            told,
            "520ms, as p95 asks (between 516ms and 567ms with 95% confidence)"
        );
    }

    #[test]
    fn what_is_unknown_is_said_and_never_a_number() {
        let steps = steps(unread(at(0)));
        assert!(text_of(&steps, "latency").starts_with("unknown, Unavailable: "));
        assert!(text_of(&steps, "").starts_with("unknown, Unavailable: "));
        assert_eq!(text_of(&steps, "delay"), "off");
    }

    #[test]
    fn every_limit_is_told_in_words() {
        for limit in LimitedBy::ALL {
            assert!(limited_by(*limit).len() > 20);
        }
    }
}
