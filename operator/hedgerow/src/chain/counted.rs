//! What clients counted of their hedges, as text.

use std::time::Duration;

use hedgerow_tuner::{CountsView, Decision, Guidance, Measured, Rules, WindowCounts};

use crate::words;

/// A line for each window that was used, or why there is none. Of `named` are the counters that the policy names.
pub(super) fn read(view: &CountsView, named: &[(&'static str, String)]) -> Vec<String> {
    if let Some(why) = &view.unknown {
        return vec![format!("unknown, {}: {}", why.reason, why.message)];
    }
    let is_named = |name: &str| named.iter().any(|(counter, _)| *counter == name);
    let number = |name: &str, counted: Option<f64>| match counted {
        Some(counted) => format!("{} {name}", words::number(counted)),
        None if is_named(name) => format!("{name} not known"),
        None => format!("{name} not counted"),
    };
    let window = |counts: &WindowCounts| {
        let hedged = if counts.calls > 0.0 {
            format!(" ({})", words::share(counts.hedges / counts.calls))
        } else {
            String::new()
        };
        format!(
            "{} calls, {} hedges{hedged}, {}, {} in {}",
            words::number(counts.calls),
            words::number(counts.hedges),
            number("blocked", counts.blocked),
            number("wins", counts.wins),
            words::duration(counts.window),
        )
    };
    view.windows.iter().map(window).collect()
}

/// What the delay makes of it.
pub(super) fn guidance(view: &CountsView, rules: &Rules, decision: &Decision) -> String {
    let patience = words::duration(rules.max_staleness);
    let last = view.measured.map_or_else(String::new, |measured| {
        format!(
            "; last measured at {}{}",
            words::time(measured.at).0,
            measurement(&measured, false)
        )
    });
    match (view.guidance, view.measured) {
        (Guidance::Measured, Some(measured)) => {
            let is_on = decision.orders.hedging.is_some();
            format!("measured{}", measurement(&measured, is_on))
        }
        (Guidance::Unknown, _) => {
            format!("unknown for {patience} or longer: the delay gets no shorter{last}")
        }
        (Guidance::Quiet, _) => {
            format!("quiet: too few calls to measure by, so buckets place the delay{last}")
        }
        _ if view.unknown.is_some() => {
            format!("unknown for less than {patience}: they hold the delay as it is{last}")
        }
        _ => {
            format!("known, and not measured: that takes enough calls that followed the last document{last}")
        }
    }
}

/// What was measured, after `measured`; that the delay `stays`, where that is so.
fn measurement(measured: &Measured, stays: bool) -> String {
    let delay = words::millis(measured.delay_ms);
    let asked = measured.asked.map_or_else(String::new, |asked| {
        format!(", {} are asked for", words::share(asked))
    });
    let moved = match measured.moved_to_ms {
        Some(moved_to) => {
            let by = (moved_to / measured.delay_ms - 1.0) * 100.0;
            let sign = if by > 0.0 { "+" } else { "" };
            format!(
                ": moved to {} ({sign}{})",
                words::millis(moved_to),
                words::percent(by)
            )
        }
        None if stays => ": not moved".to_owned(),
        None => String::new(),
    };
    format!(
        " over {}: {} of the calls passed {delay}{asked}{moved}",
        words::duration(Duration::from_millis(measured.window_ms)),
        words::share(measured.share),
    )
}

#[cfg(test)]
mod tests {
    use hedgerow_tuner::{Counts, Memory, Readings, Unknown, UnknownReason, decide};

    use super::*;
    use crate::chain::chain;
    use crate::fixtures::{at, counted_spec, follow, read_hedged};

    /// What is told of counters after `counts` were read, 690 s after a document from which clients hedge at 500 ms.
    fn told(counts: Result<WindowCounts, Unknown>) -> Vec<String> {
        let follow = follow(&counted_spec());
        let target = &follow.compiled.targets[0];
        let mut memory = Memory::default();
        let mut decision = None;
        for second in (0..=1500).step_by(30) {
            let now = at(second);
            let read = read_hedged(now, true);
            let mut readings = Readings {
                latency: read.latency,
                counts: Some(Counts {
                    at: now,
                    windows: Err(Unknown::new(UnknownReason::Unavailable, "no answer")),
                }),
                signals: read.signals.into_iter().map(Some).collect(),
                ..Readings::default()
            };
            if second == 1500 {
                readings.counts.as_mut().unwrap().windows = counts.clone().map(|counts| vec![counts]);
            }
            let (decided, remembered) = decide(&target.rules, &memory, &readings, now);
            memory = remembered;
            decision = Some(decided);
        }
        let steps = chain(&target.query, &target.rules, &decision.unwrap());
        let from = steps.iter().position(|step| step.about == "counted").unwrap();
        steps[from..from + 2]
            .iter()
            .map(|step| step.text.clone())
            .collect()
    }

    fn counts(calls: f64, hedges: f64, blocked: Option<f64>) -> WindowCounts {
        WindowCounts {
            window: Duration::from_secs(600),
            calls,
            hedges,
            blocked,
            wins: None,
        }
    }

    #[test]
    fn what_was_counted_stands_beside_its_queries_with_what_the_delay_makes_of_it() {
        assert_eq!(
            told(Ok(counts(10_000.0, 500.0, Some(0.0)))),
            [
                "10000 calls, 500 hedges (5%), 0 blocked, wins not counted in 10m",
                "measured over 10m: 5% of the calls passed 500ms, 5% are asked for: not moved",
            ]
        );
        // 8 % passed: 0.3 ln 1.6 = 0.141, and 500 e^0.141 = 575.71.
        assert_eq!(
            told(Ok(counts(10_000.0, 600.0, Some(200.0)))),
            [
                "10000 calls, 600 hedges (6%), 200 blocked, wins not counted in 10m",
                "measured over 10m: 8% of the calls passed 500ms, 5% are asked for: moved to 576ms (+15.2%)",
            ]
        );
    }

    #[test]
    fn one_counter_that_is_not_known_is_said_and_none_is_no_number() {
        let told_of = |blocked| told(Ok(counts(10_000.0, 500.0, blocked))).swap_remove(0);
        assert_eq!(
            told_of(None),
            "10000 calls, 500 hedges (5%), blocked not known, wins not counted in 10m"
        );
        assert_eq!(told_of(Some(f64::NAN)), told_of(None));
    }

    #[test]
    fn what_is_unknown_or_too_little_says_what_becomes_of_the_delay() {
        let unknown = told(Err(Unknown::new(UnknownReason::Timeout, "no answer in 10s")));
        assert_eq!(
            unknown,
            [
                "unknown, Timeout: no answer in 10s",
                "unknown for 5m or longer: the delay gets no shorter",
            ]
        );
        assert_eq!(
            told(Ok(counts(100.0, 5.0, Some(0.0)))),
            [
                "100 calls, 5 hedges (5%), 0 blocked, wins not counted in 10m",
                "quiet: too few calls to measure by, so buckets place the delay",
            ]
        );
        assert_eq!(
            told(Ok(counts(0.0, 0.0, Some(0.0))))[0],
            "0 calls, 0 hedges, 0 blocked, wins not counted in 10m"
        );
        assert_eq!(
            told(Ok(counts(700.0, 35.0, Some(0.0))))[1],
            "known, and not measured: that takes enough calls that followed the last document"
        );
    }
}
