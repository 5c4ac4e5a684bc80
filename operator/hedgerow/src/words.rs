//! Numbers as people read them, in status, events and tables.

use std::time::Duration;

pub(crate) use hedgerow_tuner::number;
use hedgerow_tuner::{Measures, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff;

/// A duration as policies write it: `1h30m`, `90s`, `250ms`.
pub(crate) fn duration(value: Duration) -> String {
    let millis = value.as_millis();
    let parts = [
        (millis / 3_600_000, "h"),
        (millis / 60_000 % 60, "m"),
        (millis / 1000 % 60, "s"),
        (millis % 1000, "ms"),
    ];
    let text: String = parts
        .iter()
        .filter(|&&(amount, _)| amount > 0)
        .map(|(amount, unit)| format!("{amount}{unit}"))
        .collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// What one observation of a latency metric is, as policies say it.
pub(crate) fn measures(measures: Measures) -> &'static str {
    match measures {
        Measures::LogicalCall => "LogicalCall",
        Measures::Attempt { .. } => "Attempt",
        Measures::Server => "Server",
    }
}

/// Milliseconds with the digits that matter: `512ms`, `1.25ms`, `2950ms`.
pub(crate) fn millis(value: f64) -> String {
    format!("{}ms", number(value))
}

/// Hedges per 100 calls: `10%`, `2.5%`.
pub(crate) fn percent(value: f64) -> String {
    format!("{}%", number(value))
}

/// A share in `[0, 1]` as a percentage: `14.9%`, `0.8%`.
pub(crate) fn share(value: f64) -> String {
    percent(value * 100.0)
}

/// A count as a whole number; `None` for what no counter holds.
pub(crate) fn whole(value: f64) -> Option<i64> {
    // Through text, since a cast would turn what does not fit into something else.
    format!("{value:.0}").parse().ok()
}

/// A point in time as Kubernetes writes it, to the second.
pub(crate) fn time(at: Timestamp) -> Time {
    let seconds = at.as_millis().div_euclid(1000);
    Time(jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

/// Now, by the machine's clock.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

/// What concerns some of several: `2 of 5 targets: a, b`; names the first three.
pub(crate) fn concerned(names: &[String], of: usize, what: &str) -> String {
    format!("{} of {of} {what}: {}", names.len(), first_few(names))
}

/// The first three: `a; b; c; ...`.
pub(crate) fn first_few(names: &[String]) -> String {
    const NAMED: usize = 3;
    let named = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    let more = if names.len() > NAMED { "; ..." } else { "" };
    format!("{named}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_policies_write_them() {
        assert_eq!(duration(Duration::from_secs(5400)), "1h30m");
        assert_eq!(duration(Duration::from_millis(250)), "250ms");
        assert_eq!(duration(Duration::ZERO), "0s");
    }

    #[test]
    fn numbers_keep_the_digits_that_matter() {
        assert_eq!(millis(512.0), "512ms");
        assert_eq!(millis(1.25), "1.25ms");
        assert_eq!(share(0.1491), "14.9%");
        assert_eq!(share(0.008), "0.8%");
        assert_eq!(percent(100.0), "100%");
        assert_eq!(number(0.0), "0");
    }

    #[test]
    fn at_most_three_are_named() {
        let names: Vec<String> = ["a", "b", "c", "d"].map(String::from).to_vec();
        assert_eq!(concerned(&names, 5, "targets"), "4 of 5 targets: a; b; c; ...");
        assert_eq!(concerned(&names[..1], 5, "targets"), "1 of 5 targets: a");
    }
}
