//! What is done to the servers.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

/// How the servers are before and after: the help desk's latency times 0.4, so that 9 % of the unhedged queries are late.
const USUAL: &str = "latency=0.4";
/// The 95th percentile of a read at that latency: what a careful programmer writes into a static delay.
const USUAL_P95: Duration = Duration::from_millis(200);

/// A case in which hedging can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    /// One replica of the 16 takes ten times as long.
    SlowReplica,
    /// All replicas stand still at the same moments: hedging cannot help.
    SlowTogether,
    /// One replica answers early, with old data.
    StaleReplica,
    /// One replica answers 503 at once.
    FirstError,
    /// Cancellation is not honoured: losers run on to their end.
    LosersRunOn,
    /// All replicas take 1.8 times as long for 15 s, with little capacity to spare: queues grow.
    BrownOut,
}

/// What happens to the servers of each way in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    /// They are disturbed once.
    Once(&'static str),
    /// They are disturbed for a moment, again and again, from the first query on: that is how this service is, and not what
    /// becomes of it.
    Bouts {
        how: &'static str,
        lasts: Duration,
        every: Duration,
    },
}

impl Scenario {
    /// As the command line and the policies say it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SlowReplica => "slow-replica",
            Self::SlowTogether => "slow-together",
            Self::StaleReplica => "stale-replica",
            Self::FirstError => "first-error",
            Self::LosersRunOn => "losers-run-on",
            Self::BrownOut => "brown-out",
        }
    }

    /// What is done, for people.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::SlowReplica => "one replica of 16 takes ten times as long",
            Self::SlowTogether => {
                "all replicas stand still at the same moments, 0.15 s of each 6, as on a disk that they share"
            }
            Self::StaleReplica => "one replica of 16 answers in a tenth of the time, with old data",
            Self::FirstError => "one replica of 16 answers 503 at once",
            Self::LosersRunOn => {
                "cancellation is not honoured: reads run on to their end; 2 reads at a time per replica"
            }
            Self::BrownOut => {
                "all replicas take 1.8 times as long for 15 s; 2 reads at a time per replica, so that queues grow"
            }
        }
    }

    /// How the servers are before and after.
    pub(crate) const fn usual(self) -> &'static str {
        match self {
            // Stalls are to be longer than any delay.
            Self::SlowTogether => "stalled=false&latency=0.02",
            _ => USUAL,
        }
    }

    /// The 95th percentile of a read then.
    pub(crate) const fn usual_p95(self) -> Duration {
        match self {
            Self::SlowTogether => Duration::from_millis(10),
            _ => USUAL_P95,
        }
    }

    /// Reads that a replica serves at a time.
    pub(crate) const fn slots(self) -> u16 {
        match self {
            Self::LosersRunOn | Self::BrownOut => 2,
            _ => 128,
        }
    }

    /// What is done while it is measured.
    pub(crate) const fn injection(self) -> Injection {
        match self {
            Self::SlowReplica => Injection::Once("latency=4&shard=0&replica=0"),
            Self::SlowTogether => Injection::Bouts {
                how: "stalled=true",
                // Longer than the delay, so that a hedge finds the other replica still too; and so short that the budget bears
                // most of the hedges of one: what is kept back hides what it would have found. A minute, which is the window,
                // holds 10 of them at any time: so the delay rests.
                lasts: Duration::from_millis(150),
                every: Duration::from_secs(6),
            },
            Self::StaleReplica => Injection::Once("stale=true&shard=0&replica=0"),
            Self::FirstError => Injection::Once("failing=true&shard=0&replica=0"),
            Self::LosersRunOn => Injection::Once("runs_on=true"),
            Self::BrownOut => Injection::Once("latency=0.72"),
        }
    }

    /// For how long it is measured.
    pub(crate) const fn lasts(self) -> Duration {
        Duration::from_secs(match self {
            Self::SlowReplica => 40,
            Self::SlowTogether => 90,
            Self::BrownOut => 15,
            _ => 30,
        })
    }

    /// When it is over: how long to wait, and how long to measure then.
    pub(crate) const fn aftermath(self) -> Option<(Duration, Duration)> {
        match self {
            Self::BrownOut => Some((Duration::from_secs(30), Duration::from_secs(15))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for scenario in Scenario::value_variants() {
            let told = scenario.to_possible_value().unwrap();
            assert_eq!(told.get_name(), scenario.name());
        }
    }

    #[test]
    fn all_of_it_is_played_in_under_ten_minutes() {
        // A warm-up of up to 45 s that is 20 s as a rule, and about 5 s to start and to stop each.
        let seconds: u64 = Scenario::value_variants()
            .iter()
            .map(|one| {
                let after = one
                    .aftermath()
                    .map_or(0, |(wait, measure)| (wait + measure).as_secs());
                25 + one.lasts().as_secs() + after
            })
            .sum();
        assert!(seconds + 60 < 600, "{seconds}");
    }
}
