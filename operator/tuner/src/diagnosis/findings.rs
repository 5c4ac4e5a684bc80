//! What the diagnoses remember.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::estimate_disagrees::Strikes;
use super::look::Outcome;
use super::no_benefit::NoBenefitState;
use super::too_slow::Usual;
use crate::Timestamp;

/// What nothing showed or refuted for so long is no longer said.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// What the diagnoses remember, for one target. Absent means never said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Findings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slow_together: Option<Said>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_bound: Option<Said>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) estimate_disagrees: Option<Said>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) too_slow: Option<Said>,
    #[serde(skip_serializing_if = "NoBenefitState::is_empty")]
    pub(super) no_benefit: NoBenefitState,
    /// Measurements that disagreed.
    #[serde(skip_serializing_if = "Strikes::is_empty")]
    pub(super) strikes: Strikes,
    /// The median that the service usually has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usual: Option<Usual>,
}

/// A diagnosis that is said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Said {
    /// Since.
    pub(super) since: Timestamp,
    /// The evidence last showed it.
    pub(super) shown: Timestamp,
}

impl Said {
    /// What is said after a look; `None` when there was nothing to look at.
    pub(super) fn after(
        before: Option<Self>,
        outcome: Option<Outcome>,
        lingers: Duration,
        now: Timestamp,
    ) -> Option<Self> {
        let stands = |longest: Duration| before.filter(|said| now.since(said.shown) < longest);
        match outcome {
            Some(Outcome::Shown) => Some(Self {
                since: before.map_or(now, |said| said.since),
                shown: now,
            }),
            Some(Outcome::Refuted) => stands(lingers),
            Some(Outcome::Unclear) | None => stands(FORGOTTEN_AFTER),
        }
    }

    pub(super) fn not_after(self, now: Timestamp) -> Self {
        Self {
            since: self.since.min(now),
            shown: self.shown.min(now),
        }
    }

    /// Without what each look moves.
    pub(super) fn state(self) -> Self {
        Self {
            shown: self.since,
            ..self
        }
    }
}

impl Findings {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it is said that the attempts of one call are slow together, because of the replicas or of the request.
    pub(crate) const fn attempts_depend(&self) -> bool {
        self.slow_together.is_some() || self.request_bound.is_some()
    }

    /// Until when hedging is off because hedges do not win.
    pub(crate) fn rests_until(&self) -> Option<Timestamp> {
        self.no_benefit.rests_until()
    }

    /// Whether hedging is off at `now` because hedges do not win.
    pub(crate) fn rests(&self, now: Timestamp) -> bool {
        self.rests_until().is_some_and(|until| now < until)
    }

    /// Whether hedging at `now` only probes whether hedges win again.
    pub(crate) fn probes(&self, now: Timestamp) -> bool {
        self.rests_until().is_some_and(|until| now >= until)
    }

    /// This, as it can be relied on at `now`.
    pub(crate) fn sane(self, now: Timestamp) -> Self {
        let settle = |said: Option<Said>| said.map(|said| said.not_after(now));
        Self {
            slow_together: settle(self.slow_together),
            request_bound: settle(self.request_bound),
            estimate_disagrees: settle(self.estimate_disagrees),
            too_slow: settle(self.too_slow),
            no_benefit: self.no_benefit.sane(now),
            strikes: self.strikes.sane(now),
            usual: self.usual.and_then(|usual| usual.sane(now)),
        }
    }

    /// This, without what readings alone move.
    pub(crate) fn states(self) -> Self {
        let state = |said: Option<Said>| said.map(Said::state);
        Self {
            slow_together: state(self.slow_together),
            request_bound: state(self.request_bound),
            estimate_disagrees: state(self.estimate_disagrees),
            too_slow: state(self.too_slow),
            no_benefit: self.no_benefit.state(),
            strikes: Strikes::default(),
            usual: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FORGOTTEN_AFTER, Said};
    use crate::Timestamp;
    use crate::diagnosis::look::Outcome;
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn what_was_shown_stands_until_it_is_refuted_and_has_lingered() {
        let start = Timestamp::from_millis(1_000_000);
        let said = Said::after(None, Some(Outcome::Shown), HOUR, start);
        let after = |outcome, later: Duration| Said::after(said, outcome, HOUR, start.plus(later));
        assert_eq!(after(Some(Outcome::Refuted), HOUR / 2), said);
        assert_eq!(after(Some(Outcome::Refuted), HOUR), None);
        assert_eq!(after(Some(Outcome::Unclear), HOUR), said);
        assert_eq!(after(None, FORGOTTEN_AFTER - HOUR), said);
        assert_eq!(after(None, FORGOTTEN_AFTER), None);
        let again = after(Some(Outcome::Shown), HOUR).unwrap();
        assert_eq!((again.since, again.shown), (start, start.plus(HOUR)));
        assert_eq!(Said::after(None, Some(Outcome::Unclear), HOUR, start), None);
    }
}
