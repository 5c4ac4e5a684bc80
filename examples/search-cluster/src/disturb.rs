//! What can be wrong with a replica.

use serde::Deserialize;
use tokio::sync::watch;

/// How a replica behaves now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Behaviour {
    /// Reads take this many times the usual.
    pub latency: f64,
    /// It serves data of the version before the current one, from a cache: in a tenth of the time.
    pub stale: bool,
    /// It answers 503 at once.
    pub failing: bool,
    /// It works on when its caller has given up.
    pub runs_on: bool,
    /// It stands still: reads begin when it goes on.
    pub stalled: bool,
}

/// The behaviour of a replica, changed from outside while it serves.
#[derive(Debug)]
pub(crate) struct Disturbed(watch::Sender<Behaviour>);

/// What a `POST /control` changes; what it leaves out stays.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Disturbance {
    /// Reads take this many times the usual.
    pub latency: Option<f64>,
    /// See [`Behaviour::stale`].
    pub stale: Option<bool>,
    /// See [`Behaviour::failing`].
    pub failing: Option<bool>,
    /// See [`Behaviour::runs_on`].
    pub runs_on: Option<bool>,
    /// See [`Behaviour::stalled`].
    pub stalled: Option<bool>,
    /// Bulk jobs to queue.
    pub bulk: Option<u64>,
    /// Only the replicas of this shard.
    pub shard: Option<usize>,
    /// Only these replicas of a shard.
    pub replica: Option<usize>,
}

impl Disturbance {
    /// Whether it is meant for a replica.
    pub(crate) fn concerns(&self, shard: usize, replica: usize) -> bool {
        self.shard.is_none_or(|only| only == shard) && self.replica.is_none_or(|only| only == replica)
    }

    /// # Errors
    /// What is out of range.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.latency {
            Some(factor) if !(0.01..=100.0).contains(&factor) => {
                Err(format!("latency must be from 0.01 to 100, is {factor}\n"))
            }
            _ => Ok(()),
        }
    }
}

impl Default for Disturbed {
    fn default() -> Self {
        Self(watch::Sender::new(Behaviour {
            latency: 1.0,
            stale: false,
            failing: false,
            runs_on: false,
            stalled: false,
        }))
    }
}

impl Disturbed {
    /// How it behaves now.
    pub(crate) fn now(&self) -> Behaviour {
        *self.0.borrow()
    }

    /// Waits until it does not stand still. How it behaves then.
    pub(crate) async fn goes_on(&self) -> Behaviour {
        let mut changes = self.0.subscribe();
        // It cannot end: the sender is ours.
        let going = changes.wait_for(|behaviour| !behaviour.stalled).await;
        going.map_or_else(|_| self.now(), |behaviour| *behaviour)
    }

    /// Changes what `wanted` says.
    pub(crate) fn change(&self, wanted: &Disturbance) {
        self.0.send_modify(|now| {
            *now = Behaviour {
                latency: wanted.latency.unwrap_or(now.latency),
                stale: wanted.stale.unwrap_or(now.stale),
                failing: wanted.failing.unwrap_or(now.failing),
                runs_on: wanted.runs_on.unwrap_or(now.runs_on),
                stalled: wanted.stalled.unwrap_or(now.stalled),
            };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_disturbance_leaves_out_stays() {
        let disturbed = Disturbed::default();
        disturbed.change(&Disturbance {
            stale: Some(true),
            ..Disturbance::default()
        });
        disturbed.change(&Disturbance {
            latency: Some(2.0),
            ..Disturbance::default()
        });
        let expected = Behaviour {
            latency: 2.0,
            stale: true,
            failing: false,
            runs_on: false,
            stalled: false,
        };
        assert_eq!(disturbed.now(), expected);
    }

    #[test]
    fn a_disturbance_is_for_all_replicas_or_for_those_named() {
        let of = |shard, replica| Disturbance {
            shard,
            replica,
            ..Disturbance::default()
        };
        assert!(of(None, None).concerns(3, 1));
        assert!(of(Some(3), None).concerns(3, 1));
        assert!(!of(Some(3), Some(0)).concerns(3, 1));
        assert!(!of(Some(2), None).concerns(3, 1));
    }

    #[test]
    fn a_factor_out_of_range_is_refused() {
        let of = |latency| Disturbance {
            latency: Some(latency),
            ..Disturbance::default()
        };
        assert!(of(f64::NAN).check().is_err());
        assert!(of(0.0).check().is_err());
        assert!(of(100.0).check().is_ok());
    }
}
