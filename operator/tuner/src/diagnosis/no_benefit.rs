//! Hedges that do not win, and how they are tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::findings::Said;
use super::look::Outcome;
use super::{LINGERS, may_disable};
use crate::tally::Tally;
use crate::{NoBenefit, Timestamp, messages};

/// Fewer hedges show nothing.
pub(super) const HEDGES: f64 = 200.0;
/// Hedges that win less often than this are not worth their cost.
const WORTH: f64 = 0.05;
/// Hedges are counted back this far.
pub(super) const FURTHEST: Duration = Duration::from_secs(24 * 3600);
/// Hedging is off for so long before it is probed ...
const FIRST_REST: Duration = Duration::from_secs(6 * 3600);
/// ... twice as long after each probe that shows the same ...
const LONGEST_DOUBLING: u8 = 2;

/// What is known of hedges that do not win.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NoBenefitState {
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<Said>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rest: Option<Rest>,
    /// Hedges sent before this are no evidence: a probe showed otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<Timestamp>,
}

/// Hedging is off, or probed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rest {
    /// Off since.
    since: Timestamp,
    /// How often the time until the next probe is doubled.
    #[serde(default)]
    doublings: u8,
    /// The hedges that it went off by ...
    #[serde(default)]
    hedges: u32,
    /// ... and how many of them won.
    #[serde(default)]
    wins: u32,
}

impl Rest {
    fn new(tally: &Tally, doublings: u8, now: Timestamp) -> Self {
        let whole = |number: f64| number.round().min(f64::from(u32::MAX)) as u32;
        Self {
            since: now,
            doublings: doublings.min(LONGEST_DOUBLING),
            hedges: whole(tally.hedges),
            wins: whole(tally.wins.unwrap_or(0.0)),
        }
    }

    fn lasts(&self) -> Duration {
        FIRST_REST * (1 << self.doublings.min(LONGEST_DOUBLING))
    }
}

impl NoBenefitState {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn rests_until(&self) -> Option<Timestamp> {
        self.rest.map(|rest| rest.since.plus(rest.lasts()))
    }

    pub(super) fn sane(mut self, now: Timestamp) -> Self {
        let settle = |time: &mut Timestamp| *time = (*time).min(now);
        self.said = self.said.map(|said| said.not_after(now));
        self.not_before.iter_mut().for_each(settle);
        if let Some(rest) = &mut self.rest {
            settle(&mut rest.since);
        }
        self
    }

    pub(super) fn state(self) -> Self {
        Self {
            said: self.said.map(Said::state),
            ..self
        }
    }

    /// Ends the rest, and with it what was said: hedges since it began won.
    fn cleared(rest: &Rest) -> Self {
        Self {
            said: None,
            rest: None,
            not_before: Some(rest.since),
        }
    }
}

/// Notes whether hedges win, turns hedging off where that is asked for, and judges a probe; what is said of it.
pub(super) fn note(evidence: &Evidence<'_>, state: &mut NoBenefitState) -> Option<String> {
    let now = evidence.now;
    if evidence.rules.no_benefit == NoBenefit::Report || !evidence.rules.counted {
        state.rest = None;
    }
    if state
        .rest
        .is_some_and(|rest| now >= rest.since.plus(rest.lasts()))
    {
        judge_probe(evidence, state);
    } else if state.rest.is_none() {
        look(evidence, state);
    }
    told(evidence, state)
}

/// The hedges to judge by: those of the narrowest window with enough of them, none sent before `since`.
fn hedges<'a>(evidence: &'a Evidence<'_>, since: Option<Timestamp>) -> Option<(&'a Tally, f64)> {
    let from = since.map(|since| since.plus(evidence.rules.propagation));
    let usable = |tally: &&Tally| {
        tally.hedges >= HEDGES && tally.window <= FURTHEST && from.is_none_or(|from| tally.from() >= from)
    };
    evidence
        .tallies
        .iter()
        .find(usable)
        .and_then(|tally| Some((tally, tally.wins?)))
}

fn look(evidence: &Evidence<'_>, state: &mut NoBenefitState) {
    let tally = hedges(evidence, state.not_before);
    let outcome = tally.map(|(tally, wins)| Outcome::under(wins, tally.hedges, WORTH));
    state.said = Said::after(state.said, outcome, LINGERS, evidence.now);
    if let (Some((tally, _)), true) = (
        tally,
        outcome == Some(Outcome::Shown) && may_disable(evidence.rules),
    ) {
        state.rest = Some(Rest::new(tally, 0, evidence.now));
    }
}

/// What was shown once is refuted by an estimate on the good side of the line, and by nothing less.
fn judge_probe(evidence: &Evidence<'_>, state: &mut NoBenefitState) {
    let Some(rest) = state.rest else { return };
    let Some((tally, wins)) = hedges(evidence, Some(rest.since)) else {
        return;
    };
    if wins >= WORTH * tally.hedges {
        *state = NoBenefitState::cleared(&rest);
    } else if may_disable(evidence.rules) {
        state.rest = Some(Rest::new(tally, rest.doublings.saturating_add(1), evidence.now));
    }
}

fn told(evidence: &Evidence<'_>, state: &NoBenefitState) -> Option<String> {
    const ADVICE: &str = "hedging costs load and saves next to nothing: raise the percentile, or do without";
    let of = |wins: f64, hedges: f64| {
        let share = messages::number(wins / hedges.max(1.0) * 100.0);
        format!("{wins:.0} of {hedges:.0} hedges won ({share} %)")
    };
    if let Some(rest) = state.rest {
        let (won, lasts) = (
            of(rest.wins.into(), rest.hedges.into()),
            messages::duration(rest.lasts()),
        );
        return Some(if evidence.now < rest.since.plus(rest.lasts()) {
            format!("{won}; hedging is off, and is tried again after {lasts}; noBenefit: Report turns it on")
        } else {
            format!(
                "{won} before hedging went off for {lasts}; {HEDGES} hedges at a quarter of the budget now show whether that changed"
            )
        });
    }
    state.said?;
    Some(match hedges(evidence, state.not_before) {
        Some((tally, wins)) => {
            let window = messages::duration(tally.window);
            format!("{} in {window}; {ADVICE}", of(wins, tally.hedges))
        }
        None => format!("fewer than {HEDGES} hedges to measure it on now; {ADVICE}"),
    })
}
